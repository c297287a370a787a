"""Clocks, and the error that sampling has in the time of an exact gap."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np
import pytest

from predgap import Explainer, Normal, PredgapError, algorithm1
from predgap.algorithm1 import algorithm1_gap
from reproduction.experiments import clocks, equal_time, precision
from reproduction.experiments.clocks import ALGORITHM_1, ALGORITHM_1_FLOAT32, EVALUATION, EXACT, TOGETHER
from reproduction.experiments.equal_time import Line
from reproduction.experiments.precision import FEWER, ITERATIONS, METHODS, draw_points
from reproduction.models import Subject, authors_subjects, draw_pairs
from reproduction.results import Result
from strategies import random_ensemble

D = 4
CONFIG = clocks.Config(scales=(0.1, 1.0), n_pairs=6, iterations=(10, 300), repeats=2)
EXACTLY = [EXACT, TOGETHER, ALGORITHM_1, ALGORITHM_1_FLOAT32]
WORK = [(method, None) for method in EXACTLY] + [
    (method, n) for n in CONFIG.iterations for method in (*METHODS, EVALUATION)
]


@pytest.fixture(scope="module")
def tiny() -> Subject:
    rng = np.random.default_rng(0)
    return Subject(
        kind="Bigger",
        dataset="wine",
        model=Path("none.json"),
        X=rng.normal(size=(7, D)),
        y=np.zeros(7),
        files={"models/none.json": "0" * 64},
        ensemble=random_ensemble(rng, n_trees=5, depth=3, n_features=D),
    )


# ---- clocks --------------------------------------------------------------------------------------


def test_everything_is_timed_at_every_scale(tiny):
    told = []
    result = clocks.run(CONFIG, [tiny, replace(tiny, kind="Single")], progress=lambda *now: told.append(now))
    assert result.columns == clocks.COLUMNS
    for kind, scale in itertools.product(("Bigger", "Single"), CONFIG.scales):
        rows = result.where(kind=kind, dataset="wine", scale=scale)
        assert [(row["method"], row["iterations"]) for row in rows] == WORK
        assert all(row["seconds"] > 0 and row["n_pairs"] == 6 for row in rows)
    assert told == [(done, 8) for done in range(1, 9)]
    assert (result.seed, list(result.files)) == (0, ["models/none.json"])


@pytest.fixture
def alone(monkeypatch) -> None:
    """Clocks that do not run while other processes do."""
    monkeypatch.setattr(clocks, "perf_counter", process_time)


@pytest.mark.usefixtures("alone")
def test_more_samples_take_longer(tiny):
    result = clocks.run(replace(CONFIG, scales=(1.0,), iterations=(10, 20_000)), [tiny])
    for method in (*METHODS, EVALUATION):
        few, many = (row["seconds"] for row in result.where(method=method))
        assert few < many
    seconds = {row["method"]: row["seconds"] for row in result.where(iterations=20_000)}
    assert seconds[EVALUATION] < seconds["halton"]


def test_the_least_of_repeats_in_turn_per_pair(tiny, monkeypatch):
    """Each measurement takes as many seconds as a list says, and none of its work."""
    n_work = len(WORK)
    script = [*range(100, 100 + n_work), *([7] * n_work), *range(200, 200 - n_work, -1)]
    given = iter(script)
    monkeypatch.setattr(clocks, "_seconds", lambda do: float(next(given)))
    config = replace(CONFIG, scales=(1.0,), repeats=3)
    assert set(clocks.run(config, [tiny]).column("seconds")) == {7 / 6}
    given = iter(script[:n_work] + script[2 * n_work :])
    found = clocks.run(replace(config, repeats=2), [tiny]).column("seconds")
    assert found == tuple(min(100 + i, 200 - i) / 6 for i in range(n_work))
    assert next(given, None) is None


def test_a_clock_runs_while_the_work_is_done(monkeypatch):
    now = [5.0]
    monkeypatch.setattr(clocks, "perf_counter", lambda: now[0])

    def work() -> None:
        now[0] += 2.5

    assert clocks._seconds(work) == 2.5


def done_by(tiny, monkeypatch) -> dict[tuple[str, int | None], object]:
    """What each piece of work gives: gaps, or the points and stretches that it samples at."""
    found: dict[tuple[str, int | None], object] = {}
    sample = algorithm1.sums_of_changes
    names = iter(WORK)

    def watched(do) -> float:
        drawn: list[tuple[np.ndarray, ...]] = []

        def recording(kernel, rows, mask, points, ends, *rest):
            drawn.append((rows, mask, points, ends))
            return sample(kernel, rows, mask, points, ends, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(algorithm1, "sums_of_changes", recording)
            gaps = do()
        found[next(names)] = drawn or gaps
        return 1.0

    monkeypatch.setattr(clocks, "_seconds", watched)
    clocks.run(replace(CONFIG, scales=(0.3,), repeats=1), [tiny])
    return found


def test_exact_work_gives_the_gaps(tiny, monkeypatch):
    found = done_by(tiny, monkeypatch)
    exact = np.concatenate(found[EXACT, None])
    assert exact.shape == (6,)
    assert (exact > 0).any()
    np.testing.assert_array_equal(found[TOGETHER, None], exact)
    explainer, pairs = Explainer(tiny.ensemble, Normal(0.3)), draw_pairs(tiny, 6, CONFIG.seed)
    np.testing.assert_array_equal(explainer.gap(pairs.X, pairs.masks), exact)
    for name, narrow in ((ALGORITHM_1, False), (ALGORITHM_1_FLOAT32, True)):
        theirs = algorithm1_gap(explainer, pairs.X, pairs.masks, float32=narrow)
        np.testing.assert_array_equal(found[name, None], theirs)
        assert (theirs != exact).any()


def test_sampling_draws_points_for_each_pair(tiny, monkeypatch):
    """Each method from one stream of its own; without the drawing, as many points of the same shape."""
    pairs = draw_pairs(tiny, 6, CONFIG.seed)
    found = done_by(tiny, monkeypatch)
    for (method, n), calls in found.items():
        if n is None:
            continue
        assert len(calls) == 6
        stream = None if method == EVALUATION else pairs.stream(0, METHODS.index(method))
        for pair, (rows, mask, points, ends) in enumerate(calls):
            np.testing.assert_array_equal(rows, tiny.ensemble.cast(pairs.X[pair : pair + 1]))
            np.testing.assert_array_equal(mask, pairs.masks[pair])
            assert ends.tolist() == [n]
            assert points.shape == (1, n, mask.sum())
            if stream is not None:
                np.testing.assert_array_equal(points[0], draw_points(method, mask.sum(), n, stream))


def test_nothing_is_drawn_for_evaluation_and_nothing_imported_while_a_clock_runs(tiny, monkeypatch):
    events: list[str] = []

    def drawing(method, k, n, rng):
        events.append(method)
        return draw_points(method, k, n, rng)

    def watched(do) -> float:
        events.append("clock")
        do()
        return 1.0

    monkeypatch.setattr(clocks, "draw_points", drawing)
    monkeypatch.setattr(clocks, "_seconds", watched)
    clocks.run(replace(CONFIG, scales=(0.3,), repeats=1), [tiny])
    first = events.index("clock")
    assert set(events[:first]) & {"halton", "sobol"}  # their first drawing imports SciPy's
    assert Counter(events[first:]) == {"clock": len(WORK), "mc": 12, "halton": 12, "sobol": 12}


@pytest.mark.parametrize(
    "wrong",
    [
        *({"n_pairs": 0}, {"repeats": 0}, {"iterations": ()}, {"iterations": (5,)}),
        *({"iterations": (5, 5)}, {"iterations": (0, 5)}),
    ],
)
def test_impossible_configs_are_refused(wrong):
    with pytest.raises(PredgapError, match="is impossible; expected"):
        clocks.Config(**wrong)


# ---- straight lines and powers -------------------------------------------------------------------


def test_a_line_through_its_clocks():
    found = equal_time.line({10_000: 4.5e-3, 100: 5.4e-4, 1000: 9e-4})
    assert found.slope == pytest.approx(4e-7, rel=1e-12)
    assert found.start == pytest.approx(5e-4, rel=1e-12)
    assert found(2500) == pytest.approx(1.5e-3, rel=1e-12)


def test_a_line_goes_through_the_clocks_at_the_fewest_and_the_most_samples():
    curve = {1000: 9e-4, 10_000: 6e-3, 100: 1e-4}
    found = equal_time.line(curve)
    assert found(100) == pytest.approx(1e-4, rel=1e-12)
    assert found(10_000) == pytest.approx(6e-3, rel=1e-12)


def test_a_line_rises_and_does_not_start_before_0():
    assert equal_time.line({100: 1e-5, 1000: 1e-3}).start == 0.0
    for flat in ({100: 2e-3, 1000: 1e-3}, {100: 1e-3, 1000: 1e-3}):
        assert equal_time.line(flat) == Line(0.0, 1e-6)


@pytest.mark.parametrize("t", [1e-6, 9.9e-5, 1e-4, 1.1e-4, 4.3e-3, 5e-3, 5.1e-3, 0.03, 0.1])
def test_numbers_of_iterations_that_match_a_time(t):
    start, slope = 2e-5, 1e-6
    times = {n: start + slope * n for n in ITERATIONS}
    slower = {n for n in ITERATIONS if times[n] >= t} or {35_000}
    first, closest = equal_time.matched(t, Line(start, slope))
    assert first == min(slower)
    assert abs(times[closest] - t) == min(abs(seconds - t) for seconds in times.values())


def test_errors_between_measured_ones_are_powers():
    curve = {1: 2.0, 10: 0.5, 1000: 0.001}
    for count in (1, 3, 10, 25, 999, 1000):
        low, high = (1, 10) if count <= 10 else (10, 1000)
        exponent = np.log(curve[high] / curve[low]) / np.log(high / low)
        assert equal_time.interpolated(curve, count) == pytest.approx(
            curve[low] * (count / low) ** exponent, rel=1e-12
        )
    assert equal_time.interpolated(curve, 0.0) is None
    assert equal_time.interpolated(curve, 0.99) is None
    assert equal_time.interpolated(curve, 1000.5) is None
    assert equal_time.interpolated({}, 5) is None


def test_numbers_of_samples_that_an_error_needs():
    curve = {1: 2.0, 10: 0.5, 100: 0.6, 1000: 0.06}
    for target in (0.07, 0.2, 0.55):  # from which on: what 10 samples had by chance does not count
        found = equal_time.needed(curve, target)
        assert 100 < found < 1000
        assert equal_time.interpolated(curve, found) == pytest.approx(target, rel=1e-12)
    assert equal_time.needed(curve, 0.06) == pytest.approx(1000, rel=1e-12)
    assert equal_time.needed(curve, 0.059) is None
    assert 1 < equal_time.needed(curve, 0.7) < 10
    assert equal_time.needed(curve, 5.0) == 1
    assert equal_time.needed({1: 1.0, 10: 0.0}, 0.5) == 10  # no power leads to 0
    assert equal_time.needed({}, 0.5) is None


# ---- the table, from results with known lines ----------------------------------------------------

EXPONENTS = {"mc": -0.5, "halton": -0.75, "sobol": -1.0}
LINES = {
    "mc": Line(1e-5, 2e-7),
    "halton": Line(3e-5, 5e-7),
    "sobol": Line(2e-5, 3e-7),
    EVALUATION: Line(5e-6, 1e-7),
}
SECONDS = {ALGORITHM_1_FLOAT32: 1.7e-3, ALGORITHM_1: 2.2e-3, EXACT: 6e-5, TOGETHER: 2.5e-5}


def errors(count: int, method: str) -> float:
    return float(count) ** EXPONENTS[method]


def made_precision(kind="Bigger", dataset="wine", scale=0.1, counts=FEWER + ITERATIONS, **options) -> Result:
    blank = (None,) * (len(precision.COLUMNS) - 8)
    rows = [
        (kind, dataset, scale, method, count, 100, errors(count, method), 0.0, *blank)
        for method in METHODS
        for count in counts
    ]
    return Result(experiment="precision", columns=precision.COLUMNS, rows=rows, **options)


def made_clocks(kind="Bigger", dataset="wine", scale=0.1, **options) -> Result:
    rows = [(kind, dataset, scale, clock, None, 10, seconds, "here") for clock, seconds in SECONDS.items()]
    rows += [
        (kind, dataset, scale, method, n, 10, time(n), "here")
        for n in (100, 1000, 10_000)
        for method, time in LINES.items()
    ]
    return Result(experiment="clocks", columns=clocks.COLUMNS, rows=rows, **options)


run = partial(equal_time.run, equal_time.Config())


@pytest.fixture(scope="module")
def table() -> Result:
    return run(made_precision(files={"b": "1", "a": "2"}), made_clocks(files={"c": "3", "a": "2"}))


def test_a_row_for_each_clock_and_method(table):
    found = [(row["clock"], row["method"]) for row in table.records()]
    assert Counter(found) == Counter(itertools.product(SECONDS, METHODS))
    assert all(
        (row["kind"], row["dataset"], row["scale"]) == ("Bigger", "wine", 0.1) for row in table.records()
    )
    assert all(row["seconds"] == SECONDS[row["clock"]] for row in table.records())
    assert (table.experiment, table.columns) == ("equal-time", equal_time.COLUMNS)
    assert list(table.files.items()) == [("a", "2"), ("b", "1"), ("c", "3")]
    assert (table.config, table.seed) == ({}, None)


def charged(clock: str, method: str) -> Line:
    """Calls next to calls; next to Algorithm 1 drawing and evaluating; next to gaps together, the latter."""
    if clock == EXACT:
        return LINES[method]
    return Line(0.0, LINES[EVALUATION if clock == TOGETHER else method].slope)


def test_what_an_exact_gaps_time_buys(table):
    for row in table.records():
        time = charged(row["clock"], row["method"])
        count = (row["seconds"] - time.start) / time.slope
        assert row["affordable"] == pytest.approx(count, rel=1e-9)
        assert 1 < count < 35_000
        assert row["nmae"] == pytest.approx(errors(count, row["method"]), rel=1e-9)


def test_the_line_that_sampling_is_charged_by_can_be_asked_for():
    for clock, method in itertools.product(SECONDS, METHODS):
        found = equal_time.sampling_line(
            made_clocks(), clock, method, kind="Bigger", dataset="wine", scale=0.1
        )
        expected = charged(clock, method)
        assert (found.start, found.slope) == pytest.approx((expected.start, expected.slope), rel=1e-9)


def test_what_an_error_costs(table):
    for row in table.records():
        time = charged(row["clock"], row["method"])
        for column, target in (("seconds_10", 0.1), ("seconds_1", 0.01)):
            count = target ** (1 / EXPONENTS[row["method"]])
            assert row[column] == pytest.approx(time.start + time.slope * count, rel=1e-9)


def test_the_papers_numbers_of_iterations(table):
    expected = {
        (ALGORITHM_1_FLOAT32, "mc"): (10_000, 8000),  # 1.7 ms: 8,500 samples
        (ALGORITHM_1_FLOAT32, "halton"): (4000, 4000),  # 3,400
        (ALGORITHM_1_FLOAT32, "sobol"): (6000, 6000),  # 5,667
        (ALGORITHM_1, "mc"): (15_000, 10_000),  # 2.2 ms: 11,000
        (ALGORITHM_1, "halton"): (6000, 4000),  # 4,400
        (ALGORITHM_1, "sobol"): (8000, 8000),  # 7,333
        (EXACT, "mc"): (500, 100),  # 60 µs: 250
        (EXACT, "halton"): (100, 100),
        (EXACT, "sobol"): (500, 100),  # 133
        **{(TOGETHER, method): (500, 100) for method in METHODS},  # 25 µs: 250
    }
    for row in table.records():
        assert (row["first_slower"], row["closest"]) == expected[row["clock"], row["method"]]
        for column in ("first_slower", "closest"):
            assert row[f"{column}_nmae"] == errors(row[column], row["method"])


def test_published_numbers_of_iterations_are_judged(table):
    """4000 for both methods."""
    judged = {(row["clock"], row["method"]): (row["published"], row["verdict"]) for row in table.records()}
    for (clock, method), found in judged.items():
        if method == "sobol":
            assert found == (None, None)
        else:
            matches = (clock, method) == (ALGORITHM_1_FLOAT32, "halton")
            assert found == ("4000", "matches" if matches else "differs")
    other = run(made_precision(dataset="diabetes"), made_clocks(dataset="diabetes"))
    assert set(other.column("published")) == set(other.column("verdict")) == {None}


def test_counts_that_were_not_measured_have_no_error():
    """A short run has no errors at most of the paper's numbers, nor past its last one."""
    table = run(made_precision(counts=(10, 100, 500, 6000)), made_clocks())
    for row in table.records():
        for column in ("first_slower", "closest"):
            measured = row[column] in (100, 500, 6000)
            assert row[f"{column}_nmae"] == (errors(row[column], row["method"]) if measured else None)
        assert (row["nmae"] is None) == (not 10 <= row["affordable"] <= 6000)
        reached = 6000 ** EXPONENTS[row["method"]] <= 0.01
        assert (row["seconds_1"] is not None) == reached
    assert {row["method"] for row in table.records() if row["seconds_1"] is None} == {"mc"}


