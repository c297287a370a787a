"""What the experiments share.

- `published`: what the paper printed, and whether a number matches it
- `subjects`: the models and rows that experiments are about, and their rankings
- `training`: models of the same kinds by grid search
- `pairs`: random pairs of a row and a subset
- `ties`: all the rankings that greedy may give when ties are broken in other ways
- `bootstrap`: intervals over rows that are drawn anew
- `threads`: threads that can be interrupted
- `results`: what an experiment returns; saved, and loaded again
- `cache`: finished pieces of work, for runs that are stopped
"""
