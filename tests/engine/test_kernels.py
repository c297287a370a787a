"""What the engine promises beside its answers: bits, tails, threads, interruption, progress, cost."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
import threading

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from asking import kernel_of
from assertions import interrupted
from predgap import CostError, Ensemble, Explainer, FromScipy, Normal, PredgapError, Uniform, _core
from predgap.noise.added import NormalLaw, UniformLaw
from strategies import Split, ensemble_of, full_trees, random_ensemble

INSTRUCTION_SETS = ("baseline", "avx2", "avx512")


@given(st.lists(st.floats(-38, 38), min_size=1, max_size=20))
def test_normal_tails_keep_their_digits(z):
    below, above = _core.normal_tails(np.array(z))
    with mpmath.workdps(40):
        for found, sign in ((below, 1), (above, -1)):
            exact = [mpmath.ncdf(sign * mpmath.mpf(value)) for value in z]
            errors = [
                abs(mpmath.mpf(float(f)) / e - 1) for f, e in zip(found, exact, strict=True) if e > 1e-300
            ]
            assert all(error < 1e-15 for error in errors)


def test_normal_tails_at_the_ends():
    below, above = _core.normal_tails(np.array([-np.inf, -40.0, -0.0, 0.0, 40.0, np.inf]))
    assert below.tolist() == [0, 0, 0.5, 0.5, 1, 1]
    assert above.tolist() == [1, 1, 0.5, 0.5, 0, 0]


@pytest.mark.parametrize("law", [NormalLaw(0.7), UniformLaw(1.3)])
@given(x=st.floats(-3, 3), threshold=st.floats(-3, 3))
def test_the_kernels_know_the_laws_of_the_twin(law, x, threshold):
    """On one stump the gap is the tail beyond the threshold."""
    stump = ensemble_of([Split(0, threshold, 0.0, 1.0)], 1)
    noise = Normal(law.scale) if isinstance(law, NormalLaw) else Uniform(law.half_width)
    below, above = law.tails(np.array([x]), np.array([threshold]))
    expected = above[0, 0] if x < threshold else below[0, 0]
    z = (x - threshold) / 0.7  # whose rounding costs z² ulps in the normal tail
    assert Explainer(stump, noise).gap([[x]], [0])[0] == pytest.approx(
        expected, rel=(8 + z**2) * np.finfo(float).eps, abs=1e-300
    )


ANSWERS = """
    import hashlib, sys
    from dataclasses import replace
    import numpy as np
    sys.path.insert(0, {tests!r})
    from strategies import cities, random_ensemble
    from predgap import Explainer, Normal, _core
    rng = np.random.default_rng(3)
    ensemble = random_ensemble(rng, n_trees=12, depth=4, n_features=9)
    X = rng.normal(size=(45, 9)); X[::7, 3] = np.nan
    found = hashlib.sha256()
    for strategy in ("plan", "compiled", "pairs", None):
        for rtol in (0, 1e-3):
            explainer = Explainer(ensemble, Normal(0.4), rtol=rtol, _strategy=strategy)
            ranking, first = explainer.rank(X), explainer.rank(X, top=3)
            gaps, curves = explainer.gap(X, [0, 2, 5]), explainer.curve(X, ranking)
            bounded = explainer.estimate(X, range(9), "bounded", rtol=1e-3)
            pruned = explainer.approximate(1e-2, "pruned").pgi2(X, ranking)
            sampled = explainer.approximate(1e-2, "qmc", n_samples=256).rank(X[:5])
            for array in (
                gaps, curves, ranking.order, ranking.scores, first.order, first.scores, bounded.value,
                bounded.error_bound, pruned.value, sampled.order, sampled.scores,
                explainer.expected_prediction(X, [0, 1]), explainer.moments(X, [0, 2, 5]).variance,
            ):
                found.update(array.tobytes())
            if strategy != "pairs":
                found.update(explainer.sensitivity(X).interactions.tobytes())
    value, target = rng.normal(size=(ensemble.n_nodes, 3)), np.full(12, -1)
    vectors = replace(ensemble, value=value, bias=np.zeros(3), target=target)
    for strategy in ("plan", "compiled"):
        moments = Explainer(vectors, Normal(0.4), _strategy=strategy).moments(X, covariance=True)
        found.update(moments.covariance.tobytes())
    ensemble, noise = cities(rng, n_trees=30, sizes=(40, 5), depth=4)
    X = np.column_stack([rng.integers(0, 41, 20), rng.integers(0, 5, 20), rng.normal(size=(20, 2))])
    for strategy in ("plan", "compiled", "cells", None):
        explainer = Explainer(ensemble, noise, rtol=0, _strategy=strategy)
        gaps, curves = explainer.gap(X, [0, 1, 2]), explainer.curve(X, [3, 0, 1, 2])
        for array in (gaps, curves, explainer.rank(X).scores):
            found.update(array.tobytes())
    print(_core.instruction_set(), found.hexdigest())