def test_time_for_no_sample_and_for_more_than_were_tried():
    clock = made_clocks()
    rows = [(*row[:6], {EXACT: 1e-6, ALGORITHM_1: 1.0}.get(row[3], row[6]), row[7]) for row in clock.rows]
    table = run(made_precision(), replace(clock, rows=rows))
    for row in table.where(clock=EXACT):
        assert (row["affordable"], row["nmae"], row["first_slower"], row["closest"]) == (0, None, 100, 100)
    for row in table.where(clock=ALGORITHM_1):
        assert row["affordable"] > 35_000
        assert (row["nmae"], row["first_slower"], row["closest"]) == (None, 35_000, 35_000)


def test_a_model_without_gaps_has_no_errors():
    made = made_precision()
    rows = [(*row[:6], None, None, *row[8:]) for row in made.rows]
    for row in run(replace(made, rows=rows), made_clocks()).records():
        assert row["affordable"] > 1
        assert row["nmae"] is row["seconds_10"] is row["seconds_1"] is row["closest_nmae"] is None


def test_each_model_and_scale_has_its_own_lines(table):
    other = made_precision(scale=0.3)
    slow = made_clocks(scale=0.3)
    slow = replace(slow, rows=[(*row[:6], row[6] * 10, row[7]) for row in slow.rows])
    both = run(
        replace(other, rows=other.rows + made_precision().rows),
        replace(slow, rows=made_clocks().rows + slow.rows),
    )
    assert both.where(scale=0.1) == table.records()
    for mine, theirs in zip(both.where(scale=0.3), table.records(), strict=True):
        assert mine["affordable"] == pytest.approx(theirs["affordable"], rel=1e-9)
        assert mine["seconds_10"] == pytest.approx(10 * theirs["seconds_10"], rel=1e-9)


