"""The code on the page about clusters runs; that of Dask and joblib is run by tests/test_examples.py."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import xgboost
from sklearn.datasets import load_diabetes

import predgap

PAGE = Path(__file__).resolve().parents[2] / "docs" / "clusters.md"


def code_of(section: str) -> str:
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return code


def names() -> dict[str, object]:
    """What the first block of the page defines."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = xgboost.XGBRegressor(n_estimators=20, max_depth=3, n_jobs=1).fit(X, y)
    return {"explainer": predgap.Explainer(model, X), "patients": X.assign(patient=range(len(X))), "X": X}


@pytest.mark.filterwarnings("ignore")  # of Ray's own
def test_the_recipe_for_ray_gives_the_same_bits():
    ray = pytest.importorskip("ray", reason="Ray is not installed: make test-clusters, or pip install ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        page = names()
        exec(code_of("Ray"), page)
    finally:
        ray.shutdown()
    expected = page["explainer"].rank(page["X"], top=3)
    assert page["ranked"]["order"].to_pylist() == expected.order.tolist()
    assert repr(page["ranked"]["scores"].to_pylist()) == repr(expected.scores.tolist())  # with NaN


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_the_example_of_spark_runs(capsys, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    pytest.importorskip("pyspark", reason="pyspark is not installed: make test-clusters")
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        exec(code_of("Spark"), names() | {"spark": spark})
    finally:
        spark.stop()
    shown = capsys.readouterr().out
    assert "|      0|    2|" in shown
