"""The grid search: against models trained one by one, stopped and resumed, and its models as subjects."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xgboost

from predgap import PredgapError
from reproduction import models, published
from reproduction.data import Dataset, load_dataset, split
from reproduction.helpers import DatasetError
from reproduction.models import (
    Grid,
    authors_subjects,
    folds,
    parameters,
    search,
    shap_ranking,
    trained_subjects,
)
from reproduction.results import Result

CONFIG = Grid(max_depths=(1, 3), etas=(0.2, 0.9), subsamples=(0.3, 0.9), max_trees=6, n_folds=3, seed=5)
N_POINTS = 8  # in 4 blocks
N_FITS = N_POINTS * 3


def dataset(name: str, X: np.ndarray, y: np.ndarray) -> Dataset:
    names = [f"x{j}" for j in range(X.shape[1])]
    return Dataset(name=name, X=X, y=y, feature_names=names)


@pytest.fixture(scope="module")
def rows() -> Dataset:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(121, 3))
    y = X[:, 0] + np.where(X[:, 1] > 0, X[:, 2], 0.3) + rng.normal(scale=1.5, size=len(X))
    return dataset("tiny", X, y)


@pytest.fixture(scope="module")
def table(rows) -> Result:
    return search(CONFIG, rows)


@pytest.fixture
def fits(monkeypatch) -> list[dict]:
    """The settings of all models that are trained from here on."""
    seen, train = [], xgboost.train
    monkeypatch.setattr(xgboost, "train", lambda *a, **k: (seen.append(a[0]), train(*a, **k))[1])
    return seen


def errors(config: Grid, rows: Dataset, settings: dict, trees: int) -> np.ndarray:
    """RMSE on each fold of a model trained on the others, with so many trees and no more."""
    found = []
    for own in folds(config, rows.name, len(rows.y)):
        rest = sorted(set(range(len(rows.y))) - set(own))
        matrix = xgboost.DMatrix(rows.X[rest], rows.y[rest], nthread=1)
        predicted = xgboost.train(settings, matrix, trees).predict(xgboost.DMatrix(rows.X[own], nthread=1))
        residual = predicted - rows.y[own].astype(np.float32)  # XGBoost squares them in float32, too
        found.append(np.sqrt(np.mean((residual**2).astype(np.float64))))
    return np.array(found)


def standard_error(values: np.ndarray) -> float:
    n = len(values)
    return np.sqrt(np.sum((values - np.mean(values)) ** 2) / (n - 1) / n)


# ---- against models trained one by one -----------------------------------------------------------


def test_a_model_of_one_tree_is_the_first_tree_of_a_bigger_one(rows):
    matrix = xgboost.DMatrix(rows.X, rows.y, nthread=1)
    for point in itertools.product((1, 4), (0.2, 0.9), (0.1, 0.5, 1.0)):
        settings = parameters(*point, seed=3)
        bigger = xgboost.train(settings, matrix, 40)
        for trees in (1, 17):
            fewer = xgboost.train(settings, matrix, trees)
            assert fewer.get_dump(with_stats=True) == bigger.get_dump(with_stats=True)[:trees]
            np.testing.assert_array_equal(
                fewer.predict(matrix), bigger.predict(matrix, iteration_range=(0, trees))
            )


def test_the_table_is_that_of_models_trained_one_by_one(rows, table):
    assert len(table) == 2 * N_POINTS
    for kind, counts in (("Bigger", range(1, 7)), ("Single", (1,))):
        best: dict[tuple, tuple[int, np.ndarray]] = {}
        for point in itertools.product(CONFIG.max_depths, CONFIG.etas, CONFIG.subsamples):
            every = {n: errors(CONFIG, rows, parameters(*point, CONFIG.seed), n) for n in counts}
            best[point] = min(every.items(), key=lambda entry: np.mean(entry[1]))
        chosen = min(best, key=lambda point: np.mean(best[point][1]))
        found = {(row["max_depth"], row["eta"], row["subsample"]): row for row in table.where(kind=kind)}
        assert list(found) == list(best)
        for point, row in found.items():
            trees, rmse = best[point]
            excess = rmse - best[chosen][1]
            assert (row["dataset"], row["trees"]) == ("tiny", trees)
            assert (row["chosen"], row["published"]) == (point == chosen, False)
            assert row["cv_rmse"] == pytest.approx(np.mean(rmse), rel=1e-13)
            assert row["cv_standard_error"] == pytest.approx(standard_error(rmse), rel=1e-11)
            assert row["excess"] == pytest.approx(np.mean(excess), abs=1e-13)
            assert row["excess_standard_error"] == pytest.approx(standard_error(excess), abs=1e-13)
    assert len({row["trees"] for row in table.where(kind="Bigger")}) > 2  # the number of trees was a choice


def test_folds_are_all_rows_once_in_an_order_of_their_own():
    parts = folds(Grid(n_folds=5), "wine", 1279)
    assert [len(part) for part in parts] == [256, 256, 256, 256, 255]
    assert sorted(np.concatenate(parts)) == list(range(1279))
    for other in (folds(Grid(seed=1), "wine", 1279), folds(Grid(), "housing", 1279)):
        assert not np.array_equal(parts[0], other[0])


# ---- choice --------------------------------------------------------------------------------------


def test_of_equal_ones_the_simplest_is_chosen(rows):
    """Labels that are all the same are learnt by any setting."""
    grid = Grid(max_depths=(3, 1), etas=(0.9, 0.2), subsamples=(0.9, 0.3), max_trees=3, n_folds=2)
    result = search(grid, replace(rows, y=np.full(len(rows.y), 2.0)))
    assert set(result.column("cv_rmse")) == {0.0}
    for kind in published.KINDS:
        (row,) = result.where(kind=kind, chosen=True)
        assert (row["max_depth"], row["eta"], row["subsample"], row["trees"]) == (1, 0.2, 0.3, 1)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ((4, 0.9, 0.9, 40, 1.0), (1, 0.1, 0.1, 1, 1.0000001)),
        ((4, 0.9, 0.9, 2, 1.0), (1, 0.1, 0.1, 3, 1.0)),
        ((2, 0.9, 0.9, 5, 1.0), (3, 0.1, 0.1, 5, 1.0)),
        ((2, 0.1, 0.9, 5, 1.0), (2, 0.2, 0.1, 5, 1.0)),
        ((2, 0.1, 0.1, 5, 1.0), (2, 0.1, 0.2, 5, 1.0)),
    ],
)
def test_order_of_preference(better, worse):
    for pair in ((better, worse), (worse, better)):
        grid = [models._Candidate(one[:4], np.full(2, one[4])) for one in pair]
        rows = list(models._kind_rows(grid, None))
        assert [row[:4] for row in rows if row[-2]] == [better[:4]]


def test_the_published_setting_is_marked_in_the_grid(rows):
    """Named as one of the paper's data sets: 40 trees for Bigger, of which the grid allows 5."""
    config = Grid(max_depths=(3, 4), etas=(0.2, 0.9), subsamples=(0.3, 0.9), max_trees=5, n_folds=3)
    wine = replace(rows, name="wine")
    result = search(config, wine)
    assert len(result) == 2 * N_POINTS + 1
    (single,) = result.where(kind="Single", published=True)
    assert (single["max_depth"], single["eta"], single["subsample"], single["trees"]) == (4, 0.9, 0.9, 1)
    (bigger,) = result.where(kind="Bigger", published=True)
    assert (bigger["max_depth"], bigger["eta"], bigger["subsample"], bigger["trees"]) == (4, 0.2, 0.9, 40)
    assert not bigger["chosen"]
    expected = np.mean(errors(config, wine, parameters(4, 0.2, 0.9, config.seed), 40))
    assert bigger["cv_rmse"] == pytest.approx(expected, rel=1e-13)


