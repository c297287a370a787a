"""How much does a city matter to a CatBoost model? Categories that the model knows by their hashes only.

CatBoost turns categories into statistics of the training table, on which it then splits. predgap reads these
from the model. The gap of a city is compared with the average over CatBoost's own predictions.
"""

import catboost
import numpy as np
import pandas as pd

import predgap

rng = np.random.default_rng(0)
cities = [f"city {i:02}" for i in range(30)]
X = pd.DataFrame({"city": rng.choice(cities, 3000), "area": rng.uniform(20, 120, 3000)})
level = dict(zip(cities, rng.normal(3, 1, 30), strict=True))
price = X["area"] * X["city"].map(level) + rng.normal(0, 10, 3000)

options = {"iterations": 300, "max_ctr_complexity": 1, "verbose": 0, "allow_writing_files": False}
model = catboost.CatBoostRegressor(cat_features=["city"], **options).fit(X, price)
row = X[:1]

explainer = predgap.Explainer(model, predgap.Marginal(X))  # labels of the table are hashed as CatBoost does
gap = explainer.gap(row, ["city"])[0]
shares = X["city"].value_counts(normalize=True)
moved = model.predict(pd.DataFrame({"city": shares.index, "area": row["area"].item()})) - model.predict(row)
print(f"{row['city'].item()} drawn anew from the table: gap {gap:.6f}")
print(f"the same by CatBoost's predictions:       {shares.to_numpy() @ moved**2:.6f}")

ensemble = predgap.load(model, levels=X)  # with labels: for Flip noise, and to be saved without CatBoost
noise = predgap.PerFeature({"city": predgap.Flip(0.1), "area": predgap.Normal(5.0)})
first = predgap.Explainer(ensemble, noise).rank(X[:200]).top(1)
print(
    f"1 city in 10 mistaken, areas off by 5: the city comes first in {(first == 'city').mean():.0%} of rows"
)
ensemble.save("prices.predgap")
print(f"saved: {predgap.load('prices.predgap')}")
