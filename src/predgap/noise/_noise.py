"""The class `Noise`: what every noise can do, and how one of your own begins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from predgap.errors import NoiseError
from predgap.noise._laws import Law
from predgap.noise._scales import Names


class Noise(ABC):
    """Base class of all noises: how features are perturbed, independently of each other. Immutable.

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

    def with_strength(self, strength: float) -> Noise:
        """The same noise with another strength; `Explainer.sweep` asks for it.

        Parameters
        ----------
        strength : positive number
            As the noise was given it, e.g. the factor of `Normal.relative`.

        Returns
        -------
        Noise

        Raises
        ------
        NoiseError
            If the noise has no strength that can be changed.
        """
        raise NoiseError(f"{self!r} has no strength that can be changed; use Relative(X, strength)")
