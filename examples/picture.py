"""The picture of the front page: rankings of an XGBoost model, set side by side by exact gaps.

    python examples/picture.py [curves.svg]

Left: the mean gap when the k first features of each ranking are perturbed, for k = 0 ... 10. Right: PGI² of
SHAP and of greedy, one point per row. The same versions of the libraries give the same file.
"""

import sys

import numpy as np
import xgboost
from matplotlib import rc_context
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes

import predgap
from predgap import plots

X, y = load_diabetes(return_X_y=True, as_frame=True)
model = xgboost.XGBRegressor(n_estimators=50, max_depth=3, n_jobs=1).fit(X[:342], y[:342])
rows = X[342:]
explainer = predgap.Explainer(model, X)

contributions = model.get_booster().predict(xgboost.DMatrix(rows), pred_contribs=True)
rankings = {
    "greedy": explainer.rank(rows),
    "SHAP": predgap.Ranking.from_attributions(contributions, feature_names=X.columns),
    "XGBoost's gain": np.argsort(-model.feature_importances_, kind="stable"),
}
curves = {name: explainer.curve(rows, ranking) for name, ranking in rankings.items()}

with rc_context({"svg.hashsalt": "predgap", "font.size": 11}):
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    plots.gap_curves(curves, ax=left, noise=explainer.noise)
    left.set_title("Mean gap along three rankings, 100 rows")
    scores = {name: curve.mean(axis=1) for name, curve in curves.items()}
    plots.pgi2_against(scores["SHAP"], scores["greedy"], "SHAP", "greedy", ax=right)
    right.set_title("PGI², row by row")
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "curves.svg", metadata={"Date": None})