def test_the_published_setting_is_scored_though_it_is_in_no_grid(rows):
    """The appendix names no number of trees for telemetry."""
    telemetry = replace(rows, name="telemetry")
    result = search(replace(CONFIG, max_trees=30), telemetry)
    assert len(result) == 2 * N_POINTS + 1  # the Single one is in the grid
    (bigger,) = result.where(kind="Bigger", published=True)
    assert (bigger["max_depth"], bigger["eta"], bigger["subsample"]) == (4, 0.3, 0.8)
    settings = parameters(4, 0.3, 0.8, CONFIG.seed)
    every = [np.mean(errors(CONFIG, telemetry, settings, n)) for n in range(1, 31)]
    assert bigger["trees"] == np.argmin(every) + 1
    assert bigger["cv_rmse"] == pytest.approx(min(every), rel=1e-13)
    (chosen,) = result.where(kind="Bigger", chosen=True)
    assert bigger["excess"] == pytest.approx(bigger["cv_rmse"] - chosen["cv_rmse"], rel=1e-9)


# ---- threads, progress, and going on after a stop ------------------------------------------------


def test_the_same_for_any_number_of_threads_and_after_saving(rows, table, tmp_path):
    for n_jobs in (2, 5, -1):
        assert search(CONFIG, rows, n_jobs=n_jobs).rows == table.rows
    table.save(tmp_path)
    assert Result.load(tmp_path, "training").rows == table.rows
    manifest = json.loads((tmp_path / "training.json").read_text())
    assert manifest["config"]["max_depths"] == [1, 3]
    assert manifest["seed"] == 5
    assert list(manifest["files"]) == ["rows/tiny"]


