"""The reproduction of the paper, beside the package that it tests: `make reproduce`.

It uses public names of predgap, and `predgap.algorithm1`. Nothing in predgap knows of it.

- `run`: all of it in one run that can be stopped and continued; `python -m reproduction` is its command
- `data`: the data sets, found or downloaded
- `models`: the authors' models, or models trained by the paper's grid search, with their rows and rankings
- `experiments`: one module per table or figure
- `ties`: all the rankings that greedy may give when ties are broken in other ways
- `results`: what an experiment returns, saved and loaded again; pieces of work, intervals, threads
- `published`: what the paper printed, and whether a number matches it
- `cells`, `claims`: a verdict on every printed number, and on the paper's sentences (`judging`)
- `sections`: the page, experiment by experiment, with `figures`; `page` writes it as Markdown and HTML
- `helpers`: what all of them share
"""
