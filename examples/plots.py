"""Six plots of one XGBoost model: which ranking is better, and what moves its predictions.

python examples/plots.py [plots.png]
"""

import sys

import numpy as np
import xgboost
from matplotlib import rc_context
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes

import predgap
from predgap import plots

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = xgboost.XGBRegressor(n_estimators=50, max_depth=3, n_jobs=1).fit(X[:342], y[:342])
rows, explainer = X[342:], predgap.Explainer(model, X)
noise, row = explainer.noise, 17

contributions = model.get_booster().predict(xgboost.DMatrix(rows), pred_contribs=True)
gain = model.feature_importances_
rankings = {
    "greedy": explainer.rank(rows),
    "SHAP": predgap.Ranking.from_attributions(contributions, feature_names=X.columns),
    "gain": predgap.Ranking.from_attributions(np.tile(gain, (len(rows), 1)), feature_names=X.columns),
}
curves = {name: explainer.curve(rows, ranking) for name, ranking in rankings.items()}
rng = np.random.default_rng(0)
orders = rng.permuted(np.tile(np.arange(X.shape[1]), (20, len(rows), 1)), axis=2)
random = np.mean([explainer.curve(rows, order) for order in orders], axis=0)

scores = np.array([curve.mean(axis=1) for curve in curves.values()])
again = rng.integers(len(rows), size=(1000, len(rows)))  # the bootstrap
lows, highs = np.percentile(scores[:, again].mean(axis=2), [2.5, 97.5], axis=1)
agreeing = [[a.agreement(b, k=1) for b in rankings.values()] for a in rankings.values()]
single = explainer.rank(rows, "single")
sweep = explainer.sweep(rows, {"greedy": "greedy", "SHAP": rankings["SHAP"], "gain": rankings["gain"]})

with rc_context({"axes.titlelocation": "left"}):
    figure = Figure(figsize=(13, 11), layout="constrained")
    (curves_ax, scores_ax), (swarm_ax, row_ax), (pairs_ax, strengths_ax) = figure.subplots(3, 2)
    plots.gap_curves(curves, random=random, noise=noise, ax=curves_ax).set_title("gap_curves")
    plots.leaderboard(
        list(curves), scores.mean(axis=1), lows, highs, random=random.mean(axis=1), best=scores.max(axis=0),
        noise=noise, ax=scores_ax,
    ).set_title("leaderboard")  # fmt: skip
    plots.swarm(single.scores, rows, X.columns, rows=[row], noise=noise, ax=swarm_ax).set_title("swarm")
    plots.ladder(rankings["greedy"], row, values=rows, noise=noise, ax=row_ax).set_title("ladder")
    plots.agreement(list(rankings), agreeing, noise=noise, ax=pairs_ax).set_title(
        "agreement: same first feature"
    )
    plots.by_strength(sweep, noise=noise, ax=strengths_ax).set_title("by_strength")
path = sys.argv[1] if len(sys.argv) > 1 else "plots.png"
figure.savefig(path, dpi=80)
print(f"Six plots: {path}")
