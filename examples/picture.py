"""The picture of the front page: is SHAP faithful to an XGBoost model?

    python examples/picture.py [curves.svg]

Left: the mean gap when the k first features of each ranking are perturbed, for k = 0 ... 10. Right: the mean
of each curve, PGI², between that of a random ranking and that of the best one. The same versions of the
libraries give the same file.
"""

import sys

import xgboost
from matplotlib import rc_context
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes

import predgap
from predgap import plots

X, y = load_diabetes(return_X_y=True, as_frame=True)
model = xgboost.XGBRegressor(n_estimators=50, max_depth=3, n_jobs=1).fit(X[:342], y[:342])
explainer = predgap.Explainer(model, X)
found = predgap.evaluate(
    explainer, X[342:], {"greedy": "greedy", "SHAP": "shap", "XGBoost's gain": "gain"}, metrics=["pgi2"]
)

with rc_context({"svg.hashsalt": "predgap", "font.size": 11}):
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    plots.gap_curves(dict(zip(found.names, found.curves, strict=True)), ax=left, noise=explainer.noise)
    left.set_title("Mean gap along three rankings, 100 rows")
    found.plot(ax=right)
    right.set_title("Mean PGI², from random to best")
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "curves.svg", metadata={"Date": None})
