"""Sampled gaps: random pairs, the error of estimates by its definition, runs that go on where they were."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm, t

from predgap import Explainer, Normal, PredgapError
from predgap._model.rounding import fields_of_rows
from reproduction import published
from reproduction.experiments import precision
from reproduction.experiments.precision import METHODS, Config, draw_points, nmae
from reproduction.models import Pairs, Subject, authors_subjects, draw_pairs
from reproduction.results import Result, digest, joined_files, merged, remembered
from strategies import ensemble_of, random_ensemble

D, N_ROWS = 4, 7
CONFIG = Config(scales=(0.1, 1.0), n_pairs=18, iterations=(1, 2, 5, 64, 100, 4000))


def subject_of(seed: int, kind: str = "Bigger", dataset: str = "wine") -> Subject:
    """A hand-made model that rounds its rows to float32, and rows that float32 cannot hold.

    Named as one of the paper's, so that there are cells to compare with.
    """
    rng = np.random.default_rng(seed)
    grown = random_ensemble(rng, n_trees=5, depth=3, n_features=D)
    ensemble = replace(grown, **fields_of_rows(np.float32, np.float32(grown.threshold)))
    X = rng.normal(size=(N_ROWS, D))
    assert (np.float32(X) != X).all()
    assert not np.isin(np.float32(X), np.float32(ensemble.threshold)).any()  # no tie of a row and a split
    return Subject(
        kind=kind,
        dataset=dataset,
        model=Path("none.json"),
        X=X,
        y=np.zeros(N_ROWS),
        files={"models/none.json": f"{seed:064x}"},
        ensemble=ensemble,
    )


@pytest.fixture(scope="module")
def tiny() -> Subject:
    return subject_of(0)


@pytest.fixture(scope="module")
def table(tiny) -> Result:
    return precision.run(CONFIG, [tiny])


# ---- pairs ---------------------------------------------------------------------------------------


def test_sizes_of_subsets_are_balanced(tiny):
    sizes = draw_pairs(tiny, 5 * D + 2, seed=0).masks.sum(axis=1)
    assert sizes[: D + 1].tolist() == [1, 2, 3, 4, 1]
    assert Counter(sizes.tolist()) == {1: 6, 2: 6, 3: 5, 4: 5}


def test_rows_and_subsets_are_drawn_evenly(tiny):
    n = 6000
    pairs = draw_pairs(tiny, n, seed=1)
    rows = Counter(map(bytes, pairs.X))
    assert set(rows) == set(map(bytes, tiny.X))
    counts = np.array(list(rows.values()))
    assert np.sum((counts - n / N_ROWS) ** 2) / (n / N_ROWS) < 22.5  # 99.9 % of χ², 6 degrees of freedom
    for size, n_subsets in ((1, 4), (2, 6), (3, 4), (4, 1)):
        chosen = pairs.masks[pairs.masks.sum(axis=1) == size]
        counts = np.array(list(Counter(map(bytes, chosen)).values()))
        assert len(counts) == n_subsets
        expected = n / D / n_subsets
        assert np.sum((counts - expected) ** 2) / expected < 20.6  # 99.9 %, 5 degrees of freedom


def test_more_pairs_repeat_fewer(tiny):
    few, many = draw_pairs(tiny, 13, seed=3), draw_pairs(tiny, 40, seed=3)
    assert len(few) == 13
    assert few.entropy == many.entropy
    np.testing.assert_array_equal(many.X[:13], few.X)
    np.testing.assert_array_equal(many.masks[:13], few.masks)


def test_pairs_depend_on_the_seed_and_the_name(tiny):
    def drawn(subject: Subject, seed: int) -> bytes:
        pairs = draw_pairs(subject, 40, seed)
        return pairs.X.tobytes() + pairs.masks.tobytes()

    others = [replace(tiny, kind="Single"), replace(tiny, dataset="housing")]
    every = [drawn(tiny, 0), drawn(tiny, 1), *(drawn(other, 0) for other in others)]
    assert len(set(every)) == 4
    assert drawn(replace(tiny, y=np.ones(N_ROWS)), 0) == every[0]


def test_every_use_of_a_pair_has_its_own_stream(tiny):
    few, many = draw_pairs(tiny, 2, seed=0), draw_pairs(tiny, 5, seed=0)
    first = {(pair, use): many.stream(pair, use).random() for pair in range(5) for use in range(3)}
    assert len(set(first.values())) == 15
    assert all(few.stream(pair, use).random() == first[pair, use] for pair in range(2) for use in range(3))


# ---- points --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_more_points_repeat_fewer(method):
    many = draw_points(method, 3, 300, np.random.default_rng(5))
    assert many.shape == (300, 3)
    assert (many >= 0).all()
    assert (many < 1).all()
    for n in (1, 2, 3, 7, 8, 256, 299):
        few = draw_points(method, 3, n, np.random.default_rng(5))
        np.testing.assert_array_equal(few, many[:n])
    assert not np.isin(many, draw_points(method, 3, 300, np.random.default_rng(6))).any()


@pytest.mark.parametrize(("method", "bases"), [("sobol", (2, 2, 2)), ("halton", (2, 3, 5))])
def test_quasi_random_points_fill_every_interval_once(method, bases):
    """What scrambling keeps of both sequences: b^m points lie in different intervals of length b^-m."""
    points = draw_points(method, 3, 128, np.random.default_rng(1))
    for column, base in zip(points.T, bases, strict=True):
        n = max(base**m for m in range(8) if base**m <= 128)
        assert sorted(np.floor(column[:n] * n)) == list(range(n))


def test_no_point_is_1(monkeypatch):
    """Whose quantile would be infinite."""

    class Ones:
        def __init__(self, k: int, **options) -> None: ...

        def random(self, n: int) -> np.ndarray:
            return np.ones((n, 2))

    monkeypatch.setattr("scipy.stats.qmc.Halton", Ones)
    assert draw_points("halton", 2, 3, np.random.default_rng(0)).max() == 1 - 2.0**-53


# ---- estimates and their error, by definition ----------------------------------------------------


def squared_changes(subject: Subject, x: np.ndarray, mask: np.ndarray, scale: float, points) -> np.ndarray:
    """(f(x') - f(x))² for each point, x' made explicitly, by the inverse transform."""
    rows = np.tile(subject.ensemble.cast(x[None]), (len(points), 1))
    rows[:, mask] += norm.ppf(points) * scale
    return (subject.ensemble.predict(rows) - subject.ensemble.predict(x[None])) ** 2


def estimates_by_definition(subject: Subject, pairs: Pairs, config: Config) -> np.ndarray:
    """(N, scales, methods, counts)"""
    out = np.empty((len(pairs), len(config.scales), len(METHODS), len(config.iterations)))
    for pair, (x, mask) in enumerate(zip(pairs.X, pairs.masks, strict=True)):
        for m, method in enumerate(METHODS):
            points = draw_points(method, mask.sum(), config.iterations[-1], pairs.stream(pair, m))
            for s, scale in enumerate(config.scales):
                squares = squared_changes(subject, x, mask, scale, points)
                out[pair, s, m] = [squares[:count].mean() for count in config.iterations]
    return out


@pytest.fixture(scope="module")
def by_definition(tiny) -> np.ndarray:
    return estimates_by_definition(tiny, draw_pairs(tiny, CONFIG.n_pairs, CONFIG.seed), CONFIG)


def test_estimates_are_means_over_perturbed_rows(tiny, by_definition):
    pairs = draw_pairs(tiny, CONFIG.n_pairs, CONFIG.seed)
    explainers = [Explainer(tiny.ensemble, Normal(scale)) for scale in CONFIG.scales]
    for pair, (x, mask) in enumerate(zip(pairs.X, pairs.masks, strict=True)):
        found = precision.gaps(explainers, pairs, pair, CONFIG.iterations)
        exact = [explainer.gap(x[None], mask)[0] for explainer in explainers]
        np.testing.assert_array_equal(found[:, 0], exact)
        estimates = found[:, 1:].reshape(len(CONFIG.scales), len(METHODS), -1)
        np.testing.assert_allclose(estimates, by_definition[pair], rtol=1e-12, atol=1e-15)
    assert (by_definition[..., -1] > 0).mean() > 0.8  # something was compared


def test_rows_are_rounded_as_the_model_rounds_them(tiny):
    """A value just below a threshold, and equal to it in float32, is not below it."""
    node = int(tiny.ensemble.root[0])
    q, t = int(tiny.ensemble.feature[node]), float(np.float32(tiny.ensemble.threshold[node]))
    X = np.array([tiny.X[0], tiny.X[0]])
    X[:, q] = t, np.nextafter(t, -np.inf)
    masks = np.array([[j != q for j in range(D)]] * 2)
    explainers = [Explainer(tiny.ensemble, Normal(0.3))]
    at, below = (
        precision.gaps(explainers, Pairs(X[i : i + 1], masks[:1], (0,)), 0, CONFIG.iterations)
        for i in range(2)
    )
    assert at.tolist() == below.tolist()
    lower = replace(tiny.ensemble, threshold=np.float32(tiny.ensemble.threshold))  # where it matters
    assert lower.predict(X)[0] != lower.predict(X)[1]


def test_the_error_is_the_sum_of_differences_over_the_sum_of_gaps(tiny, table, by_definition):
    pairs = draw_pairs(tiny, CONFIG.n_pairs, CONFIG.seed)
    assert table.columns == precision.COLUMNS
    assert len(table) == 2 * 3 * 6
    for row in table.records():
        gap = Explainer(tiny.ensemble, Normal(row["scale"])).gap(pairs.X, pairs.masks)
        s, m = CONFIG.scales.index(row["scale"]), METHODS.index(row["method"])
        estimate = by_definition[:, s, m, CONFIG.iterations.index(row["iterations"])]
        errors = [abs(y - other) for y, other in zip(gap, estimate, strict=True)]
        assert row["nmae"] == pytest.approx(sum(errors) / sum(gap), rel=1e-12)
        assert row["n_pairs"] == 18
        assert (row["kind"], row["dataset"]) == ("Bigger", "wine")


def test_many_samples_come_close(table):
    """Errors of plain sampling fall with the square root of their number, quasi-random ones faster."""
    for scale in CONFIG.scales:
        few, many = (
            {row["method"]: row["nmae"] for row in table.where(scale=scale, iterations=count)}
            for count in (5, 4000)
        )
        assert 0.3 < many["mc"] / few["mc"] / (5 / 4000) ** 0.5 < 3
        assert many["halton"] < 0.3 * many["mc"]
        assert many["sobol"] < 0.3 * many["mc"]


def test_standard_error_is_the_spread_over_sets_of_pairs():
    rng = np.random.default_rng(0)
    runs, n = 3000, 60
    exact = rng.exponential(size=(runs, n))
    estimate = exact + np.sqrt(exact) * rng.normal(size=(runs, n))
    found = np.array([nmae(y, other) for y, other in zip(exact, estimate, strict=True)])
    assert found[:, 0].std() == pytest.approx(found[:, 1].mean(), rel=0.06)


def test_standard_error_by_hand():
    """Ratio of means 2 / 2; the deviations of |y - ŷ| - y are -1, 0 and 1."""
    ratio, error = nmae(np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, -1.0]))
    assert ratio == 1.0
    assert error == pytest.approx(np.sqrt(2 / (3 * 2)) / 2, rel=1e-15)


def test_a_model_that_never_changes_has_no_error(tiny):
    subject = replace(tiny, ensemble=ensemble_of([2.0], D))
    rows = precision.run(CONFIG, [subject]).records()
    assert {row["nmae"] for row in rows} == {row["standard_error"] for row in rows} == {None}
    judged = [row for row in rows if row["published"] is not None]
    assert judged
    for row in judged:
        assert (row["verdict"], row["within"], row["within_jointly"]) == ("differs", "outside", "outside")


# ---- beside the published cells ------------------------------------------------------------------


def test_cells_stand_at_their_number_of_iterations(table):
    names = {"mc": "mc", "halton": "qmc"}
    for row in table.records():
        where = {name: row[name] for name in ("kind", "dataset", "scale")}
        printed = {
            quantity: published.printed("precision", method=names[row["method"]], quantity=quantity, **where)
            for quantity in ("iterations", "nmae")
            if row["method"] in names
        }
        there = printed.get("iterations") == str(row["iterations"])
        assert row["published"] == (printed["nmae"] if there else None)
        for column in ("verdict", "within", "within_jointly"):
            assert (row[column] is None) == (not there)
    assert table.column("published").count(None) == len(table) - 2  # σ = 0.1, 4,000 iterations


@pytest.mark.parametrize(("n_pairs", "factor"), [(20_000, 2**0.5), (200, 1.01**0.5), (5, 1.00025**0.5)])
@pytest.mark.parametrize("confidence", [0.95, 0.5])
def test_the_intervals_allow_for_both_sets_of_pairs_and_for_rounding(n_pairs, factor, confidence):
    """One cell, and all six of a subject at once."""
    config, error = Config(n_pairs=n_pairs, confidence=confidence), 0.004
    assert t.ppf(0.975, 20_000 - 1) == pytest.approx(1.96, abs=1e-4)
    for column, level in ((2, confidence), (3, confidence ** (1 / 6))):
        reach = t.interval(level, n_pairs - 1)[1] * factor * error + 0.0005
        for sign in (-1, 1):
            for share, verdict in ((0.999, "inside"), (1.001, "outside")):
                found = precision._verdicts(config, "0.019", 0.019 + sign * share * reach, error)
                assert found[:2] == ("0.019", "differs")
                assert found[column] == verdict
    assert precision._verdicts(config, "0.019", 0.0194, error) == ("0.019", "matches", "inside", "inside")


# ---- the same numbers, however they come about ---------------------------------------------------


def test_the_same_for_any_number_of_threads_and_company(tiny, table, monkeypatch):
    monkeypatch.setattr(precision, "_BLOCK", 5)
    for n_jobs in (1, 2, -1):
        assert precision.run(CONFIG, [tiny], n_jobs=n_jobs).rows == table.rows
    others = [subject_of(1, dataset="housing"), tiny]
    whole = precision.run(replace(CONFIG, scales=(0.3, 0.1, 1.0)), others)
    rows = [row for row in whole.rows if row[1] == "wine" and row[2] != 0.3]
    assert tuple(rows) == table.rows
    assert precision.run(replace(CONFIG, seed=1), [tiny]).column("nmae") != table.column("nmae")


def test_progress_counts_pairs_of_all_subjects(tiny, monkeypatch):
    monkeypatch.setattr(precision, "_BLOCK", 8)
    told = []
    precision.run(CONFIG, [tiny, subject_of(1)], progress=lambda *now: told.append(now))
    assert told == [(done, 36) for done in (8, 16, 18, 26, 34, 36)]


@pytest.mark.parametrize(
    "wrong",
    [
        *({"n_pairs": 1}, {"iterations": ()}, {"iterations": (0, 1)}, {"iterations": (2, 1)}),
        *({"iterations": (1, 1)}, {"confidence": 0.0}, {"confidence": 1.0}),
    ],
)
def test_impossible_configs_are_refused(wrong):
    with pytest.raises(PredgapError, match="is impossible; expected"):
        Config(**wrong)


# ---- runs that go on -----------------------------------------------------------------------------

FEW = replace(CONFIG, iterations=(1, 2, 50))


@pytest.fixture(scope="module")
def few(tiny) -> Result:
    return precision.run(FEW, [tiny])


@dataclass
class Counted:
    """The pairs whose gaps are computed."""

    pairs: list[int]


@pytest.fixture
def computed(monkeypatch) -> Counted:
    monkeypatch.setattr(precision, "_BLOCK", 4)
    counted, gaps = Counted([]), precision.gaps

    def counting(explainers, pairs, pair, iterations):
        counted.pairs.append(pair)
        return gaps(explainers, pairs, pair, iterations)

    monkeypatch.setattr(precision, "gaps", counting)
    return counted


def saved(result: Result, folder: Path) -> bytes:
    return result.save(folder).with_suffix(".csv").read_bytes()


def kept_blocks(folder: Path) -> list[Path]:
    """In the order in which they were written."""
    return sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)


def test_kept_blocks_are_not_computed_again(tiny, few, computed, tmp_path):
    cache = tmp_path / "a" / "cache"
    first = precision.run(FEW, [tiny], cache=cache)
    assert sorted(computed.pairs) == list(range(18))
    assert len(kept_blocks(cache)) == 5
    computed.pairs.clear()
    told = []
    again = precision.run(FEW, [tiny], cache=cache, progress=lambda *now: told.append(now))
    assert computed.pairs == []
    assert told[-1] == (18, 18)
    assert saved(first, tmp_path / "1") == saved(again, tmp_path / "2") == saved(few, tmp_path / "3")


def test_lost_and_damaged_blocks_are_computed_again(tiny, few, computed, tmp_path):
    cache = tmp_path / "cache"
    precision.run(FEW, [tiny], cache=cache)
    whole = {path: path.read_bytes() for path in kept_blocks(cache)}
    first, second, third, fourth, _ = whole
    first.unlink()
    second.write_bytes(whole[second][:-40])  # cut off
    flipped = bytearray(whole[third])
    flipped[len(flipped) // 2] ^= 1
    third.write_bytes(flipped)
    fourth.write_bytes(b"")
    computed.pairs.clear()
    again = precision.run(FEW, [tiny], cache=cache)
    assert sorted(computed.pairs) == list(range(16))
    assert saved(again, tmp_path / "1") == saved(few, tmp_path / "2")
    assert {path: path.read_bytes() for path in cache.iterdir()} == whole


def test_a_block_of_another_key_is_computed_again(tiny, few, computed, tmp_path):
    cache = tmp_path / "cache"
    precision.run(FEW, [tiny], cache=cache)
    first, second, *_ = kept_blocks(cache)
    first.write_bytes(second.read_bytes())
    computed.pairs.clear()
    assert precision.run(FEW, [tiny], cache=cache).rows == few.rows
    assert computed.pairs == [0, 1, 2, 3]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_run_that_was_stopped_goes_on(tiny, few, monkeypatch, tmp_path, n_jobs):
    monkeypatch.setattr(precision, "_BLOCK", 2)
    cache, gaps, started = tmp_path / "cache", precision.gaps, []

    def slow(explainers, pairs, pair, iterations):
        started.append(pair)
        time.sleep(0.01)  # so that most blocks still wait when the run is stopped
        return gaps(explainers, pairs, pair, iterations)

    def stop(done: int, total: int) -> None:
        if done >= 6:
            raise KeyboardInterrupt

    monkeypatch.setattr(precision, "gaps", slow)
    with pytest.raises(KeyboardInterrupt):
        precision.run(FEW, [tiny], n_jobs=n_jobs, progress=stop, cache=cache)
    finished = sorted(started)  # a block that was begun is kept
    assert set(range(6)) <= set(finished) < set(range(18))
    assert len(list(cache.iterdir())) == len(finished) // 2
    started.clear()
    again = precision.run(FEW, [tiny], n_jobs=n_jobs, cache=cache)
    assert sorted(finished + started) == list(range(18))
    assert saved(again, tmp_path / "1") == saved(few, tmp_path / "2")


def test_more_pairs_need_only_the_further_blocks(tiny, computed, tmp_path):
    precision.run(FEW, [tiny], cache=tmp_path)
    computed.pairs.clear()
    precision.run(replace(FEW, n_pairs=23), [tiny], cache=tmp_path)
    assert sorted(computed.pairs) == list(range(16, 23))


def test_what_a_block_depends_on_is_its_key(tiny, computed, tmp_path):
    """Rows too, though no file has them."""
    precision.run(FEW, [tiny], cache=tmp_path)
    others = [
        (replace(FEW, seed=1), tiny),
        (replace(FEW, scales=(0.1, 0.9)), tiny),
        (replace(FEW, iterations=(1, 2, 49)), tiny),
        (FEW, replace(tiny, kind="Single")),
        (FEW, replace(tiny, files={"models/none.json": "f" * 64})),
        (FEW, replace(tiny, X=tiny.X + 1.0)),
    ]
    for config, subject in others:
        computed.pairs.clear()
        found = precision.run(config, [subject], cache=tmp_path)
        assert sorted(computed.pairs) == list(range(18))
        assert found.rows == precision.run(config, [subject]).rows
    computed.pairs.clear()
    precision.run(replace(FEW, confidence=0.5), [tiny], cache=tmp_path)
    assert computed.pairs == []


def test_equal_keys_have_one_name():
    assert digest({"a": (1, 2), "b": None}) == digest({"b": None, "a": [1, 2]})
    assert digest({"a": 1}) != digest({"a": 1.5}) != digest({"b": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest({"a": float("nan")})


def test_an_array_comes_back_as_it_was(tmp_path):
    kept = np.random.default_rng(0).normal(size=(2, 3, 4))
    key = {"what": "normal"}
    first = remembered(tmp_path, key, lambda: kept)
    again = remembered(tmp_path, key, lambda: pytest.fail("it was kept"))
    assert first is kept
    assert again.dtype == kept.dtype
    np.testing.assert_array_equal(again, kept)
    assert [path.name for path in tmp_path.iterdir()] == [f"{digest(key)}.npy"]


def test_nothing_is_kept_of_work_that_failed(tmp_path):
    def fail() -> np.ndarray:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        remembered(tmp_path / "cache", {"what": "failure"}, fail)
    assert not (tmp_path / "cache").exists()


# ---- parts put together --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parts(tiny) -> list[Result]:
    return [precision.run(FEW, [subject]) for subject in (tiny, subject_of(0, dataset="housing"))]


def test_parts_make_the_whole(tiny, parts):
    whole = precision.run(FEW, [tiny, subject_of(0, dataset="housing")])
    found = merged(parts, FEW)
    for name in ("experiment", "columns", "rows", "config", "seed", "files", "versions"):
        assert getattr(found, name) == getattr(whole, name)
    assert found.seed == 0
    assert list(found.timings) == list(whole.timings) == ["Bigger wine", "Bigger housing"]


def test_parts_may_have_been_saved(parts, tmp_path):
    loaded = []
    for i, part in enumerate(parts):
        part.save(tmp_path / str(i))
        loaded.append(Result.load(tmp_path / str(i), "precision"))
    assert saved(merged(loaded, FEW), tmp_path / "a") == saved(merged(parts, FEW), tmp_path / "b")


def test_seconds_of_a_name_are_added_up(parts):
    twice = [replace(part, timings={"all": 2.0, str(i): 1.0}) for i, part in enumerate(parts)]
    assert merged(twice, FEW).timings == {"all": 4.0, "0": 1.0, "1": 1.0}


@pytest.mark.parametrize(
    "other",
    [{"experiment": "clocks"}, {"columns": [*"abcdefghijkl"]}, {"versions": {"predgap": "0"}}, {"seed": 1}],
)
def test_parts_that_do_not_fit_are_refused(parts, other):
    with pytest.raises(PredgapError, match="do not fit together"):
        merged([parts[0], replace(parts[1], **other)], FEW)


def test_parts_of_another_seed_than_the_config_says_are_refused(parts):
    with pytest.raises(PredgapError, match=r"seed 0, expected .* and 1"):
        merged(parts, replace(FEW, seed=1))


def test_parts_from_different_files_of_one_name_are_refused(parts):
    other = replace(parts[1], files={"models/none.json": "f" * 64})
    with pytest.raises(PredgapError, match=r"'models/none.json' is two files"):
        merged([parts[0], other], FEW)
    assert joined_files([parts[0], replace(other, files={"a": "1"})]) == {"a": "1", **parts[0].files}


def test_no_parts_are_refused():
    with pytest.raises(PredgapError, match="no parts"):
        merged([], FEW)


# ---- the paper's wine model ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def wine(shared_data) -> Subject:
    return authors_subjects(shared_data, kinds=["Bigger"], datasets=["wine"])[0]


@pytest.mark.slow_paper
def test_the_published_errors_of_wine_are_within_sampling_error(wine):
    """All 6 cells of the Bigger model: 0.1, 0.3 and 1.0, plain and quasi Monte Carlo."""
    result = precision.run(Config(n_pairs=132, iterations=(4000, 8000, 15000)), [wine], n_jobs=2)
    rows = [row for row in result.records() if row["published"] is not None]
    assert [(row["scale"], row["method"], row["iterations"], row["published"]) for row in rows] == [
        (0.1, "mc", 4000, "0.019"),
        (0.1, "halton", 4000, "0.003"),
        (0.3, "mc", 8000, "0.014"),
        (0.3, "halton", 8000, "0.002"),
        (1.0, "mc", 15000, "0.009"),
        (1.0, "halton", 15000, "0.001"),
    ]
    assert [row["within"] for row in rows] == [row["within_jointly"] for row in rows] == ["inside"] * 6
    assert sum(row["verdict"] == "matches" for row in rows) >= 3
    assert max(row["standard_error"] / row["nmae"] for row in rows) < 0.15  # the intervals say something


@pytest.mark.slow_paper
def test_estimates_for_wine_are_means_over_perturbed_rows(wine):
    """Rows of wine are full of values that equal a threshold, which is no tie for noise."""
    config = Config(scales=(0.1, 1.0), n_pairs=11, iterations=(100, 1000))
    pairs = draw_pairs(wine, config.n_pairs, config.seed)
    explainers = [Explainer(wine.ensemble, Normal(scale)) for scale in config.scales]
    expected = estimates_by_definition(wine, pairs, config)
    for pair in range(len(pairs)):
        found = precision.gaps(explainers, pairs, pair, config.iterations)[:, 1:]
        np.testing.assert_allclose(found, expected[pair].reshape(2, -1), rtol=1e-12, atol=1e-15)
