"""The experiments of the paper, one module per table or figure.

Each has a `Config`, and a `run` that takes it with the subjects (a model with its test rows) and gives a
`Result`: one tidy table and how it was made. Most take some of these, too:

- `n_jobs`: threads, or -1 for all cores; the numbers are the same for any
- `progress`: a function that is told how many steps are done, of how many; a step is a subject where nothing
  else is said, and an exception raised in it stops the run
- `cache`: a folder for what is finished on the way, where a run that was stopped finds it and goes on from
  there, to the same numbers

Experiments:

- `precision`: the error of sampled gaps (the figures of NMAE)
- `clocks`, `equal_time`: how long exact and sampled gaps take, and Table 1
- `stability`: Algorithm 1 in float32 and float64
- `agreement`: how often greedy and SHAP name the same features (Table 2)
- `pgi`: the average PGI² of greedy and SHAP (Table 3 and its twin for single trees)
- `randomising`: the error of a model whose most important features are drawn anew
- `retraining`: the error of models trained without the most important features
- `sampled_rankings`: greedy on sampled gaps against exact greedy
- `cayley`, `entropy`, `pgu`: rankings compared as in the authors' repository

`studies` lists each of them with its config, thorough or quick.
"""
