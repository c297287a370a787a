"""Laws of categories, and how labels become codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

from predgap import (
    Discrete,
    Explainer,
    Flip,
    FromScipy,
    Marginal,
    Noise,
    Normal,
    PerFeature,
    Uniform,
)
from predgap._inputs.categories import UNSEEN, Categories, of_labels
from predgap._model.ensemble import Ensemble
from predgap.errors import EnsembleError, NoiseError, TableError
from predgap.noise.law import Law, StillLaw
from predgap.noise.replaced import DiscreteLaw, FlipLaw
from strategies import Split, ensemble_of

# --- laws -----------------------------------------------------------------------------------------------

COLOURS = of_labels(["red", "green", "blue", "grey"])


def stump(levels: Categories = COLOURS, left: tuple[int, ...] = (1,), **options: Any) -> Ensemble:
    return ensemble_of(
        [Split(0, 0.0, 3.0, 1.0, categories=left)],
        1,
        categories=[levels],
        feature_names=("colour",),
        **options,
    )


@pytest.mark.parametrize(
    ("noise", "code", "moved"),
    [
        (Flip(0.3), 0, 0.1),  # one of three others
        (Flip(0.3), 1, 0.3),  # any of three others
        (Discrete(["red", "green"], [0.25, 0.75]), 2, 0.75),
        (Discrete(["red", "green"], [0.25, 0.75]), 1, 0.25),
        (Discrete(["blue"]), 1, 1.0),
        (Discrete(["green", "grey"]), 7, 0.5),  # a row may have a category that the model does not know
        (Marginal(pd.DataFrame({"colour": ["red", "green", "green", None, "blue"]})), 0, 0.5),
        (Marginal(np.array([[0.0], [1.0], [1.0], [1.0]])), 0, 0.75),
        (Marginal(pl.DataFrame({"colour": ["red", "green"]}, schema={"colour": pl.Categorical})), 3, 0.5),
    ],
)
def test_how_likely_a_category_changes_sides(noise, code, moved):
    assert Explainer(stump(), noise).gap([[code]], [0])[0] == pytest.approx(4 * moved, rel=1e-15)


def test_a_missing_category_stays_missing():
    for noise in (Flip(0.5), Discrete(["green"])):
        assert Explainer(stump(), noise).gap([[np.nan]], [0])[0] == 0


def test_flip_between_zero_and_one():
    numeric = ensemble_of([Split(0, 0.5, 3.0, 1.0)], 1)
    assert Explainer(numeric, Flip(0.2)).gap([[0], [1]], [0]) == pytest.approx([0.8, 0.8], rel=1e-15)
    with pytest.raises(NoiseError, match="between 0 and 1, but a row has 2"):
        Explainer(numeric, Flip(0.2)).gap([[2]], [0])


def test_discrete_on_a_number():
    numeric = ensemble_of([Split(0, 0.5, 3.0, 1.0)], 1)
    noise = Discrete([0.5, -1, 2], [0.5, 0.25, 0.25])
    assert Explainer(numeric, noise).gap([[0], [1]], [0]) == pytest.approx([3.0, 1.0], rel=1e-15)
    with pytest.raises(NoiseError, match="value 'red' for a numeric feature"):
        Explainer(numeric, Discrete(["red"])).gap([[0]], [0])


def test_one_level_has_nowhere_to_flip():
    assert Explainer(stump(of_labels(["red"]), left=(0,)), Flip(1.0)).gap([[0]], [0])[0] == 0


@pytest.mark.parametrize("noise", [Normal(0.3), Uniform(1.0), PerFeature({"colour": Normal(0.3)})])
def test_a_law_of_numbers_does_not_move_categories(noise):
    with pytest.raises(NoiseError, match=r"'colour' is categorical.*Discrete, Flip or Marginal"):
        Explainer(stump(), noise)


@pytest.mark.parametrize(
    "noise",
    [
        Discrete(["red", "mauve"]),
        Marginal(pd.DataFrame({"colour": ["pink", "mauve"]})),
        Marginal(np.array([[4.0]])),
    ],
)
def test_levels_that_the_model_does_not_know_are_refused(noise):
    with pytest.raises(NoiseError, match="not among the 4 categories that the model knows: 'red', 'green'"):
        Explainer(stump(), noise)


@pytest.mark.parametrize(
    "noise",
    [
        Marginal(pd.DataFrame({"colour": ["red", "mauve", "mauve", None, "green"]})),
        Marginal(np.array([[0.0], [-3.0], [99.0], [1.0]])),
    ],
)
@pytest.mark.parametrize("left", [(1,), (0, 2, 3), (0, 1, 2, 3)])
def test_categories_of_a_table_that_the_model_does_not_know_are_unseen(noise, left):
    """They have their share, and go where the model sends unseen ones, from whatever category."""
    model = stump(left=left)
    drawn = model.predict(np.array([[0.0], [UNSEEN], [UNSEEN], [1.0]]))
    for code in (0, 1, 2, 3, 99):
        expected = np.mean((drawn - model.predict([[code]])) ** 2)
        assert Explainer(model, noise).gap([[code]], [0])[0] == pytest.approx(expected, rel=1e-15)
        sampled = Explainer(model, noise).estimate([[code]], [0], "qmc")
        assert sampled.value[0] == pytest.approx(expected, abs=4 * sampled.standard_error[0] + 1e-12)


def test_categories_of_a_table_do_not_become_missing():
    noise = Marginal(pd.DataFrame({"colour": ["red", "mauve"]}))
    with pytest.raises(NoiseError, match="a category that the model does not know, which counts as missing"):
        Explainer(stump(unseen_is_missing=True), noise)
    with pytest.raises(NoiseError, match=r"column 0 holds 0\.5; expected whole numbers"):
        Explainer(stump(), Marginal(np.array([[0.5], [1.0]])))


def test_the_sides_of_a_law_that_adds_nothing_to_what_is_unseen():
    class Sometimes(Law):
        """Unseen with probability 1/4, else as it was."""

        def tails(self, x, thresholds):
            raise NotImplementedError

        def category_probabilities(self, levels):
            return np.zeros(len(levels))

        def unseen_probability(self, levels):
            return 0.25

    law = Sometimes()
    assert law.staying_probabilities(of_labels("ab")).tolist() == [0.75, 0.75]

    class Given(Noise):
        def laws_of(self, features, n_features, feature_names):
            return (law,) * len(features)

    gaps = Explainer(stump(left=(1,)), Given()).gap([[0], [1], [99]], [0])
    assert gaps == pytest.approx([0, 4 * 0.25, 0], rel=1e-15)


def test_flip_refuses_a_row_with_an_unknown_category():
    with pytest.raises(
        NoiseError, match="row 1 has a category of feature 'colour' that the model does not know"
    ):
        Explainer(stump(), Flip(0.5)).gap([[0], [9]], [0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a", "a"],), "more than once"),
        (([],), "at least one value"),
        (("ab",), "expected a list"),
        ((["a", None],), "must not contain None or NaN"),
        (([1.0, float("nan")],), "must not contain None or NaN"),
        ((["a", "b"], [0.5]), "one for each of the 2 values"),
        ((["a", "b"], [0.5, 0.6]), "with the sum 1"),
        ((["a", "b"], [-0.5, 1.5]), "none negative"),
        ((["a", "b"], "xy"), "expected 2 numbers"),
        (([[1], [2, 3]],), "expected labels or numbers"),
        (([{}, {}],), "expected labels or numbers"),
        ((5,), "at least one value"),
    ],
)
def test_what_discrete_refuses(arguments, message):
    with pytest.raises(NoiseError, match=message):
        Discrete(*arguments)


MISSING_ZERO = ensemble_of([Split(0, 0.5, 3.0, 1.0, default_left=False)], 1, missing=0.0)


@pytest.mark.parametrize(
    "noise",
    [Discrete([0.0, 2.0]), Flip(0.5), FromScipy(stats.poisson(1.0))],
    ids=["discrete", "flip", "scipy"],
)
def test_noise_that_may_land_on_the_missing_value_is_refused(noise):
    with pytest.raises(NoiseError, match="the value 0, which means missing to the model"):
        Explainer(MISSING_ZERO, noise)


def test_a_marginal_leaves_out_what_means_missing():
    noise = Marginal([[0.0], [0.0], [-1.0], [2.0]])
    assert Explainer(MISSING_ZERO, noise).gap([[1.0]], [0])[0] == pytest.approx(2.0, rel=1e-15)
    with pytest.raises(NoiseError, match="nothing but 0, which means missing"):
        Explainer(MISSING_ZERO, Marginal([[0.0]]))


def test_noise_that_may_land_on_a_missing_category_is_refused():
    with pytest.raises(NoiseError, match="'colour' may give it the category 2, which means missing"):
        Explainer(stump(missing=2.0), Flip(0.5))


def test_an_unknown_category_matters_only_where_it_moves():
    ensemble = ensemble_of(
        [Split(0, 0.0, 3.0, Split(1, 0.0, 1.0, 2.0), categories=(1,))], 2, categories=[COLOURS, None]
    )
    explainer = Explainer(ensemble, PerFeature({0: Flip(0.5)}, default=Normal(1.0)))
    assert explainer.gap([[9.0, 0.0]], [1])[0] == pytest.approx(0.5, rel=1e-12)
    with pytest.raises(NoiseError, match="does not know"):
        explainer.gap([[9.0, 0.0]], [0])
    masks = np.array([[False, True], [True, False]])  # the row that has it does not move it
    assert explainer.gap([[9.0, 0.0], [1.0, 0.0]], masks)[0] == pytest.approx(0.5, rel=1e-12)


def test_a_categorical_feature_that_is_never_split():
    ensemble = ensemble_of([Split(1, 0.0, 1.0, 2.0)], 2, categories=[COLOURS, None])
    explainer = Explainer(ensemble, PerFeature({0: Flip(0.5)}, default=Normal(1.0)))
    assert explainer.gap([["red", 1.0]], [0])[0] == 0


@pytest.mark.parametrize("p", [0, -0.1, 1.5, "half", True])
def test_what_flip_refuses(p):
    with pytest.raises(NoiseError, match="p is"):
        Flip(p)


@pytest.mark.parametrize(
    ("law", "levels", "reached", "stays"),
    [
        (FlipLaw(0.6), of_labels("abcd"), [0.6 / 3] * 4, [1 - 0.6] * 4),
        (FlipLaw(1.0), of_labels("a"), [0.0], [1.0]),
        (StillLaw(), of_labels("ab"), [0.0] * 2, [1.0] * 2),
        (DiscreteLaw(("b", "a"), np.array([1e-20, 1.0])), of_labels("abc"), [1.0, 1e-20, 0], [1.0, 1e-20, 0]),
    ],
    ids=["flip", "flip alone", "still", "discrete"],
)
def test_what_laws_say_of_categories(law, levels, reached, stays):
    assert law.category_probabilities(levels).tolist() == reached
    assert law.staying_probabilities(levels).tolist() == stays


class Drifting(Law):
    """A law that a user wrote; without saying how likely a category stays, it keeps the rest."""

    def __init__(self, reached: list[float]) -> None:
        self.reached = np.array(reached)

    def tails(self, x, thresholds):
        raise NotImplementedError

    def category_probabilities(self, levels):
        return self.reached


class Drift(Noise):
    def __init__(self, reached: list[float]) -> None:
        self.law = Drifting(reached)

    def laws_of(self, features, n_features, feature_names):
        return (self.law,) * len(features)


def test_a_law_of_the_users_own_keeps_the_rest():
    explainer = Explainer(stump(), Drift([0.1, 0.2, 0.3, 0.0]))
    assert explainer.gap([[0], [1], [9]], [0]) == pytest.approx([4 * 0.2, 4 * 0.4, 4 * 0.2], rel=1e-14)


@pytest.mark.parametrize("reached", [[0.5, 0.6, 0.1, 0.0], [-0.1, 0.1, 0, 0], [0.5, 0.5], [np.nan] * 4])
def test_what_is_not_a_law_of_categories_is_refused(reached):
    with pytest.raises(NoiseError, match="are not 4 probabilities whose sum, with that of staying, is 1"):
        Explainer(stump(), Drift(reached))


# --- labels and codes -----------------------------------------------------------------------------------

FRAMES = {
    "pandas category": pd.DataFrame({"colour": pd.Categorical(["blue", "green", "mauve", None])}),
    "pandas text": pd.DataFrame({"colour": ["blue", "green", "mauve", None]}),
    "polars category": pl.DataFrame(
        {"colour": pl.Series(["blue", "green", "mauve", None], dtype=pl.Categorical)}
    ),
    "polars text": pl.DataFrame({"colour": ["blue", "green", "mauve", None]}),
    "objects": np.array([["blue"], ["green"], ["mauve"], [None]], dtype=object),
    "lists": [["blue"], ["green"], ["mauve"], [None]],
    "codes": np.array([[2.0], [1.0], [-1.0], [np.nan]]),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_labels_become_codes(kind):
    assert stump().predict(FRAMES[kind]).tolist() == [2.0, 4.0, 2.0, 4.0]


@pytest.mark.parametrize("kind", [kind for kind in FRAMES if kind != "codes"])
def test_text_is_refused_where_the_model_has_no_labels(kind):
    with pytest.raises(TableError, match="holds text, first 'blue', but the model has only the codes"):
        stump(Categories([0, 1, 2])).predict(FRAMES[kind])


def test_labels_that_are_numbers_are_labels_in_frames_and_codes_in_arrays():
    levels = of_labels([10, 1, 0])
    frame = pd.DataFrame({"colour": [1, 0, 10]})
    assert stump(levels).predict(frame).tolist() == [4.0, 2.0, 2.0]
    assert stump(levels).predict(frame.to_numpy()).tolist() == [4.0, 2.0, 2.0]  # 1 is the code of 1 as well
    assert stump(levels, left=(0,)).predict(frame.to_numpy()).tolist() == [2.0, 4.0, 2.0]


def test_an_unseen_category_may_count_as_missing():
    assert stump().predict([[9]]).tolist() == [2.0]
    assert stump(unseen_is_missing=True).predict([[9]]).tolist() == [4.0]


@pytest.mark.parametrize("value", [0.5, -1.5])
def test_a_code_is_a_whole_number(value):
    with pytest.raises(TableError, match="'colour' is categorical: expected a whole number"):
        stump().predict([[value]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"set_code": [9]}, "split on the category 9, which is none of its 4 levels"),
        ({"set_code": [-1]}, "must not be negative"),
        ({"set_code": [2, 1], "set_begin": [0, 2]}, "ascend"),
        ({"set_begin": [0, 2]}, "set_begin must run from 0 to the 1 codes"),
        ({"category_set": [3, -1, -1]}, "a set of categories outside 0 ... 0"),
        ({"categories": None}, "a set of categories on a numeric feature"),
        ({"category_set": [-1, -1, -1]}, "a threshold on a categorical feature"),
        ({"category_set": [0, 0, -1]}, "node 1 has a set of categories, but is a leaf"),
        ({"category_set": [0, -1, 99]}, "node 2 has a set of categories, but is a leaf"),
        ({"category_set": [0, -1, -2]}, "node 2 has a set of categories, but is a leaf"),
        ({"categories": [COLOURS, None]}, "2 entries of categories for 1 features"),
        ({"categories": 5}, "categories is 5"),
        ({"categories": [[0, 1]]}, "expected Categories or None"),
        ({"set_begin": 0}, "set_begin must run"),
        ({"set_begin": [[0], [1]]}, "set_begin must run"),
    ],
)
def test_bad_sets_are_refused(options, message):
    parts = {
        "root": [0],
        "feature": [0, -1, -1],
        "threshold": [0.0] * 3,
        "left": [1, -1, -1],
        "right": [2, -1, -1],
        "default_left": [False] * 3,
        "value": [[0.0], [3.0], [1.0]],
        "target": [0],
        "bias": [0.0],
        "n_features": 1,
        "category_set": [0, -1, -1],
        "set_begin": [0, 1],
        "set_code": [1],
        "categories": [COLOURS],
    }
    Ensemble(**parts)
    with pytest.raises(EnsembleError, match=message):
        Ensemble(**(parts | options))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 0],), "ascending"),
        (([-1, 0],), "from 0 to"),
        ((["a"],), "whole numbers"),
        (([2**40],), "to 2147483647"),
        (([[0], [1]],), "whole numbers"),
        (([0, 1], ("a",)), "1 labels for 2 categories"),
        (([0, 1], ("a", "a")), "not all different"),
        (([0], ([1],)), "cannot be looked up"),
    ],
)
def test_bad_levels_are_refused(arguments, message):
    with pytest.raises(EnsembleError, match=message):
        Categories(*arguments)
