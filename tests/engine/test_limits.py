"""The limits of a row hold while it runs, by counted work: whatever the machine does, and on any threads."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from asking import Core, kernel_of
from predgap import CostError, Ensemble, Explainer, Normal, Ranking, _core
from predgap._engine import context as running
from predgap._engine.accuracy import EXACT, guaranteed
from predgap._engine.kernels import Kernel
from strategies import cities, full_trees

D = 8
NO_LIMIT = 1e9
UNITS = ((0, 1), (2, 3, 4), (5,), (6,), (7,))
ROW = 3  # the one that takes most, of six

Ask = Callable[[Core, np.ndarray, np.ndarray], Any]
ASKED: dict[str, Ask] = {
    "gap": lambda e, X, _: e.gap(X, _masks(), guaranteed(1e-6)),
    "exact gap": lambda e, X, _: e.gap(X, _masks(), EXACT),
    "moments": lambda e, X, _: e.moments(X, _masks(), EXACT),
    "curve": lambda e, X, still: e.curve(still, np.arange(D, dtype=np.int32)[None], EXACT),
    "rank": lambda e, X, still: e.rank(still, "greedy", D, EXACT),
    "first places": lambda e, X, still: e.rank(still, "greedy", 3, guaranteed(1e-6)),
    "units": lambda e, X, still: e.rank(still, "greedy", len(UNITS), EXACT),
    "subsets": lambda e, X, still: e.subset_gaps(
        still, np.tile(np.arange(D, dtype=np.int32), (len(X), 1)), np.full(D + 1, 1 / (D + 1)), EXACT
    ),
    "search": lambda e, X, still: e.search(
        still, np.tile(np.arange(D, dtype=np.int32), (len(X), 1)), D, EXACT
    ),
}  # fmt: skip
"""Questions about six rows of which one takes far more than the others: these stay, or few features move."""


def _masks() -> np.ndarray:
    masks = np.zeros((6, D), dtype=np.bool_)
    masks[:, 0] = masks[ROW] = True
    return masks


@pytest.fixture(scope="module")
def forest() -> tuple[Ensemble, np.ndarray, np.ndarray]:
    """An ensemble, rows, and rows all but one of which the noise cannot move past a threshold."""
    rng = np.random.default_rng(0)
    ensemble = full_trees(rng, n_trees=12, depth=7, n_features=D)
    X = rng.normal(size=(6, D))
    still = np.full((6, D), 1e6)
    still[ROW] = X[ROW]
    return ensemble, X, still


def _made(
    forest: tuple[Ensemble, np.ndarray, np.ndarray], strategy: Any, n_threads: int = 1, asked: str = ""
) -> Core:
    explainer = Explainer(forest[0], Normal(0.4), n_jobs=n_threads, _strategy=strategy)
    return Core(explainer, UNITS if asked == "units" else None)


def _took(kernel: Kernel, ask: Callable[[], Any]) -> tuple[float, float]:
    """Milliseconds and megabytes by count, of the row that took most."""
    core = kernel.independent("counted work")
    core.most_work()
    ask()
    return core.most_work()


def _refused(ask: Callable[[], Any]) -> tuple[int, float, float]:
    with pytest.raises(_core.TooCostly) as refused:
        ask()
    return refused.value.args


@contextmanager
def _load() -> Iterator[None]:
    """Two processes that keep the machine busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.mark.parametrize("strategy", ["compiled", "pairs", None])
@pytest.mark.parametrize("asked", ASKED)
def test_a_row_is_refused_after_the_same_work_on_any_threads_idle_and_under_load(forest, asked, strategy):
    if strategy == "pairs" and asked in ("subsets", "search", "units"):
        pytest.skip("minutes, if each gap is a walk")
    ask, rows = ASKED[asked], forest[1:]
    if strategy is None:  # on a plan all rows take as much: whichever is refused first, it is the same row
        rows = tuple(np.tile(X[ROW], (6, 1)) for X in rows)
    first = _made(forest, strategy, asked=asked)
    milliseconds, _ = _took(first.kernel, lambda: ask(first, *rows))
    found = []
    for n_threads, context in ((1, nullcontext), (2, nullcontext), (2, _load), (1, _load)):
        core = _made(forest, strategy, n_threads, asked)
        core.kernel.model.limit_work(0.6 * milliseconds, NO_LIMIT)
        with context():
            found.append(_refused(lambda core=core: ask(core, *rows)))
    assert len({(ms, mb) for _, ms, mb in found}) == 1
    assert strategy is None or {row for row, *_ in found} == {ROW}
    assert 0.6 * milliseconds < found[0][1] <= milliseconds


