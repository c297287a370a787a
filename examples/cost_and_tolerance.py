"""What does an answer cost, and what does a wider tolerance save? A LightGBM model of 500 trees.

`Explainer.cost` says beforehand how an answer would be obtained and what it would take. The same PGI² is then
computed to 1e-6 and to 1e-3, both guaranteed, and approximately, with a stated error.
"""

from time import perf_counter

import lightgbm
import numpy as np

import predgap

rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 20))
y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3:8].sum(axis=1) + 0.3 * rng.normal(size=3000)
model = lightgbm.LGBMRegressor(n_estimators=500, num_leaves=31, n_jobs=1, verbose=-1).fit(X, y)
noise, rows = predgap.Relative(X, 0.3), X[:3]

explainer = predgap.Explainer(model, noise)  # rtol=1e-6
for name, question in (("gap of 3 features", [0, 1, 2]), ("ranking of all 20", "rank")):
    cost = explainer.cost(question, rows)
    print(f"{name}: {cost.method}, about {cost.milliseconds:.2g} ms and {cost.megabytes:.2g} MB a row")

ranking = explainer.rank(rows)
finest = explainer.pgi2(rows, ranking)
print(f"\n{'PGI²':20} {'first row':>12} {'ms a row':>9}  difference from the first line, at most")
wider, approximate = predgap.Explainer(model, noise, rtol=1e-3), explainer.approximate(rtol=1e-2)
for name, ask in {
    "within 1e-6": lambda: explainer.pgi2(rows, ranking),
    "within 1e-3": lambda: wider.pgi2(rows, ranking),
    "approximate, 1e-2": lambda: approximate.pgi2(rows, ranking).value,
}.items():
    start = perf_counter()
    pgi2 = ask()
    milliseconds = 1e3 * (perf_counter() - start) / len(rows)
    print(f"{name:20} {pgi2[0]:12.8f} {milliseconds:9.1f}  {abs(pgi2 / finest - 1).max():.0e}")

first = explainer.rank(rows, top=5)
proven = bool((first.confidence == 1).all())
print(f"\nthe first 5 places alone: {', '.join(first.top(5)[0])}; all rows proven: {proven}")
