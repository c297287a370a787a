"""The experiments of the paper, one module per table or figure.

Each has a `Config`, and a `run` that takes it with the subjects (a model with its test rows) and gives a
`Result`: one tidy table and how it was made.

- `published`: what the paper printed, and whether a number matches it
- `subjects`: the models and rows that experiments are about, and their SHAP rankings
- `ties`: all the rankings that greedy may give when ties are broken in other ways
- `agreement`: how often greedy and SHAP name the same features (Table 2)
- `pgi`: the average PGI² of greedy and SHAP (Table 3 and its twin for single trees)
- `randomising`: the error of a model whose most important features are drawn anew
- `results`: what `run` returns; saved, and loaded again
"""
