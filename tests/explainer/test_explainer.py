"""The explainer as people meet it: tables in, rankings out, and errors that help."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost

import predgap
from predgap import (
    Discrete,
    Explainer,
    Flip,
    Marginal,
    Normal,
    PerFeature,
    Ranking,
    Uniform,
    _core,
)
from predgap._engine.context import Call, Context, Shown, calling
from predgap.errors import LongCallWarning
from predgap.noise.law import Law
from strategies import Split, ensemble_of

NAMES = ["age", "bmi", "bp"]


def test_every_kind_of_table_gives_the_same_gaps(explainer, table):
    expected = explainer.gap(table, ["age", "bp"])
    shuffled = table[["bp", "age", "bmi"]]
    for X in (
        table.to_numpy(),
        table.to_numpy().tolist(),
        shuffled,
        pl.DataFrame(shuffled),
        pa.Table.from_pandas(shuffled, preserve_index=False),
    ):
        assert explainer.gap(X, ["age", "bp"]).tobytes() == expected.tobytes()


def test_every_kind_of_subset_gives_the_same_gaps(explainer, table):
    expected = explainer.gap(table, ["age", "bp"])
    mask = np.array([True, False, True])
    for subset in (["bp", "age"], [0, 2], np.array([2, 0]), mask, np.tile(mask, (60, 1))):
        assert explainer.gap(table, subset).tobytes() == expected.tobytes()


def test_rows_may_have_subsets_of_their_own(explainer, table):
    masks = np.random.default_rng(1).random((60, 3)) < 0.5
    for ask in (explainer.gap, explainer.expected_prediction):
        found = ask(table, masks)
        for r in range(60):
            assert found[r] == ask(table.iloc[[r]], masks[r])[0]


def test_the_index_and_the_kind_of_frame_survive(explainer, table):
    frame = explainer.rank(table).to_frame()
    assert list(frame.columns) == ["row", "place", "feature", "score", "confidence"]
    assert frame["row"].tolist() == np.repeat(table.index, 3).tolist()
    assert isinstance(explainer.rank(pl.DataFrame(table)).to_frame(), pl.DataFrame)
    assert isinstance(explainer.rank(pa.Table.from_pandas(table, preserve_index=False)).to_frame(), pa.Table)


def test_calling_is_ranking(explainer, table):
    assert (explainer(table).order == explainer.rank(table).order).all()


def test_a_ranking_says_how_it_was_made(explainer, table):
    for method in ("greedy", "single"):
        ranking = explainer.rank(table, method)
        assert (ranking.method, ranking.estimator) == (method, "exact")
        assert (ranking.confidence == 1).all()
        assert ranking.scores.shape == (60, 3)
    assert explainer.ensemble.feature_names == ranking.feature_names == tuple(NAMES)


def test_the_first_places_are_enough(explainer, table):
    whole = explainer.rank(table)
    for top in (1, 2, np.int64(3)):
        first = explainer.rank(table, top=top)
        assert first.order.tolist() == whole.order[:, :top].tolist()
        curve = explainer.curve(table, first)
        assert curve.tobytes() == explainer.curve(table, first.order).tobytes()
        np.testing.assert_allclose(curve, explainer.curve(table, whole)[:, :top], rtol=1e-12)
        np.testing.assert_allclose(explainer.pgi2(table, first), curve.mean(axis=1), rtol=1e-15)
    assert explainer.curve(table, ["bmi"]).shape == (60, 1)
    assert explainer.pgi2(table, ["bmi"]) == pytest.approx(explainer.gap(table, ["bmi"]), rel=1e-12)
    assert explainer.pgu2(table, first).shape == (60,)  # all three places
    with pytest.raises(predgap.RankingError, match="the ranking has the first 2 places; PGU² needs all 3"):
        explainer.pgu2(table, explainer.rank(table, top=2))


@pytest.mark.parametrize("top", [0, -1, 4, 1.0, True, "1"])
def test_a_number_of_places_is_checked(explainer, table, top):
    for ask in (explainer, explainer.approximate(method="qmc")):
        with pytest.raises(predgap.RankingError, match=r"top is .*, expected a whole number from 1 to 3"):
            ask.rank(table, top=top)


def test_the_accuracy_of_a_copy_follows_its_tolerance(explainer):
    other = copy.copy(explainer)
    other.rtol = 0.0
    assert other.accuracy.kind == "exact"
    assert explainer.accuracy.rtol == explainer.rtol > 0


@pytest.mark.parametrize("rtol", ["a", None, True, np.nan, np.inf, -1e-6, [1e-6], 1j, 1, 1.0, 30.0])
def test_a_tolerance_is_checked(explainer, rtol):
    with pytest.raises(predgap.PredgapError, match=r"rtol is .*, expected a number from 0 to below 1"):
        Explainer(explainer.ensemble, Normal(1.0), rtol=rtol)


@pytest.mark.parametrize("rtol", [0, 0.0, np.float32(1e-3), 0.999, 1e-300])
def test_a_tolerance_may_be_any_number_below_1(explainer, table, rtol):
    found = Explainer(explainer.ensemble, explainer.noise, rtol=rtol).gap(table, NAMES)
    assert found.tobytes() == explainer.gap(table, NAMES).tobytes()  # exact, as it is cheap


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # shap meets matplotlib
def test_shap_values_are_scored(explainer, model, table):
    import shap

    explanation = shap.TreeExplainer(model)(table)
    contributions = model.get_booster().predict(xgboost.DMatrix(table), pred_contribs=True)
    by_shap = Ranking.from_attributions(explanation)
    by_xgboost = Ranking.from_attributions(contributions, feature_names=NAMES)
    np.testing.assert_allclose(explainer.pgi2(table, by_shap), explainer.pgi2(table, by_xgboost), rtol=1e-12)
    assert explainer.pgi2(table, explainer.rank(table)).mean() >= explainer.pgi2(table, by_shap).mean()


def test_a_ranking_may_be_given_in_any_form(explainer, table):
    expected = explainer.curve(table, ["bmi", "age", "bp"])
    for ranking in ([1, 0, 2], np.tile([1, 0, 2], (60, 1)), Ranking(np.tile([1, 0, 2], (60, 1)))):
        assert explainer.curve(table, ranking).tobytes() == expected.tobytes()
    assert (explainer.pgi2(table, [1, 0, 2]) == expected.mean(axis=1)).all()
    assert (explainer.pgu2(table, [2, 0, 1]) == expected.mean(axis=1)).all()


def test_missing_values_stay_missing(model, table):
    X = table.copy()
    X["age"] = np.nan
    assert (Explainer(model, Normal(0.5)).gap(X, ["age"]) == 0).all()


def test_the_value_called_missing_is_missing(table):
    X = table.where(table.abs() > 0.3, 0.0)
    y = table["age"] ** 2 + table["bmi"]
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=3, missing=0.0).fit(X, y)
    gaps = Explainer(model, Normal(0.5)).gap(X, ["age"])
    assert (gaps[X["age"] == 0] == 0).all()
    assert (gaps[X["age"] != 0] > 0).any()


def test_one_class_of_several(table):
    y = np.arange(60) % 3
    model = xgboost.XGBClassifier(n_estimators=4, max_depth=2).fit(table, y)
    with pytest.raises(predgap.OutputError, match="output=3 does not exist"):
        Explainer(model, Normal(0.5), output=3)
    rng = np.random.default_rng(0)
    x = table.to_numpy()[:1].astype(np.float32)
    moved = np.repeat(x, 200_000, axis=0) + rng.normal(scale=0.5, size=(200_000, 3))
    for output in range(3):
        f = model.predict(moved, output_margin=True)[:, output].astype(float)
        squares = (f - model.predict(x, output_margin=True)[0, output]) ** 2
        error = squares.std() / np.sqrt(len(squares))
        gap = Explainer(model, Normal(0.5), output=output).gap(x, NAMES)[0]
        assert abs(squares.mean() - gap) <= 5 * error


@pytest.mark.parametrize("X", [np.empty((0, 3)), pd.DataFrame(columns=NAMES)], ids=["array", "frame"])
def test_an_empty_table_gives_an_empty_result(explainer, X):
    assert explainer.gap(X, ["age"]).shape == (0,)
    assert explainer.curve(X, [0, 1, 2]).shape == (0, 3)
    assert explainer.pgi2(X, [0, 1, 2]).shape == explainer.pgu2(X, [0, 1, 2]).shape == (0,)
    ranking = explainer.rank(X)
    assert ranking.order.shape == ranking.scores.shape == (0, 3)
    assert len(ranking.to_frame()) == 0


def test_a_model_without_features_is_answered():
    constant = predgap.Ensemble(
        root=[0],
        feature=[-1],
        threshold=[0],
        left=[-1],
        right=[-1],
        default_left=[False],
        value=[[1.0]],
        target=[0],
        bias=[0.0],
        n_features=0,
    )
    explainer = Explainer(constant, Normal(1.0))
    X = np.empty((4, 0))
    assert explainer.gap(X, []).tolist() == explainer.pgi2(X, np.empty((4, 0), dtype=int)).tolist() == [0] * 4
    assert explainer.rank(X).order.shape == (4, 0)


def test_names_can_be_given(model, table):
    explainer = Explainer(model, Normal(0.5), feature_names=["a", "b", "c"])
    assert set(explainer.rank(table.to_numpy()).top(3)[0]) == {"a", "b", "c"}
    with pytest.raises(predgap.EnsembleError, match="2 feature names for 3 features"):
        Explainer(model, Normal(0.5), feature_names=["a", "b"])
    with pytest.raises(predgap.EnsembleError, match="'a' is given more than once"):
        Explainer(model, Normal(0.5), feature_names=["a", "b", "a"])


BAD_TABLES = {
    "too few columns": (lambda t: t.to_numpy()[:, :2], predgap.ShapeError, r"2 columns.*needs 3.*'age'"),
    "too many columns": (
        lambda t: t.assign(y=1.0),
        predgap.ShapeError,
        r"not know: 'y'; drop the target",
    ),
    "a missing column": (lambda t: t.drop(columns="bp"), predgap.TableError, r"lacks 1 column: 'bp'.*needs"),
    "text": (lambda t: t.assign(bp="high"), predgap.TableError, r"'bp' holds text, first 'high'"),
    "one row": (lambda t: t.to_numpy()[0], predgap.ShapeError, r"X\[None, :\]"),
    "infinity": (lambda t: t.assign(bp=np.inf), predgap.TableError, r"'bp'\) is infinite, but .*XGBoost"),
    "too large": (lambda t: t.assign(bp=-1e39), predgap.TableError, r"is -1e\+39, but .* up to 3.402823"),
}


@pytest.mark.parametrize(("spoil", "error", "message"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_a_bad_table_is_refused(explainer, table, spoil, error, message):
    X = spoil(table)
    for call in (
        lambda: explainer.gap(X, [0]),
        lambda: explainer.curve(X, [0, 1, 2]),
        lambda: explainer.pgu2(X, [0, 1, 2]),
        lambda: explainer.rank(X),
    ):
        with pytest.raises(error, match=message):
            call()


BAD_REQUESTS = {
    "an unknown name": (lambda e, t: e.gap(t, ["bmj"]), predgap.SubsetError, "bmj.*bmi"),
    "an index too high": (lambda e, t: e.gap(t, [3]), predgap.SubsetError, "3"),
    "a repeated feature": (lambda e, t: e.gap(t, [1, 1]), predgap.SubsetError, "bmi|1"),
    "no permutation": (lambda e, t: e.pgi2(t, [0, 0, 1]), predgap.RankingError, "0"),
    "attributions": (lambda e, t: e.pgi2(t, t.to_numpy()), predgap.RankingError, "from_attributions"),
    "an unknown method": (
        lambda e, t: e.rank(t, method="shap"),
        predgap.PredgapError,
        "method='shap' is unknown; expected 'greedy', 'single', 'optimal' or 'shapley'",
    ),
    "no noise": (lambda e, t: Explainer(e.ensemble, 0.3), predgap.NoiseError, r"Relative\(X, 0.3\)"),
    "a scale of 0": (lambda e, t: Explainer(e.ensemble, Normal(0)), predgap.NoiseError, "0"),
    "a scale of NaN": (lambda e, t: Explainer(e.ensemble, Normal(np.nan)), predgap.NoiseError, "nan"),
    "scales for another model": (
        lambda e, t: Explainer(e.ensemble, Normal([1, 2])),
        predgap.NoiseError,
        "2 values.*3 features",
    ),
    "a noise without default": (
        lambda e, t: Explainer(e.ensemble, PerFeature({"age": Uniform(1)})),
        predgap.NoiseError,
        "'bmi'",
    ),
    "an output by name": (
        lambda e, t: Explainer(e.ensemble, Normal(1), output="a"),
        predgap.OutputError,
        "output='a': the model does not tell the labels of classes; pass the position",
    ),
    "an output that is true": (
        lambda e, t: Explainer(e.ensemble, Normal(1), output=True),
        predgap.OutputError,
        "output=True, expected the position of an output, the label of a class",
    ),
    "a column as method": (lambda e, t: e.rank(t, t["age"]), predgap.PredgapError, "'optimal' or 'shapley'"),
    "a column as estimated method": (
        lambda e, t: e.approximate().rank(t, t["age"]),
        predgap.PredgapError,
        "'greedy' or 'single'",
    ),
    "names as one text": (
        lambda e, t: Explainer(e.ensemble, Normal(1), feature_names="abc"),
        predgap.EnsembleError,
        "'abc', expected a list",
    ),
    "progress that is no function": (
        lambda e, t: Explainer(e.ensemble, Normal(1), progress=3),
        predgap.PredgapError,
        "progress is 3, expected a function .*, True for a bar",
    ),
    "no model": (lambda e, t: Explainer(object(), Normal(1)), predgap.LoaderError, "object"),
}


@pytest.mark.parametrize(("ask", "error", "message"), BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_a_bad_request_is_refused(explainer, table, ask, error, message):
    with pytest.raises(error, match=message):
        ask(explainer, table)


@dataclass(frozen=True)
class CustomLaw(Law):
    given: tuple

    def tails(self, x, thresholds):
        return self.given


class Custom(predgap.Noise):
    """Tails that a user wrote."""

    def __init__(self, below, above, n_laws=3):
        self.tails, self.n_laws = (below, above), n_laws

    def laws_of(self, features, n_features, feature_names):
        law = type(
            "CustomLaw", (Law,), {"tails": lambda _, x, t: self.tails, "__repr__": lambda _: "CustomLaw"}
        )()
        return (law,) * self.n_laws


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (Custom(np.full((60, 1), 0.5), np.full((60, 1), 0.5)), r"shapes \(60, 1\), \(60, 1\); expected"),
        (Custom(0.5, 0.5), r"shapes \(\), \(\)"),
        (Custom(0.5, 0.5, n_laws=2), "gives 2 laws for 3 features"),
    ],
)
def test_a_noise_of_the_users_own_is_checked(model, table, noise, message):
    with pytest.raises(predgap.NoiseError, match=message):
        Explainer(model, noise).gap(table, ["age"])


@pytest.mark.parametrize("tail", [np.nan, 7.0, -0.1])
def test_tails_must_be_probabilities(table, tail):
    stump = ensemble_of([Split(0, 0.5, 1.0, 3.0)], 1)
    noise = Custom(np.array([[tail]]), np.array([[0.5]]), n_laws=1)
    with pytest.raises(predgap.NoiseError, match="not probabilities between 0 and 1"):
        Explainer(stump, noise).gap([[0.0]], [0])


@pytest.mark.parametrize(("below", "total"), [(0.6, "1.1"), (0.5 - 1e-6, "0.999999")])
def test_tails_must_sum_to_1(below, total):
    stump = ensemble_of([Split(0, 0.5, 1.0, 3.0)], 1)
    noise = Custom(np.array([[below]]), np.array([[0.5]]), n_laws=1)
    message = rf"sum to {total} at x = 2 and t = 0.5; expected P\(x' < t\) \+ P\(x' >= t\) = 1"
    with pytest.raises(predgap.NoiseError, match=message):
        Explainer(stump, noise).gap([[2.0]], [0])
    almost = Custom(np.array([[0.5 + 1e-12]]), np.array([[0.5]]), n_laws=1)
    assert Explainer(stump, almost).gap([[0.0]], [0])[0] == pytest.approx(2.0, rel=1e-9)


def test_only_rows_that_move_a_feature_are_asked_of_its_law():
    """Flip refuses 2, but the row that has it does not move that feature."""
    trees = [Split(0, 0.5, 1.0, 3.0), Split(1, 0.5, 1.0, 2.0)]
    explainer = Explainer(ensemble_of(trees, 2), PerFeature({0: Flip(0.25)}, default=Normal(1.0)))
    X, masks = np.array([[0.0, 0.5], [2.0, 0.5]]), np.array([[True, False], [False, True]])
    assert explainer.gap(X, masks) == pytest.approx([1.0, 0.5], rel=1e-15)
    with pytest.raises(predgap.NoiseError, match="between 0 and 1, but a row has 2"):
        explainer.gap(X, [0])
    with pytest.raises(predgap.NoiseError, match="between 0 and 1, but a row has inf"):
        explainer.gap([[np.inf, 0.5]], [0])
    with pytest.raises(predgap.NoiseError, match="between 0 and 1, but a row has -inf"):
        explainer.rank([[-np.inf, 0.5]])


def test_predict_matches_columns_by_name(model, table):
    ensemble = predgap.load(model)
    expected = model.predict(table, output_margin=True)
    by_name = ensemble.predict(table[["bp", "age", "bmi"]])
    np.testing.assert_allclose(by_name, expected, atol=1e-6 * np.abs(expected).max())
    with pytest.raises(predgap.TableError, match="holds text"):
        ensemble.predict(table.assign(bp="x"))


def test_uniform_noise_of_any_width(explainer):
    """Far wider than the thresholds: each side has half of the mass."""
    stump = ensemble_of([Split(0, 0.5, 1.0, 3.0)], 1)
    assert Explainer(stump, Uniform(1e308)).gap([[0.0]], [0])[0] == 2.0


# ---- progress ------------------------------------------------------------------------------------


def test_progress_never_runs_backwards():
    told = []
    with calling(Call("rank(X)"), 9, progress=lambda done, total: told.append((done, total))) as context:
        for done in (0, 3, 2, 7, 1, 9):
            context.look(done)
    assert told == [(0, 9), (3, 9), (3, 9), (7, 9), (7, 9), (9, 9)]
    with calling(Call("rank(X)"), 9, progress=False) as context:
        assert context.shown is None


def test_a_bar_appears_unasked_on_a_terminal_if_a_call_is_long(model, table, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes any stream for a terminal
    for patience, progress, is_shown in (
        (1e9, None, False),
        (0.0, None, True),
        (0.0, False, False),
        (1e9, True, True),
    ):
        monkeypatch.setattr("predgap._engine.context.PATIENCE", patience)
        explainer = Explainer(model, Normal(0.5), progress=progress)
        explainer.rank(table)
        out, shown = capsys.readouterr()
        assert out == ""
        assert ("/60" in shown) == is_shown


def test_no_bar_appears_without_a_terminal_or_rich(model, table, monkeypatch, capsys):
    monkeypatch.setattr("predgap._engine.context.PATIENCE", 0.0)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    Explainer(model, Normal(0.5)).rank(table)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    Explainer(model, Normal(0.5)).rank(table)
    assert capsys.readouterr() == ("", "")


def test_a_call_that_is_expected_to_be_long_warns_once():
    """With the time of all rows, whatever the parts that the work is done in."""
    call = Call("rank(X)", faster="This is faster: sleeping.")
    message = r"^rank\(X\) of 900 rows is expected to take about 18 seconds\. This is faster: sleeping\.$"
    for progress in (None, True, lambda done, total: None):
        with calling(call, 900, progress=progress) as context:
            context.look(0, 10.0)  # milliseconds a row: 9 seconds
            context.look(1)
            with pytest.warns(LongCallWarning, match=message):
                context.look(3, 20.0)
            context.look(4, 30.0)
    with calling(call, 900, progress=False) as context:
        context.look(3, 1e9)


def test_what_is_expected_of_a_part_counts_for_all_of_the_call():
    expected: list[float] = []  # seconds of the call

    class Expecting(Shown):
        def expect(self, seconds):
            expected.append(seconds)

    shown = Expecting(lambda done, total: None, 900)
    context = Context(Call("rank(X)"), 1, shown, 0.0, 900.0, 900)
    for part in (
        context.part(100, 900, of=900, n=800),
        context.part(0.5, 0.75),
        context.part(0.5, 0.75, n=450),
        context.part(0.5, 0.75, ends_early=True),
        context.part(0.5, 1.0).part(0.5, 1.0),
    ):
        part.look(3, 20.0)
    assert expected == [18.0, 72.0, 36.0, 18.0, 72.0]
    outer = Context(Call("sweep(X, rankings)"), 1, shown, 0.0, 90.0, 90)
    with calling(Call("rank(X)"), 900, progress=outer) as context:
        context.look(3, 20.0)  # of a call that counts ten times as many rows
    assert expected[-1] == 18.0


def test_a_part_shows_its_share_of_the_rows():
    told = []
    with calling(Call("rank(X)"), 900, progress=lambda done, total: told.append((done, total))) as context:
        first, second = context.part(0, 100, of=900, n=100), context.part(0.5, 0.75, n=9)
        first.look(50)
        second.look(3)
        with calling(Call("gap(X, subset)"), 2, progress=second) as inner:
            inner.look(1)
    assert told == [(50, 900), (525, 900), (562, 900)]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_progress_ends_with_rows_that_turn_out_to_be_too_costly(model, table, monkeypatch, n_jobs):
    """They are sampled one by one."""

    def refuse(*_):
        raise _core.TooCostly(0, 5e6, 1.0)

    monkeypatch.setattr(_core.Independent, "gap", refuse)
    told = []
    explainer = Explainer(model, Normal(0.5), n_jobs=n_jobs, progress=lambda *done: told.append(done))
    found = explainer.approximate().gap(table, ["age"])
    assert set(found.method) == {"qmc"}
    assert told == sorted(told)
    assert told[-1] == (60, 60)
    assert len({done for done, _ in told}) > 5


def test_a_bar_is_shown_on_a_terminal_only(model, table, monkeypatch, capsys):
    explainer = Explainer(model, Normal(0.5), progress=True)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    expected = explainer.rank(table).order
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes any stream for a terminal
    for ask in (explainer.rank, explainer.approximate(method="qmc", n_samples=1024).rank):
        assert ask(table).order.shape == expected.shape
        out, shown = capsys.readouterr()
        assert out == ""
        assert "rows" in shown
        assert "/60" in shown


def test_a_bar_needs_rich(model, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(predgap.DependencyError, match=r"pip install 'predgap\[cli\]'"):
        Explainer(model, Normal(0.5), progress=True)


# ---- pickles -------------------------------------------------------------------------------------


def test_an_explainer_can_be_pickled_whatever_its_noise(model, table):
    frames = table, table.to_numpy(), pl.DataFrame(table), pa.Table.from_pandas(table, preserve_index=False)
    noises = [*map(Marginal, frames), Discrete([0.0, 1.0]), Flip(0.5), Normal.relative(table, 0.3)]
    for noise in noises:
        X = (table > 0).astype(float) if isinstance(noise, Flip) else table
        for explainer in (Explainer(model, noise), Explainer(model, noise).approximate(method="pruned")):
            copy = pickle.loads(pickle.dumps(explainer))
            assert copy.rank(X).scores.tobytes() == explainer.rank(X).scores.tobytes()


@pytest.mark.parametrize("kind", ["array", "pandas", "list"])
def test_a_marginal_does_not_change_with_the_callers_table(kind):
    values = np.array([[0.0], [1.0]])
    table = {"array": values, "pandas": pd.DataFrame(values, columns=["a"]), "list": values.tolist()}[kind]
    noise = Marginal(table)
    if kind == "pandas":
        table.loc[:, "a"] = 9.0
    else:
        table[0][0] = table[1][0] = 9.0
    stump = ensemble_of([Split(0, 0.5, 1.0, 3.0)], 1)
    assert Explainer(stump, noise).gap([[0.0]], [0]).tolist() == [2.0]


def test_importing_predgap_is_light():
    """No framework is imported, and none is needed."""
    import subprocess
    import sys

    code = (
        "import sys; heavy = ('xgboost', 'lightgbm', 'catboost', 'sklearn', 'pandas', 'polars', 'pyarrow', "
        "'shap', 'matplotlib', 'click', 'rich', 'scipy.stats', 'jinja2', 'pooch')\n"
        "import predgap; print([m for m in heavy if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
