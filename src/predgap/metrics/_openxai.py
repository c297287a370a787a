"""PGI and PGU as OpenXAI defines them: absolute changes of a probability when some features move."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from predgap._engine.decisions import SAMPLES
from predgap._engine.results import Bracket
from predgap._inputs.tables import open_columns
from predgap._text import shown
from predgap._typing import FloatArray
from predgap.errors import NoiseError, OutputError, RankingError
from predgap.explainer import Explainer
from predgap.noise import Flip, Noise, Normal, PerFeature
from predgap.noise.law import positive


def openxai_noise(X: Any, std: float = 0.1) -> Noise:
    """The noise of OpenXAI: normal with one standard deviation; columns of 0 and 1 are flipped instead.

    They are flipped with the probability √(2/π) · std, the mean size of the normal noise. OpenXAI scales its
    data to [0, 1] first; do so with yours, or the noise is of another strength in each column.

    Parameters
    ----------
    X : (n, d) array or frame, of numbers
    std : float, default=0.1
        At most √(π/2), about 1.25.

    Returns
    -------
    Noise

    Examples
    --------
    >>> import numpy as np
    >>> openxai_noise(np.array([[0.25, 0], [0.75, 1]]))
    PerFeature({1: Flip(0.07978845608028655)}, default=Normal(0.1))
    """
    flipped = float(np.sqrt(2.0 / np.pi)) * positive(std, "std")
    if flipped > 1:
        raise NoiseError(f"std is {shown(std)}, expected a number above 0 and at most 1.25")
    columns = open_columns(X)
    binary = {
        name if columns.names is not None else j: Flip(flipped)
        for j, name in enumerate(columns.names or range(columns.n_columns))
        if _is_binary(columns.column(j))
    }
    return PerFeature(binary, default=Normal(std)) if binary else Normal(std)


def _is_binary(values: FloatArray) -> bool:
    known = values[~np.isnan(values)]
    return len(known) > 0 and bool(np.isin(known, (0.0, 1.0)).all())


def openxai_pgi(
    explainer: Explainer,
    X: Any,
    ranking: Any,
    *,
    k: int | None = None,
    n_samples: int = SAMPLES,
    seed: int = 0,
) -> Bracket:
    """PGI of OpenXAI: E|f(x') - f(x)| when the first k features of a ranking move. Higher is better.

    f is the probability that the explainer explains, or the prediction of a regressor. See `openxai_noise`
    for their noise. The differences to OpenXAI:

    - expected values are exact where all outcomes can be listed, else estimates between proven bounds, from
      more samples than their 100; nothing is random from call to call;
    - their scores are of class 0; here the class is that of the explainer. Of two classes it is the same;
    - their area over k is not divided by the number of places; here it is a mean, in units of a gap;
    - features that are missing in a row do not move.

    Parameters
    ----------
    explainer : Explainer
        With the noise, of one output.
    X : (n, d) array or frame of the rows
    ranking : Ranking, or another form of a ranking that `Explainer.curve` takes
        Most important first.
    k : int, or None, default=None
        How many features move. None is the area over k = 1, ..., the places of the ranking, by the
        trapezoidal rule, divided by its width.
    n_samples, seed : as for `Explainer.absolute_gap`

    Returns
    -------
    Bracket

    Raises
    ------
    OutputError
        If several outputs are explained together, or the model's predictions are not known.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from predgap import Explainer, metrics
    >>> X = [[0.0, 0.5], [1.0, 0.5]]
    >>> tree = DecisionTreeClassifier().fit(X, ["no", "yes"])
    >>> explainer = Explainer(tree, metrics.openxai_noise(X, 0.5))
    >>> metrics.openxai_pgi(explainer, X, [0, 1], k=1).value.round(3)
    array([0.399, 0.399])
    """
    return _score(explainer, X, ranking, k, "first", n_samples, seed)


def openxai_pgu(
    explainer: Explainer,
    X: Any,
    ranking: Any,
    *,
    k: int | None = None,
    n_samples: int = SAMPLES,
    seed: int = 0,
) -> Bracket:
    """PGU of OpenXAI: E|f(x') - f(x)| when all but the first k features of a ranking move. Lower is better.

    Parameters
    ----------
    explainer, X, ranking, k, n_samples, seed : as for `openxai_pgi`

    Returns
    -------
    Bracket

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from predgap import Explainer, metrics
    >>> X = [[0.0, 0.5], [1.0, 0.5]]
    >>> tree = DecisionTreeClassifier().fit(X, ["no", "yes"])
    >>> explainer = Explainer(tree, metrics.openxai_noise(X, 0.5))
    >>> metrics.openxai_pgu(explainer, X, [0, 1], k=1).value
    array([0., 0.])
    """
    return _score(explainer, X, ranking, k, "rest", n_samples, seed)


def _score(
    explainer: Explainer,
    X: Any,
    ranking: Any,
    k: int | None,
    moved: Literal["first", "rest"],
    n_samples: int,
    seed: int,
) -> Bracket:
    rows = explainer.explained.rows(X)
    order = explainer.explained.order(rows, ranking)
    n_units, n_places = explainer.explained.n_units, order.shape[1]
    is_number = isinstance(k, int | np.integer) and not isinstance(k, bool)
    if n_places == 0 or not (k is None or (is_number and 1 <= k <= n_places)):
        raise RankingError(f"k is {shown(k)}, expected a whole number of places from 1 to {n_places}")
    space = _space(explainer)
    parts = []
    for places in range(1, n_places + 1) if k is None else [k]:
        masks = np.zeros((len(rows), n_units), dtype=np.bool_)
        np.put_along_axis(masks, order[:, :places].astype(np.intp), True, axis=1)
        if moved == "rest":
            masks = ~masks
        parts.append(explainer.absolute_gap(rows, masks, space=space, n_samples=n_samples, seed=seed))
    return _area(parts)


def _space(explainer: Explainer) -> Literal["margin", "probability"]:
    """Probabilities of classifiers, else margins; an error if OpenXAI's score of the explainer is neither."""
    model = explainer.explained.model
    if explainer.output is None and explainer.ensemble.n_outputs > 1:
        raise OutputError(
            f"the explainer has {explainer.ensemble.n_outputs} outputs, and OpenXAI's score is about one; "
            "choose it: Explainer(..., output=0), which is their class, the label of another, or "
            "output='predicted'"
        )
    if model.link is None and model.class_names is None:
        return "margin"
    if model.link is None or not model.link.gives_probabilities:
        raise OutputError(
            f"OpenXAI's score is about predictions, and predgap does not know how a model of {model.source} "
            "makes them from the sum of its trees; use pgi2, or absolute_gap, which is about that sum"
        )
    return "probability"


def _area(parts: list[Bracket]) -> Bracket:
    """The mean of brackets by the trapezoidal rule; their errors, at the same points, add up."""
    weights = np.ones(len(parts))
    if len(parts) > 1:
        weights[[0, -1]] = 0.5
    weights /= weights.sum()

    def mean(name: str) -> FloatArray:
        return np.asarray(sum(w * getattr(part, name) for w, part in zip(weights, parts, strict=True)))

    methods = np.stack([part.method for part in parts])
    sampled = np.where((methods == "mc").any(axis=0), "mc", "qmc")
    return replace(
        parts[0],
        value=mean("value"),
        lower=mean("lower"),
        upper=mean("upper"),
        standard_error=mean("standard_error"),
        method=np.where((methods == "exact").all(axis=0), "exact", sampled),
        n_samples=np.max([part.n_samples for part in parts], axis=0),
    )
