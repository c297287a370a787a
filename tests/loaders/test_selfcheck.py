"""What the check at loading lets pass, and what not: sums of a thousand trees in the library's precision."""

import numpy as np
import pytest

from predgap._model.ensemble import Ensemble
from predgap.errors import LoaderError
from predgap.loaders import translation

N_TREES = 1000


def stumps(bias: float) -> Ensemble:
    """Trees that all ask x0 < 0.5, with leaves of single precision and of both signs."""
    random = np.random.default_rng(3)
    root, nothing = np.arange(N_TREES) * 3, np.full(N_TREES, -1)
    value = random.normal(size=(3 * N_TREES, 1)).astype(np.float32)
    value[root] = 0.0
    return Ensemble(
        root=root,
        feature=[0, -1, -1] * N_TREES,
        threshold=[0.5, 0, 0] * N_TREES,
        left=np.stack([root + 1, nothing, nothing], axis=1).ravel(),
        right=np.stack([root + 2, nothing, nothing], axis=1).ravel(),
        default_left=[True, False, False] * N_TREES,
        value=value,
        target=np.zeros(N_TREES, dtype=int),
        bias=[bias],
        n_features=1,
    )


def library(ensemble: Ensemble, kind: type, *, bias_first: bool, change: float = 0.0):
    """A library that adds up in its own precision and order; `change` is added to its last margin."""

    def margins(rows):
        value = ensemble.value[ensemble.leaves(rows), 0].astype(kind)
        bias = np.full((len(rows), 1), ensemble.bias[0], dtype=kind)
        parts = np.hstack([bias, value] if bias_first else [value, bias])
        total = np.cumsum(parts, axis=1, dtype=kind)[:, -1].astype(np.float64)
        total[-1] += change * np.abs(parts[-1]).sum(dtype=np.float64)
        return total

    return margins


@pytest.mark.parametrize("bias", [0.0, 3.0])
@pytest.mark.parametrize("bias_first", [True, False])
@pytest.mark.parametrize(("kind", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-12)])
def test_margins_agree_to_the_tolerance_in_the_librarys_own_order(kind, tolerance, bias_first, bias):
    ensemble, double = stumps(bias), kind is np.float64
    for change in (0.0, 0.9 * tolerance, -0.9 * tolerance):
        margins = library(ensemble, kind, bias_first=bias_first, change=change)
        translation.check_predictions(ensemble, library="mine", margins=margins, double=double)
    for change in (1.5 * tolerance, -1.5 * tolerance):
        margins = library(ensemble, kind, bias_first=bias_first, change=change)
        with pytest.raises(LoaderError, match="the load disagrees with mine: output 0 of the row"):
            translation.check_predictions(ensemble, library="mine", margins=margins, double=double)


@pytest.mark.parametrize("bias_first", [True, False])
def test_a_large_bias_shows_which_order_is_meant(bias_first):
    """Adding leaves to 1e7 loses most of each: in double precision they would seem to be wrong ones."""
    ensemble = stumps(1e7)
    rows = translation.rows_at_thresholds(ensemble)
    single = library(ensemble, np.float32, bias_first=bias_first)
    translation.check_predictions(ensemble, library="mine", margins=single)
    if bias_first:
        double = library(ensemble, np.float64, bias_first=True)
        assert np.abs(single(rows) - double(rows)).max() > 1e-6 * 1e7


@pytest.mark.parametrize("shape", [(), (2,)])
def test_margins_of_another_shape_are_a_disagreement(shape):
    with pytest.raises(LoaderError, match="1 outputs here, margins of shape"):
        translation.check_predictions(
            stumps(0.0), library="mine", margins=lambda rows: np.zeros((len(rows) + 1, *shape))
        )


def test_leaves_of_another_shape_are_a_disagreement():
    ensemble = stumps(0.0)
    with pytest.raises(LoaderError, match=r"1000 trees here, leaves of shape \(512, 999\) there"):
        translation.check_predictions(
            ensemble,
            library="mine",
            margins=library(ensemble, np.float32, bias_first=True),
            leaves=lambda rows: (ensemble.leaves(rows) - ensemble.root)[:, 1:],
        )
