"""Is a SHAP ranking faithful to the model? A LightGBM classifier on scikit-learn's breast cancer data.

LightGBM's own SHAP values are turned into a ranking of the 30 features for each row. Its PGI² is compared
with that of a ranking built from exact gaps, and with that of the order in which the columns happen to stand.
"""

import lightgbm
from sklearn.datasets import load_breast_cancer

import predgap

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
train, rows = X[:500], X[500:]
model = lightgbm.LGBMClassifier(n_estimators=100, num_leaves=15, n_jobs=1, verbose=-1).fit(train, y[:500])

explainer = predgap.Explainer(model, train)
shap_values = model.booster_.predict(rows, pred_contrib=True)  # the last column is the bias
rankings = {
    "greedy": explainer.rank(rows),
    "SHAP": predgap.Ranking.from_attributions(shap_values, feature_names=X.columns),
}
scores = {name: explainer.pgi2(rows, ranking) for name, ranking in rankings.items()}
scores["column order"] = explainer.pgi2(rows, list(X.columns))

print(f"PGI² of {len(rows)} rows, in squared log-odds; higher is more faithful")
for name, pgi2 in scores.items():
    print(f"  {name:13} {pgi2.mean():7.4f}")
print(f"SHAP scores higher than greedy in {(scores['SHAP'] > scores['greedy']).mean():.0%} of the rows")
print(f"both name the same first feature in {rankings['greedy'].agreement(rankings['SHAP'], k=1):.0%}")

worst = int((scores["SHAP"] / scores["greedy"]).argmin())
print(f"row {rows.index[worst]}, where SHAP does worst against greedy:")
for name, ranking in rankings.items():
    print(f"  {name:13} {', '.join(ranking.top(3)[worst])}")
