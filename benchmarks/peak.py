"""Peak memory of a process that asks a model every question; run with the file of a pickled model.

python benchmarks/peak.py results/models/forest-….pickle
"""

from __future__ import annotations

import contextlib
import json
import pickle
import resource
import sys
from pathlib import Path

import numpy as np
from explainers import Explainers
from questions import ALONE, ASKED
from trained import GROWN, Trained

import predgap

MOST = 1024.0  # MiB
ROWS = 2
MANY = 256  # rows of small models, in one call


def mebibytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def ask_everything(case: Trained) -> None:
    explainers = Explainers(case)
    d = case.X.shape[1]
    order = np.arange(d)[None]
    if case.name in GROWN:
        explainers.within(1e-6).gap(case.rows(ROWS), np.ones(d, dtype=bool))
        return
    tables = [x[None] for x in case.rows(ROWS)]
    if case.name not in ASKED:
        tables = [case.rows(MANY)]
        order = np.repeat(order, MANY, axis=0)
    for question in ASKED.get(case.name, ALONE):
        for X in tables:
            with contextlib.suppress(predgap.CostError):
                question.ask(explainers, X, order)


def main() -> None:
    case = pickle.loads(Path(sys.argv[1]).read_bytes())
    loaded = mebibytes()
    ask_everything(case)
    print(json.dumps({"model loaded, MiB": loaded, "peak, MiB": mebibytes(), "aim, MiB": MOST}))


if __name__ == "__main__":
    main()
