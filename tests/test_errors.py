"""Messages: the same each time, so that people can look for them."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

from predgap import (
    Background,
    Clipped,
    Discrete,
    Explainer,
    FromScipy,
    Marginal,
    Normal,
    PerFeature,
    Ranking,
    Redraw,
    Relative,
    Stay,
    evaluate,
    load,
)
from predgap._model.ensemble import Ensemble
from predgap.errors import DependencyError, LongCallWarning, NoiseError, PredgapError
from predgap.loaders import _SUPPORTED

STUMP = Ensemble(
    root=[0],
    feature=[0, -1, -1],
    threshold=[0.5, 0, 0],
    left=[1, -1, -1],
    right=[2, -1, -1],
    default_left=[True, False, False],
    value=[[0.0], [1.0], [3.0]],
    target=[0],
    bias=[0.0],
    n_features=1,
)


class Strange:
    """Shown as an address."""


def explained(**options):
    return Explainer(STUMP, Normal(1.0), **options)


asks = pytest.mark.parametrize(
    "ask",
    [
        lambda it: Explainer(STUMP, it) if not hasattr(it, "shape") else None,  # a table is a noise
        lambda it: Normal(it),
        lambda it: Discrete(it if isinstance(it, list) else [it]).laws(1)[0].tails(np.zeros(1), np.zeros(1)),
        lambda it: FromScipy(it),
        lambda it: Marginal(it),
        lambda it: PerFeature({"a": it}),
        lambda it: PerFeature({"a": Normal(1.0)}, default=it),
        lambda it: explained(rtol=it),
        lambda it: explained(n_jobs=it),
        lambda it: explained(output=it),
        lambda it: explained().gap([[0.0]], it),
        lambda it: explained().gap(it, [0]),
        lambda it: explained().gap([[it]], [0]),
        lambda it: explained().pgi2([[0.0]], it),
        lambda it: explained().rank([[0.0]], it),
        lambda it: explained().rank([[0.0]], top=it),
        lambda it: explained().estimate([[0.0]], [0], "mc", seed=it),
        lambda it: explained().estimate([[0.0]], [0], "mc", n_samples=it),
        lambda it: Ranking.from_attributions(it),
        lambda it: Ranking.from_attributions([[1.0]], top=it),
        lambda it: Ranking.from_attributions([[1.0]], output=it),
        lambda it: Ranking([[0]], output=it),
        lambda it: explained(progress=[it]),
        lambda it: Ranking([[0]], n_features=it),
        lambda it: load(it),
        lambda it: evaluate(it, [[0.0]], ["greedy"]),
        lambda it: evaluate(explained(), [[0.0]], it),
        lambda it: evaluate(explained(), [[0.0]], {"mine": it}),
        lambda it: evaluate(explained(), [[0.0]], ["greedy"], metrics=[it]),
        lambda it: evaluate(explained(), [[0.0]], ["greedy"], strengths=it),
        lambda it: evaluate(explained(), [[0.0]], ["greedy"], top=it),
        lambda it: evaluate(explained(), [[0.0]], ["greedy"], budget=it),
        lambda it: evaluate(explained(), [[0.0]], ["greedy"], seed=it),
        lambda it: evaluate(explained(), [[0.0]], ["permutation"], y=it),
        lambda it: Stay(it, 0.5),
        lambda it: Stay(Normal(1.0), it),
        lambda it: Clipped(Normal(1.0), it, 2.0),
        lambda it: Background([[0.0]], max_rows=it),
        lambda it: Redraw([[0.0]], it),
        lambda it: Relative([[0.0], [1.0]], it),
        lambda it: Relative([[0.0], [1.0]], kinds=it),
        lambda it: Relative([[0.0], [1.0]], kinds={0: it}),
        lambda it: Explainer(STUMP, Relative([[0.0], [1.0]])).sweep([[0.0]], {"g": "greedy"}, it),
    ],
)  # fmt: skip


@asks
@pytest.mark.parametrize(
    "strange", [Strange(), lambda: 0, [Strange()], Strange], ids=["object", "function", "list", "class"]
)
def test_a_message_shows_no_address(ask, strange):
    with pytest.raises(PredgapError) as caught:
        ask(strange)
    assert "0x" not in str(caught.value)
    assert len(str(caught.value)) > 20


@asks
@pytest.mark.parametrize(
    "long",
    [
        np.full((300, 3), 0.5),
        [0.5] * 1000,
        ["a\nb"] * 1000,
        "name" * 1000,
        pd.DataFrame(np.full((300, 3), 0.5)),
    ],
    ids=["array", "list", "names", "text", "frame"],
)
def test_a_message_never_prints_an_array(ask, long):
    message = ""  # for what is valid there
    try:
        ask(long)
    except PredgapError as error:
        message = str(error)
    assert "\n" not in message
    assert len(message.replace(_SUPPORTED, "")) < 500


def test_the_rest_of_a_message_stays():
    message = str(NoiseError(f"noise is {Strange()!r}, expected a Noise at 0.3"))
    assert message.startswith("noise is <")
    assert message.endswith("Strange object>, expected a Noise at 0.3")
    assert str(DependencyError("a frame needs pandas")) == "a frame needs pandas"
    assert str(pickle.loads(pickle.dumps(NoiseError("no noise")))) == "no noise"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda e: e.gap([[0.0]]), r"^Explainer\.gap\(\) missing 1 required positional argument: 'subset'$"),
        (lambda e: e.gap([[0.0]], subsets=[0]), r"^Explainer\.gap\(\) got an unexpected keyword .*'subsets'"),
        (lambda e: e.absolute_gap(), r"^Explainer\.absolute_gap\(\) missing "),
        (lambda e: e.moments([[0.0]], [0], 1), r"^Explainer\.moments\(\) takes from 2 to 3 positional "),
        (lambda e: e.rank(), r"^Explainer\.rank\(\) missing 1 required positional argument: 'X'$"),
        (lambda e: e.cost(), r"^Explainer\.cost\(\) missing "),
        (lambda e: e.approximate().gap([[0.0]]), r"^Approximation\.gap\(\) missing "),
        (lambda e: type(e)(STUMP), r"^Explainer\.__init__\(\) missing 1 required .*: 'noise'$"),
    ],
)
def test_wrong_arguments_are_told_of_the_class_that_users_know(call, told):
    with pytest.raises(TypeError, match=told):
        call(explained())


def test_no_method_is_called_after_a_class_that_users_do_not_know():
    for name in dir(Explainer):
        method = getattr(Explainer, name)
        if not name.startswith("_") and not isinstance(method, property):
            assert method.__qualname__ == f"Explainer.{name}"


def test_a_warning_of_a_long_call_goes_to_other_processes():
    told = LongCallWarning("rank(X) of 9 rows", "2 minutes", "Fewer rows are faster.")
    again = pickle.loads(pickle.dumps(told))
    assert (type(again), str(again), again.duration) == (LongCallWarning, str(told), told.duration)
