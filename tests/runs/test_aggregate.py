"""The sums of a data set's scores give what all its rows give at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from predgap.runs.aggregate import GREEDY, RANDOM, RunningMoments, aggregated

ROWS = arrays(np.float64, st.tuples(st.integers(2, 30), st.just(3)), elements=st.floats(-10, 10, width=32))


@given(ROWS, st.lists(st.integers(0, 30), max_size=4))
def test_moments_do_not_depend_on_the_blocks(rows, cuts):
    moments = RunningMoments.of_columns(3)
    for block in np.split(rows, sorted(min(cut, len(rows)) for cut in cuts)):
        moments.add(block)
    assert moments.n == len(rows)
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), rtol=1e-12, atol=1e-13)
    centred = rows - rows.mean(axis=0)
    np.testing.assert_allclose(moments.comoment, centred.T @ centred, rtol=1e-10, atol=1e-10)
    weights = np.array([1.0, -2.0, 0.5])
    expected = (rows @ weights).std(ddof=1) / np.sqrt(len(rows))
    assert moments.error(weights) == pytest.approx(expected, rel=1e-9, abs=1e-7)


def write(folder, columns, at):
    for i, (a, b) in enumerate(zip([0, *at], [*at, None], strict=True)):
        part = {name: values[a:b] for name, values in columns.items()}
        pq.write_table(pa.table(part), folder / f"part-{i}.parquet")
    return sorted(folder.glob("part-*.parquet"))


def test_the_summary_is_that_of_all_rows(tmp_path):
    rng = np.random.default_rng(0)
    n = 5000
    a, noise = rng.gamma(2.0, size=n), 0.1 * rng.normal(size=n)
    columns = {
        "a": a,
        "b": a + noise,
        "c": a + 0.5,
        RANDOM: 0.5 * a,
        GREEDY: a + 0.4,
        "method": ["exact"] * n,
    }
    columns |= {"a_pgu2": 0.1 * a, "b_pgu2": 0.2 * a, "c_pgu2": 0.3 * a}
    found = aggregated(write(tmp_path, columns, [10, 10, 1234]), ["a", "b", "c"])
    scores = np.stack([columns[name] for name in ("a", "b", "c")])
    best = np.maximum(columns[GREEDY], scores.max(axis=0))
    assert found.rows == n
    assert found.exact
    assert found.best == pytest.approx(best.mean(), rel=1e-12)
    shares = (scores.mean(axis=1) - columns[RANDOM].mean()) / (best.mean() - columns[RANDOM].mean())
    for i, line in enumerate(found.summary):
        error = scores[i].std(ddof=1) / np.sqrt(n)
        assert line["mean"] == pytest.approx(scores[i].mean(), rel=1e-12)
        assert line["high"] - line["mean"] == pytest.approx(1.959964 * error, rel=1e-6)
        assert line["normalized"] == pytest.approx(shares[i], rel=1e-12)
        assert line["pgu2"] == pytest.approx(0.1 * (i + 1) * a.mean(), rel=1e-12)
        assert line["share_won"] == pytest.approx(np.mean(scores[i] == scores.max(axis=0)), rel=1e-12)
    resampled = []
    for _ in range(400):
        some = rng.integers(n, size=n)
        low, high = columns[RANDOM][some].mean(), best[some].mean()
        resampled.append((scores[1][some].mean() - low) / (high - low))
    width = found.summary[1]["normalized_high"] - found.summary[1]["normalized"]
    assert width == pytest.approx(1.96 * np.std(resampled), rel=0.15)  # the bootstrap, of 400 samples
    p = {(pair["a"], pair["b"]): pair["p"] for pair in found.pairs}
    assert p["a", "c"] < 1e-10
    z = noise.mean() / (noise.std(ddof=1) / np.sqrt(n))
    assert p["a", "b"] == pytest.approx(np.clip(2 * (1 - _normal_cdf(abs(z))), 0, 1), rel=1e-6)
    told = found.verdict()
    assert told.index("c ") < told.index("b ")
    assert ("Not to be told apart: a and b." in told) == (p["a", "b"] >= 0.05)


def _normal_cdf(z):
    from scipy.special import ndtr

    return float(ndtr(z))


def test_where_nothing_differs_nothing_is_normalised(tmp_path):
    same = np.ones(4)
    columns = {"a": same, "b": same, RANDOM: same, "method": ["bounded"] * 4}
    found = aggregated(write(tmp_path, columns, []), ["a", "b"])
    assert np.isnan(found.summary[0]["normalized"])
    assert np.isnan(found.summary[0]["pgu2"])  # it was not asked for
    assert found.pairs[0]["p"] == 1.0
    assert not found.exact
    assert "not defined" in found.verdict()


def test_no_rows(tmp_path):
    columns = {"a": np.empty(0), RANDOM: np.empty(0), "method": pa.array([], pa.string())}
    assert aggregated(write(tmp_path, columns, []), ["a"]).verdict() == "There are no rows."
