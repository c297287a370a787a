"""Sensitivity: Sobol' indices, Shapley effects and interactions are those of the definition, and add up."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from asking import kernel_of
from assertions import exactly, explainer_of, row_of, rows_of
from predgap import Background, Explainer, Flip, FromScipy, Marginal, Normal, PerFeature, Sensitivity
from predgap.errors import CostError, NoiseError, OutputError, PredgapError
from reference import SummedRow, tails_of
from spread_reference import variance_of_sets
from strategies import WIDE, Split, ensemble_of, mixed_problems, problems, random_ensemble

by_terms = pytest.mark.parametrize("strategy", ["plan", "compiled", None])
TOLERANCES = st.sampled_from([1e-1, 1e-3, 1e-6])
EVERYTHING = st.one_of(problems(max_rows=1), mixed_problems(max_rows=1))


def parts(sets, units):
    """The variance, its parts of each unit (alone, in all sets, in equal parts), and of pairs, from those of
    sets of features; `units` has the unit of each feature."""
    n = max(units) + 1
    first, total, shapley, pairs = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros((n, n))
    for features, variance in sets.items():
        own = sorted({units[q] for q in features})
        total[own] += float(variance)
        shapley[own] += float(variance) / len(own)
        if len(own) == 1:
            first[own] += float(variance)
        if len(own) == 2:
            pairs[np.ix_(own, own)] += float(variance) * (1 - np.eye(2))
    return float(sum(sets.values())), first, total, shapley, pairs


def assert_parts(found, r, exact, allowed):
    """The parts of row r are the exact ones: as shares within the error bound, and up to rounding."""
    variance, *wanted = exact
    shares = (found.first[r], found.total[r], found.shapley[r], found.interactions[r])
    if found.variance[r] == 0:
        assert variance <= allowed
        assert all(np.isnan(share).all() for share in shares)
        return
    for share, part in zip(shares, wanted, strict=True):
        if found.error_bound[r] == 0:
            assert (np.abs(share * found.variance[r] - part) <= allowed).all()
        else:
            assert (np.abs(share * variance - part) <= found.error_bound[r] * variance + 2 * allowed).all()


def assert_sensitivity(problem, found):
    e, d = problem.ensemble, problem.ensemble.n_features
    for r, (x, row) in enumerate(zip(problem.X, rows_of(problem), strict=True)):
        sets = variance_of_sets(e, x, range(d), tails_of(problem.noise, e))
        assert_parts(found, r, parts(sets, range(d)), row.bound(range(d)))


@by_terms
@given(problem=EVERYTHING)
def test_shares_equal_the_definition(strategy, problem):
    found = explainer_of(problem, strategy).sensitivity(problem.X)
    assert (found.method == "exact").all()
    assert_sensitivity(problem, found)


@by_terms
@given(problem=problems(max_rows=1, values=st.sampled_from(WIDE)))
def test_shares_of_leaves_of_very_different_size(strategy, problem):
    assert_sensitivity(problem, explainer_of(problem, strategy).sensitivity(problem.X))


@given(problem=EVERYTHING, rtol=TOLERANCES)
def test_bounded_shares_are_within_their_bound(problem, rtol):
    explainer = Explainer(problem.ensemble, problem.noise, rtol=rtol, _strategy="compiled")
    found = explainer.sensitivity(problem.X)
    assert (found.error_bound <= rtol).all()
    assert_sensitivity(problem, found)


@given(problem=EVERYTHING, data=st.data())
def test_groups_are_counted_as_one(problem, data):
    d = problem.ensemble.n_features
    members = data.draw(st.lists(st.integers(0, d - 1), min_size=1, max_size=d, unique=True))
    units, at = [], 0
    for q in range(d):
        if q in members and q != min(members):
            units.append(units[min(members)])
        else:
            units.append(at)
            at += 1
    found = explainer_of(problem, None, groups={"some": members}).sensitivity(problem.X)
    assert found.first.shape == (len(problem.X), max(units) + 1)
    for r, (x, row) in enumerate(zip(problem.X, rows_of(problem), strict=True)):
        sets = variance_of_sets(problem.ensemble, x, range(d), tails_of(problem.noise, problem.ensemble))
        assert_parts(found, r, parts(sets, units), row.bound(range(d)))


@pytest.mark.parametrize("leaves", ["vectors", "numbers"])
def test_outputs_are_summed(leaves):
    rng, d = np.random.default_rng(7), 3

    def grow(levels):
        if levels == 0:
            return tuple(rng.normal(size=2)) if leaves == "vectors" else rng.normal()
        return Split(int(rng.integers(d)), rng.normal(), grow(levels - 1), grow(levels - 1))

    grown = [grow(3) for _ in range(4)]
    targets = [-1] * 4 if leaves == "vectors" else [0, 1, 1, 0]
    ensemble, x, noise = ensemble_of(grown, d, targets=targets, n_outputs=2), rng.normal(size=d), Normal(0.7)
    tails, own = tails_of(noise, ensemble), [ensemble.select(k) for k in range(2)]
    sets = [variance_of_sets(e, x, range(d), tails) for e in own]
    summed = {features: sum(each[features] for each in sets) for features in sets[0]}
    found = exactly(ensemble, noise).sensitivity(x[None])
    assert_parts(found, 0, parts(summed, range(d)), SummedRow(ensemble, tails, x).bound(range(d)))


# ---- what must hold of all -------------------------------------------------------------------------


@given(problem=EVERYTHING)
def test_shapley_effects_sum_to_one_and_lie_between_first_and_total(problem):
    found = explainer_of(problem, None).sensitivity(problem.X)
    varies = found.variance > 0
    assert found.shapley[varies].sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    assert (found.first[varies] <= found.shapley[varies] * (1 + 1e-12)).all()
    assert (found.shapley[varies] <= found.total[varies] * (1 + 1e-12)).all()
    assert (found.interactions[varies] == found.interactions[varies].transpose(0, 2, 1)).all()
    assert (np.diagonal(found.interactions[varies], axis1=1, axis2=2) == 0).all()
    assert (found.first[varies].sum(axis=1) <= 1 + 1e-12).all()
    moments = explainer_of(problem, None).moments(problem.X)
    assert found.variance == pytest.approx(moments.variance, rel=1e-12, abs=1e-300)


def test_nothing_varies():
    ensemble = ensemble_of([Split(0, 0.5, 1.0, 3.0)], 2)
    found = exactly(ensemble, Flip(1.0)).sensitivity([[0.0, 7.0], [1.0, 7.0]])
    assert found.variance.tolist() == [0.0, 0.0]
    for shares in (found.first, found.total, found.shapley, found.interactions):
        assert np.isnan(shares).all()
    assert "nan" in repr(found)


def test_pruned_shares_of_a_large_model_are_within_their_bound():
    rng = np.random.default_rng(3)
    ensemble = random_ensemble(rng, n_trees=60, depth=5, n_features=6)
    X, noise = rng.normal(size=(4, 6)), Normal(0.4)
    exact = exactly(ensemble, noise, "compiled").sensitivity(X)
    left_out = 0
    for rtol in (0.3, 1e-2, 1e-4):
        found = Explainer(ensemble, noise, rtol=rtol, _strategy="compiled").sensitivity(X)
        assert (found.error_bound <= rtol).all()
        left_out += (found.method == "bounded").sum()
        for name in ("first", "total", "shapley", "interactions"):
            error = np.abs(getattr(found, name) - getattr(exact, name)).reshape(len(X), -1).max(axis=1)
            assert (error <= found.error_bound + 1e-12).all()
    assert left_out > 0


# ---- sampling through the source library ------------------------------------------------------------


def pick_freeze(predict, draw, n, q):
    """First-order and total parts of the variance by feature q, and their standard errors (Saltelli, Jansen).

    A and B are independent samples; C is B with feature q of A. First: E[f(A) (f(C) - f(B))]; total: half of
    E[(f(B) - f(C))²].
    """
    a, b = draw(n), draw(n)
    c = b.copy()
    c[:, q] = a[:, q]
    at_a, at_b, at_c = predict(a), predict(b), predict(c)
    centre = at_b.mean()
    first, total = (at_a - centre) * (at_c - at_b), 0.5 * (at_b - at_c) ** 2
    return [(float(each.mean()), float(each.std() / math.sqrt(n))) for each in (first, total)]


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return GradientBoostingRegressor(n_estimators=60, max_depth=4, random_state=0).fit(X, y), X


def test_local_indices_within_five_standard_errors_of_pick_freeze(diabetes):
    model, X = diabetes
    scale, rng = 0.3 * X.std(axis=0), np.random.default_rng(0)
    found = Explainer(model, Normal(scale)).sensitivity(X[:1])
    for q in range(X.shape[1]):
        draw = lambda n: X[0] + rng.normal(size=(n, X.shape[1])) * scale  # noqa: E731
        first, total = pick_freeze(model.predict, draw, 20_000, q)
        assert abs(found.first[0, q] * found.variance[0] - first[0]) <= 5 * first[1] + 1e-9
        assert abs(found.total[0, q] * found.variance[0] - total[0]) <= 5 * total[1] + 1e-9


def test_global_indices_within_five_standard_errors_of_pick_freeze(diabetes):
    model, X = diabetes
    rng = np.random.default_rng(1)
    found = Explainer(model, Marginal(X)).sensitivity()

    def draw(n):
        return np.stack([rng.choice(column, n) for column in X.T], axis=1)

    for q in range(X.shape[1]):
        first, total = pick_freeze(model.predict, draw, 20_000, q)
        assert abs(found.first[0, q] * found.variance[0] - first[0]) <= 5 * first[1] + 1e-9
        assert abs(found.total[0, q] * found.variance[0] - total[0]) <= 5 * total[1] + 1e-9


# ---- one answer for a model --------------------------------------------------------------------------


@given(problem=EVERYTHING, seed=st.integers(0, 99))
def test_noise_that_forgets_the_row_gives_every_row_the_same(problem, seed):
    e, rng = problem.ensemble, np.random.default_rng(seed)
    kinds = e.categories or [None] * e.n_features
    assume(all(levels is None or len(levels) for levels in kinds))
    values = [[-1.5, 0.0, 0.25, 1.0, 3.0] if levels is None else levels.codes for levels in kinds]
    table = np.stack([rng.choice(some, 6) for some in values], axis=1).astype(float)
    noise, every = Marginal(table), range(e.n_features)
    explainer = Explainer(e, noise, rtol=0)
    alone, rows = explainer.sensitivity(), explainer.sensitivity(table)
    anchor = row_of(e, noise, kernel_of(explainer).typical_rows()[0]).bound(every)
    for r, x in enumerate(table):
        bound = anchor + row_of(e, noise, x).bound(every)
        assert abs(rows.variance[r] - alone.variance[0]) <= bound
        for name in ("first", "total", "shapley", "interactions"):
            parts_here = np.nan_to_num(getattr(rows, name)[r]) * rows.variance[r]
            parts_alone = np.nan_to_num(getattr(alone, name)[0]) * alone.variance[0]
            assert (np.abs(parts_here - parts_alone) <= bound).all()


def test_one_answer_of_a_model(diabetes):
    model, X = diabetes
    explainer = Explainer(model, Marginal(X), rtol=0)
    alone, rows = explainer.sensitivity(), explainer.sensitivity(X[:20])
    assert alone.first.shape == (1, 10)
    for name in ("first", "total", "shapley", "interactions"):
        assert np.abs(getattr(rows, name) - getattr(alone, name)).max() <= 1e-12


def test_what_is_refused(diabetes, monkeypatch):
    model, X = diabetes
    with pytest.raises(NoiseError, match=r"without X needs noise that replaces every feature.*10 features"):
        Explainer(model, Normal(0.1)).sensitivity()
    some = PerFeature({q: Marginal(X) for q in range(9)}, default=Normal(0.1))
    with pytest.raises(NoiseError, match="of 1 feature depends on the row: 'f9'"):
        Explainer(model, some).sensitivity()
    for call in (lambda e: e.sensitivity(), lambda e: e.sensitivity(X[:2])):
        with pytest.raises(PredgapError, match=r"independently of each other.*Use Marginal\(X\)"):
            call(Explainer(model, Background(X)))
    iris = load_iris(as_frame=True)
    classes = GradientBoostingClassifier(n_estimators=2).fit(iris.data, iris.target)
    with pytest.raises(OutputError, match="one output for all rows"):
        Explainer(classes, Marginal(iris.data), output="predicted").sensitivity()
    wide = ensemble_of([Split(0, 0.5, 1.0, 3.0)], 3000)
    with pytest.raises(CostError, match="Pass at most 14 rows at a time"):
        Explainer(wide, Normal(0.1)).sensitivity(np.zeros((20, 3000)))
    with monkeypatch.context() as patch:
        patch.setattr("predgap._engine.kernels._TABLE_BYTES", 1)  # rows come one by one
        with pytest.raises(CostError, match="Pass at most 14 rows at a time"):
            Explainer(wide, FromScipy(stats.laplace(scale=0.5))).sensitivity(np.zeros((15, 3000)))


def test_pairs_of_leaves_have_no_components(diabetes):
    model, X = diabetes
    with pytest.raises(CostError, match="A larger rtol or weaker noise costs less"):
        Explainer(model, Normal(0.1), _strategy="pairs").sensitivity(X[:1])


# ---- what it gives -----------------------------------------------------------------------------------


def test_sensitivity_as_tables(diabetes):
    model, X = diabetes
    names = [f"<{q}>" for q in range(10)]
    explainer = Explainer(model, Normal(0.02), feature_names=names)
    found = explainer.sensitivity(X[:3])
    frame = found.to_frame()
    assert list(frame.columns) == ["row", "feature", "first", "total", "shapley", "error_bound"]
    assert len(frame) == 30
    assert (frame["shapley"].to_numpy() == found.shapley.ravel()).all()
    assert repr(found).startswith(
        "Sensitivity of 3 rows to 10 features; means over the rows; the 5 largest\n"
    )
    assert "&lt;2&gt;" in found._repr_html_()
    assert "<2>" not in found._repr_html_()
    copied = pickle.loads(pickle.dumps(found))
    assert isinstance(copied, Sensitivity)
    assert (copied.total == found.total).all()
    assert explainer.sensitivity(X[:0]).interactions.shape == (0, 10, 10)


def test_names_and_labels_are_those_of_the_frame():
    iris = load_iris(as_frame=True)
    model = GradientBoostingClassifier(n_estimators=4, random_state=0).fit(iris.data, iris.target)
    petal = list(iris.data.columns[2:])
    found = Explainer(model, iris.data, groups={"petal": petal}).sensitivity(iris.data.iloc[[70, 3]])
    assert found.feature_names == ("sepal length (cm)", "sepal width (cm)", "petal")
    assert list(found.to_frame()["row"]) == [70] * 3 + [3] * 3


def test_each_row_has_the_output_that_is_predicted():
    iris = load_iris(as_frame=True)
    model = GradientBoostingClassifier(n_estimators=4, random_state=0).fit(iris.data, iris.target)
    rows = iris.data.iloc[[0, 60, 130]]
    found = Explainer(model, iris.data, output="predicted").sensitivity(rows)
    for r in range(3):
        alone = Explainer(model, iris.data, output=r).sensitivity(rows.iloc[[r]])
        assert (found.total[r] == alone.total[0]).all()


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_bits_do_not_depend_on_threads_or_batches(diabetes, n_jobs):
    model, X = diabetes
    whole = Explainer(model, Normal(0.02)).sensitivity(X[:9])
    split = [Explainer(model, Normal(0.02), n_jobs=n_jobs).sensitivity(X[i : i + 3]) for i in (0, 3, 6)]
    assert (np.concatenate([part.interactions for part in split]) == whole.interactions).all()
