"""A scikit-learn Pipeline is explained in the columns of its table, not in dummies and scaled numbers.

The pipeline encodes a category as dummies and scales the numbers. The explainer takes the table as it is:
noise is in years and hours, the category moves as a whole, and the rankings name the columns. SHAP values of
the pipeline's last step are added up for each column, and scored as a ranking.
"""

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import predgap

rng = np.random.default_rng(0)
n = 2_000
X = pd.DataFrame(
    {
        "job": rng.choice(["clerk", "nurse", "cook", "pilot"], n, p=[0.4, 0.3, 0.2, 0.1]),
        "age": rng.integers(18, 65, n),
        "hours": rng.normal(38.0, 6.0, n).round(1),
    }
)
X.loc[rng.random(n) < 0.1, "hours"] = np.nan
pay = X["job"].map({"clerk": 20.0, "nurse": 25.0, "cook": 16.0, "pilot": 60.0})
y = pay * X["hours"].fillna(38.0) + 5.0 * X["age"]

prepare = ColumnTransformer(
    [
        ("category", OneHotEncoder(sparse_output=False), ["job"]),
        ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "hours"]),
    ]
)
pipeline = make_pipeline(prepare, HistGradientBoostingRegressor(max_iter=50, random_state=0)).fit(X, y)

explainer = predgap.Explainer(pipeline, X)  # each column moves by 0.3 of its spread
rows = X[:100]
print("features:", ", ".join(explainer.ensemble.names))
for name in X.columns:
    print(f"root of the mean gap of {name:6} {np.sqrt(explainer.gap(rows, [name]).mean()):8.1f}")

found = predgap.evaluate(explainer, rows, ["shap", "permutation", "greedy"], y=y[:100])
print(f"\n{found}\n\n{found.verdict()}\n")

same = np.allclose(explainer.ensemble.predict(explainer.transform(X)), pipeline.predict(X), rtol=1e-12)
print("the explained model predicts as the pipeline does:", same)
assert same