def test_progress_counts_models(rows, tmp_path, fits):
    for n_new, expected in ((N_FITS, range(1, N_FITS + 1)), (0, (6, 12, 18, 24))):
        steps: list[int] = []
        totals: list[int] = []
        options = {"progress": lambda done, total, s=steps, t=totals: (s.append(done), t.append(total))}
        search(CONFIG, rows, folder=tmp_path, **options)
        assert set(totals) == {N_FITS}
        assert steps == sorted(steps)
        assert set(steps) == set(expected)
        assert len(fits) == n_new
        fits.clear()


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_search_that_is_stopped_goes_on(rows, table, tmp_path, fits, n_jobs):
    def stop(done: int, total: int) -> None:
        if done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(CONFIG, rows, n_jobs=n_jobs, folder=tmp_path, progress=stop)
    assert len(fits) <= 12  # of the second block perhaps all, of the third none
    assert len(list(tmp_path.iterdir())) == 1
    fits.clear()
    again = search(CONFIG, rows, n_jobs=n_jobs, folder=tmp_path)
    assert len(fits) == N_FITS - 6
    assert again.rows == table.rows


KILLED = """
import os, sys
from reproduction.data import load_dataset, split
from reproduction.models import Grid, search
folder, last = sys.argv[1], int(sys.argv[2])
config = Grid(max_depths=(1, 2), etas=(0.5,), subsamples=(0.5, 0.9), max_trees=3, n_folds=3)
progress = lambda done, total: os._exit(9) if done == last else None
train = split(load_dataset("diabetes")).train
result = search(config, train, n_jobs=2, folder=folder, progress=progress)
result.save(f"{folder}/out")
"""


def test_a_search_that_is_killed_goes_on_to_the_same_bytes(tmp_path):
    def run(folder: str, last: int) -> int:
        path = os.pathsep.join(filter(None, sys.path))
        command = [sys.executable, "-c", KILLED, str(tmp_path / folder), str(last)]
        return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False).returncode

    def blocks(folder: str) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (tmp_path / folder).glob("*.npy")}

    assert [run("whole", -1), run("killed", 8)] == [0, 9]
    assert [len(blocks("whole")), len(blocks("killed"))] == [2, 1]
    assert run("killed", -1) == 0
    assert blocks("killed") == blocks("whole")
    whole, killed = (tmp_path / name / "out" / "training.csv" for name in ("whole", "killed"))
    assert killed.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("damage", ["empty", "cut", "changed"])
