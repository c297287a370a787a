"""A ranking belongs to a noise: the same model and rows under two of them.

Small noise asks which features matter near the row. Drawing each feature anew from its column asks
which features matter at all. The two name different features, and each ranking scores best under its own
noise.
"""

import numpy as np
import xgboost
from sklearn.datasets import load_diabetes

import predgap

X, y = load_diabetes(return_X_y=True, as_frame=True)
model = xgboost.XGBRegressor(n_estimators=50, max_depth=3, n_jobs=1).fit(X[:342], y[:342])
rows = X[342:]

noises = {
    "near": predgap.Relative(X, 0.1),  # a tenth of each column's standard deviation
    "anywhere": predgap.Marginal(X[:342]),  # a value of the column
}
explainers = {name: predgap.Explainer(model, noise) for name, noise in noises.items()}
rankings = {name: explainer.rank(rows) for name, explainer in explainers.items()}

print("mean PGI²          ranking for: near   ranking for: anywhere")
for name, explainer in explainers.items():
    scores = [explainer.pgi2(rows, rankings[other]).mean() for other in noises]
    print(f"noise: {name:10} {scores[0]:16.1f} {scores[1]:23.1f}")
    best = "near" if np.argmax(scores) == 0 else "anywhere"
    assert best == name

agreement = rankings["near"].agreement(rankings["anywhere"], k=1)
print(f"\nthe same first feature in {agreement:.0%} of the rows; most often first:")
for name, ranking in rankings.items():
    features, times = np.unique(ranking.top(1), return_counts=True)
    most = np.argsort(-times, kind="stable")[:3]
    print(f"  {name:10}" + ", ".join(f"{features[j]} ({times[j] / len(rows):.0%})" for j in most))