def test_saved_results_do_as_well(table, tmp_path):
    for made in (made_precision(), made_clocks(), table):
        made.save(tmp_path)
    loaded = run(Result.load(tmp_path, "precision"), Result.load(tmp_path, "clocks"))
    assert loaded.rows == Result.load(tmp_path, "equal-time").rows == table.rows
    assert json.loads((tmp_path / "equal-time.json").read_text())["config"] == {}


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(PredgapError, match=r"no clocks for .*0\.3.*; run them"):
        run(made_precision(scale=0.3), made_clocks())
    with pytest.raises(PredgapError, match="'a' is two files"):
        run(made_precision(files={"a": "1"}), made_clocks(files={"a": "2"}))


# ---- the paper's wine model ----------------------------------------------------------------------


@pytest.mark.usefixtures("alone")
def test_the_time_of_an_exact_gap_buys_few_samples(shared_data):
    """An exact gap is much faster than by Algorithm 1, so that its time buys far fewer samples."""
    wine = authors_subjects(shared_data, kinds=["Bigger"], datasets=["wine"])
    times = clocks.run(clocks.Config(scales=(0.3,), n_pairs=22, iterations=(100, 2000), repeats=2), wine)
    errors = precision.run(precision.Config(scales=(0.3,), n_pairs=22, iterations=(1, 10, 100, 1000)), wine)
    (slow,), (fast,) = times.where(method=ALGORITHM_1), times.where(method=EXACT)
    assert slow["seconds"] > 5 * fast["seconds"]
    table = run(errors, times)
    for method in METHODS:
        (theirs,), (ours,) = (table.where(clock=clock, method=method) for clock in (ALGORITHM_1, EXACT))
        assert ours["affordable"] < 0.2 * theirs["affordable"]