"""


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    )


def test_every_instruction_set_gives_the_same_bits():
    code = ANSWERS.format(tests=os.path.dirname(os.path.dirname(__file__)))
    printed = {isa: run_python(code, PREDGAP_ISA=isa).stdout.split() for isa in INSTRUCTION_SETS}
    best = INSTRUCTION_SETS.index(_core.instruction_set())
    for isa, (used, _) in printed.items():
        assert used == INSTRUCTION_SETS[min(best, INSTRUCTION_SETS.index(isa))]
    assert len({digest for _, digest in printed.values()}) == 1


@pytest.fixture(scope="module")
def slow() -> tuple[Explainer, np.ndarray]:
    """A job of many seconds."""
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_trees=60, depth=6, n_features=12)
    return Explainer(ensemble, Normal(0.5), n_jobs=2), rng.normal(size=(20_000, 12))


def test_ctrl_c_answers_within_a_second(slow):
    explainer, X = slow
    assert interrupted(lambda: explainer.rank(X), after=0.5) < 2.0  # by two threads


def test_other_python_threads_run_meanwhile(slow):
    explainer, X = slow
    counted, stop = [0], threading.Event()

    def count() -> None:
        while not stop.wait(0.001):
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    explainer.curve(X[:400], np.arange(12))
    stop.set()
    thread.join()
    assert counted[0] >= 5  # none, or one at the ends, if the call kept the interpreter's lock


def test_a_stop_ends_a_row_wherever_it_falls():
    """Of a model without a plan: while terms are counted, while a limit is sought, while it is compiled."""
    rng = np.random.default_rng(0)
    explainer = Explainer(full_trees(rng, n_trees=100, depth=9, n_features=40), Normal(0.6))
    X = rng.normal(size=(200, 40))
    for after in np.linspace(0.02, 0.8, 14):
        interrupted(lambda: explainer.gap(X, range(40)), after=after)


def test_progress_is_told_by_rows(slow):
    explainer, X = slow
    told = []
    watched = Explainer(
        explainer.ensemble, explainer.noise, progress=lambda done, total: told.append((done, total))
    )
    watched.curve(X[:400], np.arange(12))
    done = [d for d, _ in told]
    assert told
    assert done == sorted(done)
    assert {total for _, total in told} == {400}
    assert done[0] >= 0
    assert done[-1] == 400


def test_progress_does_not_run_backwards_over_parts_of_the_rows(slow, monkeypatch):
    """Tails that only Python knows come in tables, a few rows at a time."""
    explainer, X = slow
    monkeypatch.setattr("predgap._engine.kernels._TABLE_BYTES", 1 << 16)
    told = []
    watched = Explainer(
        explainer.ensemble,
        FromScipy(stats.laplace(scale=0.5)),
        n_jobs=2,
        progress=lambda done, total: told.append((done, total)),
    )
    watched.gap(X[:2000], [0, 1, 2])
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert {total for _, total in told} == {2000}
    assert told[-1][0] == 2000
    assert len({done for done, _ in told}) > 2


def test_an_error_in_the_progress_callback_stops_the_work(slow):
    explainer, X = slow

    def fail(done: int, total: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        Explainer(explainer.ensemble, explainer.noise, progress=fail).rank(X)


def test_a_callback_that_raises_is_not_called_again():
    """Though the workers take a while to stop."""
    calls = []

    def fail(done: int, total: int) -> None:
        calls.append(done)
        raise RuntimeError("enough")

    slow_to_stop = Explainer(chain_of_terms(), Normal(0.5), progress=fail)
    with pytest.raises(RuntimeError, match="enough"):
        slow_to_stop.rank(np.full((64, 2), 0.1))
    assert len(calls) == 1


def chain_of_terms() -> Ensemble:
    """Two features, and a component with tens of thousands of terms."""
    return random_ensemble(np.random.default_rng(0), n_trees=1500, depth=6, n_features=2)


@pytest.mark.parametrize("strategy", ["plan", "compiled", "pairs"])
@pytest.mark.parametrize("ask", [lambda e, X: e.gap(X, [0, 1]), lambda e, X: e.rank(X)], ids=["gap", "rank"])
def test_ctrl_c_answers_within_a_second_on_long_components(ask, strategy):
    explainer = Explainer(chain_of_terms(), Normal(0.5), rtol=0, _strategy=strategy)
    seconds = interrupted(lambda: ask(explainer, np.full((50_000, 2), 0.1)), after=0.3)
    assert seconds < 1.0


def test_ctrl_c_answers_within_a_second_while_a_model_is_prepared():
    ensemble = full_trees(np.random.default_rng(0), n_trees=150, depth=14, n_features=20)
    assert interrupted(lambda: Explainer(ensemble, Normal(0.5)), after=0.2) < 1.0


def test_deep_trees_are_refused_with_their_cost():
    """For what makes them dear only: few features of the same trees are cheap."""
    rng = np.random.default_rng(0)
    explainer = Explainer(full_trees(rng, n_trees=60, depth=14, n_features=20), Normal(1.0), rtol=0)
    x = rng.normal(size=(1, 20))
    assert explainer.gap(x, [0, 1])[0] >= 0
    assert explainer.rank(x, method="single").estimator == "exact"
    with pytest.raises(
        CostError, match=r"rank\(X\) at rtol=0: row 0 would take about [\d,]+ ms and [\d,]+ MB"
    ):
        explainer.rank(x)
    cost = explainer.cost("rank", x)
    assert cost.milliseconds > 1e3 * _core.MOST_SECONDS or cost.megabytes > _core.MOST_BYTES / 1e6


def test_many_rows_are_not_refused():
    """The limit is that of a row."""
    explainer = Explainer(
        random_ensemble(np.random.default_rng(0), n_trees=2, depth=2, n_features=3), Normal(1.0)
    )
    assert explainer.gap(np.full((1_000_000, 3), 0.1), [0, 1]).shape == (1_000_000,)


def test_what_is_cheap_is_not_refused():
    """One deep tree, whose leaves never meet; and a ranking that moves one feature at a time."""
    rng = np.random.default_rng(0)
    deep = Explainer(random_ensemble(rng, n_trees=1, depth=16, n_features=40), Normal(0.3))
    assert deep.gap(rng.normal(size=(1, 40)), range(40))[0] > 0
    wide = Explainer(random_ensemble(rng, n_trees=30, depth=12, n_features=20), Normal(0.3))
    assert wide.rank(rng.normal(size=(1, 20)), method="single").order.shape == (1, 20)


def test_a_long_chain_over_many_features_stays_within_memory():
    """Boxes of a chain take quadratic memory: it is refused before, not after."""
    d = 30_000
    chain = Ensemble(
        root=[0],
        feature=np.r_[np.stack([np.arange(d), np.full(d, -1)], axis=1).ravel(), -1],
        threshold=np.zeros(2 * d + 1),
        left=np.r_[np.stack([2 * np.arange(d) + 1, np.full(d, -1)], axis=1).ravel(), -1],
        right=np.r_[np.stack([2 * np.arange(d) + 2, np.full(d, -1)], axis=1).ravel(), -1],
        default_left=np.zeros(2 * d + 1, dtype=bool),
        value=np.arange(2 * d + 1.0)[:, None],
        target=[0],
        bias=[0.0],
        n_features=d,
    )
    explainer = Explainer(chain, Normal(1.0), rtol=0)
    x = np.ones((1, d))
    assert explainer.gap(x, [3, 5])[0] > 0
    with pytest.raises(CostError, match=r"gap\(X, subset\) at rtol=0: row 0 would take"):
        explainer.gap(x, range(d))
    with pytest.raises(CostError, match=r"rank\(X\) at rtol=0: row 0 would take"):
        explainer.rank(x)
    with pytest.raises(CostError, match=r"row 0 would take"):
        explainer.estimate(x, range(d), "bounded", rtol=1e-2)


def test_an_explainer_can_be_pickled(slow):
    explainer, X = slow
    copy = pickle.loads(pickle.dumps(explainer))
    assert copy.gap(X[:9], [0, 1]).tobytes() == explainer.gap(X[:9], [0, 1]).tobytes()


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, True, "2"])
def test_a_wrong_number_of_jobs_is_refused(n_jobs):
    stump = random_ensemble(np.random.default_rng(0), n_trees=1, depth=1, n_features=1)
    with pytest.raises(PredgapError, match=r"n_jobs is .* expected a number of threads, or -1"):
        Explainer(stump, Normal(1.0), n_jobs=n_jobs)


def test_algorithm_1_agrees():
    rng = np.random.default_rng(5)
    ensemble = random_ensemble(rng, n_trees=6, depth=3, n_features=5)
    X = rng.normal(size=(6, 5))
    for size in range(6):
        mask = np.zeros((1, 5), dtype=np.uint8)
        mask[0, rng.permutation(5)[:size]] = 1
        explainer = Explainer(ensemble, Normal(0.3))
        theirs = _core.algorithm1(kernel_of(explainer).model, X, np.full(5, 0.3), mask)
        scale = np.square(ensemble.predict(X)).max()
        np.testing.assert_allclose(explainer.gap(X, mask[0] == 1), theirs, rtol=1e-12, atol=1e-13 * scale)
