"""The experiments of the paper, one module per table or figure.

Each has a `Config`, and a `run` that takes it with the subjects (a model with its test rows) and gives a
`Result`: one tidy table and how it was made. Most take some of these, too:

- `n_jobs`: threads, or -1 for all cores; the numbers are the same for any
- `progress`: a function that is told how many steps are done, of how many; a step is a subject where nothing
  else is said, and an exception raised in it stops the run
- `cache`: a folder for what is finished on the way, where a run that was stopped finds it and goes on from
  there, to the same numbers

What they need:

- `published`: what the paper printed, and whether a number matches it
- `subjects`: the models and rows that experiments are about, and their rankings
- `training`: models of the same kinds by grid search
- `pairs`: random pairs of a row and a subset
- `ties`: all the rankings that greedy may give when ties are broken in other ways
- `algorithm1`: the paper's own algorithm
- `bootstrap`: intervals over rows that are drawn anew
- `threads`: threads that can be interrupted
- `results`: what `run` returns; saved, and loaded again
- `cache`: finished pieces of work, for runs that are stopped

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

All together:

- `studies`: each experiment with its config, thorough or quick
- `claims`: the paper's sentences, with a verdict each
- `cells`: a verdict on every printed number
- `reproduce`: all in one run that can be stopped and continued
"""