def test_a_damaged_block_is_computed_again(rows, table, tmp_path, fits, damage):
    search(CONFIG, rows, folder=tmp_path)
    fits.clear()
    block = sorted(tmp_path.iterdir())[1]
    content = bytearray(block.read_bytes())
    content[-100] ^= 1
    block.write_bytes({"empty": b"", "cut": content[:200], "changed": content}[damage])
    assert search(CONFIG, rows, folder=tmp_path).rows == table.rows
    assert len(fits) == 6
    fits.clear()
    search(CONFIG, rows, folder=tmp_path)
    assert not fits


@pytest.mark.parametrize(
    "change",
    [
        {"config": {"seed": 6}},
        {"config": {"n_folds": 4}},
        {"config": {"max_trees": 5}},
        {"config": {"subsamples": (0.3, 0.8)}},
        {"name": "other"},
        {"rows": "X"},
        {"rows": "y"},
        {"xgboost": "0.0"},
    ],
    ids=str,
)
def test_blocks_of_another_search_are_not_used(rows, tmp_path, fits, monkeypatch, change):
    search(CONFIG, rows, folder=tmp_path)
    fits.clear()
    config, rows = replace(CONFIG, **change.get("config", {})), replace(rows, name=change.get("name", "tiny"))
    if "rows" in change:
        part = getattr(rows, change["rows"]).copy()
        part.flat[7] = np.nextafter(part.flat[7], 9)
        rows = replace(rows, **{change["rows"]: part})
    if "xgboost" in change:
        monkeypatch.setattr(xgboost, "__version__", change["xgboost"])
    search(config, rows, folder=tmp_path)
    assert len(fits) == N_POINTS * config.n_folds


def test_blocks_serve_a_larger_grid(rows, tmp_path, fits):
    search(CONFIG, rows, folder=tmp_path)
    fits.clear()
    search(replace(CONFIG, etas=(0.1, 0.2, 0.9), max_depths=(1,)), rows, folder=tmp_path)
    assert len(fits) == 6


# ---- the chosen models as subjects ---------------------------------------------------------------


def test_trained_subjects(tmp_path):
    steps: list[tuple[int, int]] = []
    subjects, result = trained_subjects(
        *(CONFIG,),
        datasets=["diabetes"],
        folder=tmp_path,
        n_jobs=2,
        progress=lambda *step: steps.append(step),
    )
    assert steps[-1] == (N_FITS, N_FITS)
    parts = split(load_dataset("diabetes"), test_share=0.2, seed=5)
    assert result.rows == search(CONFIG, parts.train).rows
    assert [subject.name for subject in subjects] == ["Bigger diabetes", "Single diabetes"]
    assert [subject.model.name for subject in subjects] == ["diabetes.json", "diabetes_single.json"]
    for subject in subjects:
        assert subject.model.parent == tmp_path / "models"
        np.testing.assert_array_equal(subject.X, parts.test.X)
        np.testing.assert_array_equal(subject.y, parts.test.y)
        np.testing.assert_array_equal(subject.training.X, parts.train.X)
        np.testing.assert_array_equal(subject.training.y, parts.train.y)
        assert subject.training.in_order
        (row,) = result.where(kind=subject.kind, chosen=True)
        settings = parameters(row["max_depth"], row["eta"], row["subsample"], CONFIG.seed)
        matrix = xgboost.DMatrix(parts.train.X, parts.train.y, nthread=1)
        booster = xgboost.train(settings, matrix, row["trees"])
        np.testing.assert_allclose(
            subject.ensemble.predict(subject.X), booster.predict(xgboost.DMatrix(subject.X)), rtol=1e-6
        )
        assert subject.ensemble.names == parts.train.feature_names
        assert shap_ranking(subject).order.shape == subject.X.shape
        assert list(subject.files) == ["rows/diabetes", f"models/{subject.model.name}"]
    assert list(result.files) == ["rows/diabetes", "models/diabetes.json", "models/diabetes_single.json"]


