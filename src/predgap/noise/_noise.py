"""The class `Noise`: what every noise can do, and how one of your own begins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from predgap.noise._laws import Law
from predgap.noise._scales import Names


class Noise(ABC):
    """Base class of all noises: how features are perturbed. Immutable.

    Features are perturbed independently of each other, but for `Background`.

    To write a noise of your own, subclass it and define `laws_of`, which returns one `Law` per feature. An
    `Explainer` asks only for the features that the model splits on; perturbing the others changes nothing.
    """

    def laws(self, n_features: int, feature_names: Sequence[str] | None = None) -> tuple[Law, ...]:
        """The law of each feature of a model.

        Parameters
        ----------
        n_features : int
            The number of features of the model, d.
        feature_names : sequence of d strings, or None, default=None
            Their names. Without them, a noise that is given by name expects f0, f1, ...

        Returns
        -------
        tuple of d Law

        Raises
        ------
        NoiseError
            If the noise does not fit these features.
        """
        names = None if feature_names is None else tuple(feature_names)
        return self.laws_of(range(n_features), n_features, names)

    @abstractmethod
    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        """The laws of the features with these indices. Errors of other features must not be raised."""