@pytest.mark.parametrize("strategy", ["plan", "compiled", "pairs"])
@pytest.mark.parametrize("asked", ["gap", "curve", "rank"])
def test_a_limit_refuses_or_changes_nothing(asked, strategy):
    rng = np.random.default_rng(1)
    forest = full_trees(rng, n_trees=6, depth=4, n_features=D), rng.normal(size=(6, D)), np.zeros((6, D))
    forest[2][:] = forest[1]
    ask, core = ASKED[asked], _made(forest, strategy)
    expected = ask(core, *forest[1:])
    milliseconds, megabytes = _took(core.kernel, lambda: ask(core, *forest[1:]))
    for share, unit in ((milliseconds, 0), (megabytes, 1)):
        limits = [NO_LIMIT, NO_LIMIT]
        limits[unit] = share * (1 + 1e-12)
        core.kernel.model.limit_work(*limits)
        for again, before in zip(ask(core, *forest[1:]), expected, strict=True):
            assert again.tobytes() == before.tobytes()
        limits[unit] = share * (1 - 1e-12)
        core.kernel.model.limit_work(*limits)
        assert _refused(lambda: ask(core, *forest[1:]))[1 + unit] > limits[unit]


@pytest.mark.parametrize("strategy", ["compiled", "pairs"])
@pytest.mark.parametrize("asked", ["gap", "rank"])
def test_memory_is_refused_as_arrays_grow(forest, asked, strategy):
    """Of a row whose price is far below the limit; others need hardly any."""
    ask = ASKED[asked]
    first = _made(forest, strategy)
    taken, megabytes = _took(first.kernel, lambda: ask(first, *forest[1:]))
    found = set()
    for n_threads in (1, 2):
        core = _made(forest, strategy, n_threads)
        core.kernel.model.limit_work(NO_LIMIT, 0.5 * megabytes)
        found.add(_refused(lambda core=core: ask(core, *forest[1:])))
    assert len(found) == 1
    row, milliseconds, held = found.pop()
    assert row == ROW
    assert 0.5 * megabytes < held <= megabytes
    assert milliseconds < taken


def test_what_is_counted_is_that_of_the_row_alone(forest):
    """Not what rows and questions before it left behind."""
    alone = _made(forest, "compiled")
    one = forest[1][[ROW]]
    expected = _took(alone.kernel, lambda: alone.gap(one, np.ones((1, D), dtype=np.bool_), EXACT))
    later = _made(forest, "compiled")
    for asked in ("rank", "curve", "subsets"):
        ASKED[asked](later, *forest[1:])
    assert _took(later.kernel, lambda: later.gap(one, np.ones((1, D), dtype=np.bool_), EXACT)) == expected


def test_a_refusal_names_the_call_that_works_and_it_does(forest):
    explainer = Explainer(forest[0], Normal(0.4), rtol=0, _strategy="compiled")
    x = forest[1][[ROW]]
    milliseconds, _ = _took(kernel_of(explainer), lambda: explainer.rank(x))
    kernel_of(explainer).model.limit_work(0.9 * milliseconds, NO_LIMIT)
    assert not explainer.cost("rank", x).refused
    with pytest.raises(
        CostError, match=r"rank\(X\) at rtol=0: row 0 would take .*; the limits per row"
    ) as refused:
        explainer.rank(x)
    assert "This works: explainer.approximate(rtol=1e-2).rank(X)" in str(refused.value)
    kernel_of(explainer).model.limit_work(1e-3 * milliseconds, NO_LIMIT)
    found = explainer.approximate(rtol=1e-2).gap(np.vstack([x, np.full((1, D), 1e6)]), range(D))
    assert found.method.tolist()[0] == "qmc"
    assert abs(found.value[0] / _gap(forest, x) - 1) < 0.1


def _gap(forest: tuple[Ensemble, np.ndarray, np.ndarray], x: np.ndarray) -> float:
    return float(Explainer(forest[0], Normal(0.4), rtol=0).gap(x, range(D))[0])


@pytest.mark.parametrize("strategy", ["compiled", "pairs", None])
def test_a_long_call_says_at_once_what_it_will_take(forest, strategy, monkeypatch):
    """By what is planned of the rows that were begun, whatever was done of them."""
    explainer = Explainer(forest[0], Normal(0.4), rtol=0, _strategy=strategy)
    X = np.random.default_rng(0).normal(size=(4000, D))
    milliseconds = explainer.cost(range(D), X).milliseconds
    rows = int(600 / milliseconds)  # for half a second: kernels call every twentieth
    X, expected = X[:rows], rows * milliseconds / 1e3
    monkeypatch.setattr(running, "LONG", 0.3 * expected)
    with pytest.warns(UserWarning, match=rf"^gap\(X, subset\) of {rows} rows at rtol=0 is expected") as found:
        explainer.gap(X, range(D))
    (warning,) = found
    assert "This is faster: explainer.approximate(rtol=1e-2).gap(X, subset)" in str(warning.message)
    assert warning.filename == __file__
    monkeypatch.setattr(running, "LONG", 5 * expected)
    explainer.gap(X, range(D))
    monkeypatch.setattr(running, "LONG", 0.0)
    Explainer(forest[0], Normal(0.4), rtol=0, progress=False, _strategy=strategy).gap(X, range(D))


