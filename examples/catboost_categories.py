"""How much does a city matter to a CatBoost model? Categories that the model knows by their hashes only.

CatBoost turns categories, and combinations of them, into statistics of the training table, on which it then
splits. predgap reads these from the model. The gap of a city is compared with the average over CatBoost's own
predictions; then SHAP and the gain are scored as rankings.
"""

import catboost
import numpy as np
import pandas as pd

import predgap

rng = np.random.default_rng(0)
cities, kinds = [f"city {i:02}" for i in range(30)], ["flat", "house", "loft"]
X = pd.DataFrame(
    {
        "city": rng.choice(cities, 3000),
        "kind": rng.choice(kinds, 3000, p=[0.6, 0.3, 0.1]),
        "area": rng.uniform(20, 120, 3000),
    }
)
level = {(city, kind): rng.normal(3, 1) for city in cities for kind in kinds}
price = X["area"] * [level[pair] for pair in zip(X["city"], X["kind"], strict=True)] + rng.normal(0, 10, 3000)

# With 200 trees or more, CatBoost combines categories by default.
options = {"iterations": 200, "depth": 4, "random_seed": 0, "verbose": 0, "allow_writing_files": False}
model = catboost.CatBoostRegressor(cat_features=["city", "kind"], **options).fit(X, price)
row = X[:1]

explainer = predgap.Explainer(model, predgap.Marginal(X))  # labels of the table are hashed as CatBoost does
gap = explainer.gap(row, ["city"])[0]
shares = X["city"].value_counts(normalize=True)
moved = pd.concat([row] * len(shares)).assign(city=shares.index)
by_hand = shares.to_numpy() @ (model.predict(moved) - model.predict(row)) ** 2
print(f"{row['city'].item()} drawn anew from the table: gap {gap:.6f}")
print(f"the same by CatBoost's predictions:       {by_hand:.6f}\n")
assert np.isclose(gap, by_hand, rtol=1e-6)

found = predgap.evaluate(predgap.Explainer(model, X), X[:40], ["shap", "gain", "greedy"])
print(f"{found}\n\n{found.verdict()}\n")

ensemble = predgap.load(model, levels=X)  # with labels: for Flip noise, and to be saved without CatBoost
noise = predgap.PerFeature(
    {"city": predgap.Flip(0.1), "kind": predgap.Flip(0.1), "area": predgap.Normal(5.0)}
)
first = predgap.Explainer(ensemble, noise).rank(X[:40]).top(1)
share = (first == "city").mean()
print(f"1 category in 10 mistaken, areas off by 5: the city comes first in {share:.0%} of rows")
ensemble.save("prices.predgap")
print(f"saved: {predgap.load('prices.predgap')}")
