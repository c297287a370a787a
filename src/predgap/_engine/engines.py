"""Makes the engines that a noise needs: of a model, and of single outputs of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from predgap._engine.background import BackgroundEngine, background_rows
from predgap._engine.engine import Engine, Strategy
from predgap._engine.kernel_noise import laws_for_model
from predgap._model.ensemble import LEAF, Ensemble
from predgap._typing import FloatArray
from predgap.noise import Background, Noise
from predgap.noise._laws import Law


@dataclass(frozen=True, slots=True, eq=False)
class EngineRecipe:
    """What was read off a noise for a model: the law of each feature, or the rows of a background.

    It is far smaller than the table of a noise, and makes the engine of the model and of each of its outputs.
    """

    noise: Noise  # for features that it was not read off for
    features: frozenset[int]
    laws: dict[int, Law]
    background: FloatArray | None  # (m, d)
    n_threads: int = 1
    strategy: Strategy | None = None

    @classmethod
    def of(
        cls, ensemble: Ensemble, noise: Noise, n_threads: int = 1, strategy: Strategy | None = None
    ) -> Self:
        """The recipe of a model under a noise; NoiseError if the noise does not fit the model."""
        features = frozenset(_used(ensemble))
        if isinstance(noise, Background):
            return cls(noise, features, {}, background_rows(noise, ensemble), n_threads, strategy)
        return cls(noise, features, laws_for_model(noise, ensemble), None, n_threads, strategy)

    def engine(self, ensemble: Ensemble) -> Engine:
        """The engine of the model, of one of its outputs, or of a model that has more outputs."""
        used = _used(ensemble)
        if not self.features.issuperset(used):
            return self.of(ensemble, self.noise, self.n_threads, self.strategy).engine(ensemble)
        if self.background is None:
            laws = {q: self.laws[q] for q in used}
            return Engine(ensemble, laws, self.n_threads, self.strategy)
        rows = np.full_like(self.background, np.nan)
        rows[:, used] = self.background[:, used]
        return BackgroundEngine(ensemble, rows, self.n_threads)


def _used(ensemble: Ensemble) -> list[int]:
    """The features that some split tests."""
    found: list[int] = np.unique(ensemble.feature[ensemble.feature != LEAF]).tolist()
    return found
