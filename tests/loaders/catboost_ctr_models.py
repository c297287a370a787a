"""CatBoost models that split on CTRs, for tests, and rows with all their categories."""

from __future__ import annotations

import itertools
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import catboost as cb
import numpy as np
import pandas as pd

from catboost_models import text_of
from predgap._model.ensemble import Ensemble

JOBS = [f"job {i}" for i in range(9)]
CODES = [0, 3, 7, 8, 200, 20_000, 123_456]
RNG = np.random.default_rng(4)
N = 300
X_ = pd.DataFrame(
    {
        "x": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N)).astype(np.float32),
        "job": RNG.choice(JOBS, N, p=np.arange(1, 10) / 45),
        "code": RNG.choice(CODES, N),
        "z": RNG.normal(size=N).astype(np.float32),
    }
)
EFFECT = (
    RNG.normal(size=9)[X_["job"].str[-1].astype(int)]
    + RNG.normal(size=7)[np.searchsorted(CODES, X_["code"])]
    + np.nan_to_num(X_["x"])
    + 0.3 * X_["z"].to_numpy()
)
CATEGORICAL = ["job", "code"]
TARGETS = {
    "RMSE": EFFECT,
    "Logloss": (EFFECT > 0.3).astype(int),
    "MultiClass": np.digitize(EFFECT, [-1.0, 0.0, 1.0]),
}
# All kinds that CatBoost trains on a CPU, with several priors and numbers of classes
KINDS = {
    "default": None,
    "Borders": ["Borders:TargetBorderCount=3:Prior=0/1:Prior=0.3/1"],
    "Buckets": ["Buckets:TargetBorderCount=2:Prior=0.5/1:Prior=1/1:CtrBorderCount=40"],
    "means": ["BinarizedTargetMeanValue:TargetBorderCount=4:Prior=0.25/1:Prior=1/1"],
    "Counter": ["Counter:Prior=0/1:Prior=0.7/1"],
}


@cache
def trained(kind: str = "default", loss: str = "RMSE", policy: str = "SymmetricTree", **params: Any) -> Any:
    ctrs = KINDS[kind]
    if ctrs and loss != "RMSE":  # the classes are those of the labels
        ctrs = [re.sub(r":TargetBorderCount=\d", "", ctr) for ctr in ctrs]
    options: dict[str, Any] = {
        **{"iterations": 20, "depth": 3, "learning_rate": 0.4, "thread_count": 1, "verbose": 0},
        **{"allow_writing_files": False, "max_ctr_complexity": 1, "one_hot_max_size": 2},
        **{"loss_function": loss, "grow_policy": policy},
        **({"simple_ctr": ctrs} if ctrs else {}),
    }
    return cb.CatBoost(options | params).fit(cb.Pool(X_, TARGETS[loss], cat_features=CATEGORICAL))


def rows_with_all_levels(ensemble: Ensemble) -> pd.DataFrame:
    """All categories, and some that are new, with numbers at, below and above thresholds, and missing."""
    cuts = [ensemble.threshold[ensemble.feature == q].astype(np.float32)[:3] for q in (0, 3)]
    around = [[np.nan, *cut, *np.nextafter(cut, np.float32(-np.inf))] for cut in cuts]
    x = np.array(around[0] + around[1], dtype=np.float32)
    some = list(itertools.product([*JOBS, "new", "", "job 10"], [*CODES, 1, 5, 20_001]))
    rows = pd.DataFrame(some, columns=CATEGORICAL)
    many = pd.concat([rows.assign(x=x[i], z=x[-1 - i]) for i in range(len(x))], ignore_index=True)
    return many[["x", "job", "code", "z"]]


def document_of(model: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text_of(model))
    return found


def written(document: Any, path: Path) -> Path:
    path.write_text(json.dumps(document))
    return path