def test_counted_work_is_about_what_is_priced(forest):
    """The speeds are those of the planner, roughly."""
    x = forest[1][[ROW]]
    for strategy in ("compiled", "pairs"):
        explainer = Explainer(forest[0], Normal(0.4), rtol=0, _strategy=strategy)
        milliseconds, _ = _took(kernel_of(explainer), lambda explainer=explainer: explainer.gap(x, range(D)))
        assert 0.2 < milliseconds / explainer.cost(range(D), x).milliseconds < 5


# ---- memory that is stated -----------------------------------------------------------------------


def _megabytes(path: Path) -> float:
    """What malloc has given out to all threads."""
    gc.collect()
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "malloc_info"):
        pytest.skip("this C library does not count what it allocates")
    libc.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.fopen(str(path).encode(), b"w"))
    libc.malloc_info(0, file)
    libc.fclose(file)
    whole = ElementTree.parse(path).getroot()  # the totals come after those of each arena
    (system,) = (float(e.get("size", 0)) for e in whole.findall("system") if e.get("type") == "current")
    totals = {e.get("type"): float(e.get("size", 0)) for e in whole.findall("total")}
    return (system - totals["fast"] - totals["rest"] + totals["mmap"]) / 1e6


def test_the_memory_of_a_plan_counts_all_its_arrays(tmp_path):
    """What a new kernel allocates, and what a row then takes, is what `cost` says."""
    rng = np.random.default_rng(0)
    ensemble = full_trees(rng, n_trees=60, depth=5, n_features=60)
    explainer = Explainer(ensemble, Normal(0.5), _strategy="plan")
    x = rng.normal(size=(1, 60))
    laws, before = kernel_of(explainer).laws, _megabytes(tmp_path / "malloc")
    another = Kernel(ensemble, laws, strategy="plan")
    allocated = _megabytes(tmp_path / "malloc") - before
    assert another.model.has_plan
    assert allocated > 3
    for question, ask in (
        ([0, 1], lambda: explainer.gap(x, [0, 1])),
        (Ranking(np.arange(60)[None], n_features=60), lambda: explainer.curve(x, np.arange(60))),
        ("rank", lambda: explainer.rank(x)),
    ):
        _, of_row = _took(kernel_of(explainer), ask)
        shared = explainer.cost(question, x).megabytes - of_row
        assert 0.85 * allocated < shared < allocated  # a part is the trees themselves


def _planned(kind: str) -> tuple[Explainer, np.ndarray]:
    """An explainer with a plan, and one row that moves in all features."""
    rng = np.random.default_rng(2)
    if kind == "categories":
        ensemble, noise = cities(rng, n_trees=40, sizes=(40, 12), depth=4)
        return Explainer(ensemble, noise, _strategy="plan"), np.array([[3.0, 5.0, 0.1, -0.2]])
    ensemble = full_trees(rng, n_trees=40, depth=4, n_features=D)
    if kind == "outputs":
        value, target = rng.normal(size=(len(ensemble.feature), 2)), np.full(40, -1)
        ensemble = replace(ensemble, value=value, target=target, bias=np.zeros(2))
    groups = {"first": [0, 1, 2], "second": [3, 4]} if kind == "units" else None
    explainer = Explainer(ensemble, Normal(0.5), groups=groups, _strategy="plan")
    return explainer, rng.normal(size=(1, D))


@pytest.mark.parametrize("kind", ["numbers", "categories", "outputs", "units"])
def test_a_plan_states_the_arrays_of_each_question(kind):
    """What is stated of two questions differs by what their rows hold, array by array."""
    explainer, x = _planned(kind)
    subset, order = ["first"] if kind == "units" else range(x.shape[1]), explainer.rank(x)
    held, stated = {}, {}
    for name, question, ask in (
        ("gap", subset, lambda: explainer.gap(x, subset)),
        ("curve", order, lambda: explainer.curve(x, order)),
        ("rank", "rank", lambda: explainer.rank(x)),
    ):
        _, held[name] = _took(kernel_of(explainer), ask)
        stated[name] = explainer.cost(question, x).megabytes
    for name in ("curve", "rank"):
        more = held[name] - held["gap"]
        assert more > 0.01
        assert 0.95 < (stated[name] - stated["gap"]) / more < 1.05


@pytest.mark.parametrize("asked", ["exact gap", "curve", "rank"])
def test_the_memory_of_a_compiled_row_is_what_it_allocates(forest, asked, tmp_path):
    core = _made(forest, "compiled")
    before = _megabytes(tmp_path / "malloc")
    _, counted = _took(core.kernel, lambda: ASKED[asked](core, *forest[1:]))
    allocated = (
        _megabytes(tmp_path / "malloc") - before
    )  # arrays that grow are up to twice as large as what is in them
    assert 0.4 * allocated < counted < 1.1 * allocated
    explainer = Explainer(forest[0], Normal(0.4), rtol=0, _strategy="compiled")
    order = Ranking(np.arange(D)[None], n_features=D)
    question = {"exact gap": range(D), "curve": order, "rank": "rank"}[asked]
    stated = explainer.cost(question, forest[1][[ROW]]).megabytes
    assert 0.7 * counted < stated < 2 * counted
