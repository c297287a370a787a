"""The reproduction of the paper: `predgap reproduce`, with the extra `reproduce`.

- `data`: the data sets, found or downloaded
- `common`: models, rankings and results that experiments share, and what the paper printed
- `experiments`: one module per table or figure
- `verdicts`: does what was found agree with the paper?
- `reproduce`: all of it in one run that can be stopped and continued
- `report`: the pages

It is built on the public names of predgap; nothing but the command line imports it.
"""