def test_trained_subjects_again_are_the_same_bytes(tmp_path, fits):
    def run(folder: Path) -> tuple[dict[str, bytes], Result]:
        _, result = trained_subjects(CONFIG, datasets=["diabetes"], folder=folder)
        return {path.name: path.read_bytes() for path in (folder / "models").iterdir()}, result

    models, result = run(tmp_path / "a")
    assert len(fits) == N_FITS + 2
    fits.clear()
    again, resumed = run(tmp_path / "a")
    assert len(fits) == 2
    assert (again, resumed.rows, resumed.files) == (models, result.rows, result.files)


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        *({"max_depths": ()}, {"max_depths": (0, 1)}, {"etas": (0.1, 0.1)}, {"etas": (0.0,)}),
        *({"subsamples": (1.1,)}, {"subsamples": ()}, {"etas": (float("nan"),)}, {"max_trees": 0}),
        *({"n_folds": 1}, {"test_share": 1.0}, {"seed": -1}, {"seed": 1 << 31}),
    ],
    ids=str,
)
def test_impossible_configs_are_refused(wrong):
    with pytest.raises(PredgapError, match="impossible"):
        Grid(**wrong)


def test_what_does_not_fit_together_is_refused(rows, tmp_path):
    with pytest.raises(DatasetError, match="2 rows for 3 folds"):
        search(CONFIG, rows.take([0, 1]))
    with pytest.raises(PredgapError, match="n_jobs"):
        search(CONFIG, rows, n_jobs=0)
    with pytest.raises(PredgapError, match="at least one data set"):
        trained_subjects(CONFIG, datasets=[], folder=tmp_path)


# ---- the paper's data sets -----------------------------------------------------------------------


def test_subjects_of_several_data_sets(shared_data, tmp_path):
    coarse = Grid(max_depths=(4,), etas=(0.2, 0.9), subsamples=(0.9,), max_trees=10)
    steps: list[tuple[int, int]] = []
    subjects, result = trained_subjects(
        *(coarse, shared_data),
        datasets=["wine", "diabetes"],
        folder=tmp_path,
        progress=lambda *step: steps.append(step),
    )
    assert [subject.name for subject in subjects] == [
        *("Bigger wine", "Bigger diabetes", "Single wine", "Single diabetes")
    ]
    assert subjects[0].model.name == "winequality_red.json"
    assert "fixed_acidity" in subjects[0].ensemble.names
    assert list(subjects[0].files) == ["raw/winequality-red.csv", "models/winequality_red.json"]
    assert steps[-1] == ((2 + 2 + 2) * 5, (2 + 2 + 2) * 5)  # grids, and the two published settings of wine
    assert [n for n, _ in steps] == sorted(n for n, _ in steps)
    alone = search(coarse, dataset("wine", subjects[0].training.X, subjects[0].training.y))
    assert tuple(row for row in result.rows if row[0] == "wine") == alone.rows


@pytest.mark.slow_paper
def test_trees_of_depth_4_are_better_than_the_published_ones_of_depth_3(shared_data):
    """Though the paper says that it searched depths up to 4: on the authors' own training rows."""
    grid = Grid(max_depths=(3, 4), etas=(0.9,), subsamples=(0.9,), max_trees=1)
    for subject in authors_subjects(shared_data, kinds=["Single"], datasets=["housing", "telemetry"]):
        result = search(grid, dataset(subject.dataset, subject.training.X, subject.training.y))
        (deep,) = result.where(kind="Single", chosen=True)
        assert deep["max_depth"] == 4
        (listed,) = result.where(kind="Single", published=True)
        assert listed["max_depth"] == 3
        assert listed["excess"] > 4 * listed["excess_standard_error"]
