"""The noise `PerFeature`: a different noise for some features, and a default for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from predgap._inputs.names import NAMELESS, match_names
from predgap._inputs.one_hot import OneHot
from predgap._text import count, format_items, names_or_default, shown
from predgap.errors import NoiseError
from predgap.noise._laws import Law
from predgap.noise._noise import ModelFeatures, Noise, check_single
from predgap.noise._scales import ColumnLabels, Names, Ranges


@dataclass(frozen=True, init=False, repr=False)
class PerFeature(Noise):
    """Combines noises: a different one for some features, and a default for the rest.

    Use it for tables with both numeric and categorical columns.

    Parameters
    ----------
    noises : mapping from feature name or index to Noise
        The noise of these features.
    default : Noise, or None, default=None
        The noise of all other features. Without it, `noises` must have every feature that the model splits
        on.

    Examples
    --------
    >>> from predgap import Normal, Uniform
    >>> PerFeature({"age": Uniform(1)}, default=Normal(0.3)).laws(2, ("age", "bmi"))
    (UniformLaw(half_width=1.0), NormalLaw(scale=0.3))
    """

    noises: tuple[tuple[str | int, Noise], ...]
    default: Noise | None

    def __init__(self, noises: Mapping[Any, Noise], default: Noise | None = None) -> None:
        if not isinstance(noises, Mapping):
            raise NoiseError(
                f"PerFeature got a {type(noises).__name__}, expected a mapping such as {{'age': Normal(0.3)}}"
            )
        pairs = tuple((_feature_key(key), _noise(noise, f"of {shown(key)}")) for key, noise in noises.items())
        object.__setattr__(self, "noises", pairs)
        object.__setattr__(self, "default", None if default is None else _noise(default, "default"))

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        own = self._placed(n_features, feature_names)
        rest = [j for j in features if j not in own]
        if rest and self.default is None:
            names = names_or_default(n_features, feature_names)
            raise NoiseError(
                f"no noise for {count(len(rest), 'feature')}: {format_items(names[j] for j in rest)}; "
                "add them, or give default="
            )
        others = self.default.laws_of(rest, n_features, feature_names) if self.default is not None else ()
        laws = dict(zip(rest, others, strict=True))
        for j in features:
            if j in own:
                (laws[j],) = own[j].laws_of([j], n_features, feature_names)
        return tuple(laws[j] for j in features)

    def ranges_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> Ranges:
        own = self._placed(n_features, feature_names)
        noises = [own.get(j, self.default) for j in features]
        return tuple(
            None if noise is None else noise.ranges_of([j], n_features, feature_names)[0]
            for j, noise in zip(features, noises, strict=True)
        )

    def with_strength(self, strength: float) -> PerFeature:
        return self._each(lambda noise: noise.with_strength(strength))

    def with_one_hot(self, one_hot: OneHot) -> PerFeature:
        return self._each(lambda noise: noise.with_one_hot(one_hot))

    def for_model(self, features: ModelFeatures) -> PerFeature:
        return self._each(lambda noise: noise.for_model(features))

    def _tables(self) -> tuple[ColumnLabels, ...]:
        held = [noise for _, noise in self.noises] + ([] if self.default is None else [self.default])
        return tuple(table for noise in held for table in noise._tables())

    def _each(self, change: Callable[[Noise], Noise]) -> PerFeature:
        default = None if self.default is None else change(self.default)
        return PerFeature({key: change(noise) for key, noise in self.noises}, default)

    def _placed(self, n_features: int, feature_names: Names) -> dict[int, Noise]:
        """The noises that were given, by feature index."""
        place = self._places(n_features, feature_names)
        unknown = [key for key, _ in self.noises if key not in place]
        if unknown:
            raise NoiseError(
                f"the model has no feature {format_items(unknown)}; its {n_features} features are "
                f"{format_items(names_or_default(n_features, feature_names))}"
                f"{NAMELESS if feature_names is None else ''}"
            )
        placed: dict[int, Noise] = {}
        for key, noise in self.noises:
            if place[key] in placed:
                name = names_or_default(n_features, feature_names)[place[key]]
                raise NoiseError(f"feature {name!r} is given twice, by name and by index")
            placed[place[key]] = noise
        return placed

    def _places(self, n_features: int, feature_names: Names) -> dict[str | int, int]:
        """The feature that each of the keys means, if there is one."""
        place: dict[str | int, int] = {
            key: key for key, _ in self.noises if isinstance(key, int) and 0 <= key < n_features
        }
        names = [key for key, _ in self.noises if isinstance(key, str)]
        if names:
            place.update(match_names(names, names_or_default(n_features, feature_names), NoiseError))
        return place

    def __repr__(self) -> str:
        shown = ", ".join(f"{key!r}: {noise!r}" for key, noise in self.noises)
        default = "" if self.default is None else f", default={self.default!r}"
        return f"PerFeature({{{shown}}}{default})"


def _noise(noise: Any, which: str) -> Noise:
    if not isinstance(noise, Noise):
        raise NoiseError(f"the noise {which} is {shown(noise)}, expected a Noise such as Normal(0.3)")
    check_single(noise, "PerFeature")
    return noise


def _feature_key(key: Any) -> str | int:
    if isinstance(key, str):
        return key
    if isinstance(key, bool | np.bool_) or not isinstance(key, int | np.integer):
        raise NoiseError(f"PerFeature has the key {shown(key)}, expected feature names or indices")
    return int(key)
