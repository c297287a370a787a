"""Makes the engine that a noise needs."""

from __future__ import annotations

from predgap._engine.background import BackgroundEngine, background_rows
from predgap._engine.engine import Engine, Strategy
from predgap._engine.kernel_noise import laws_for_model
from predgap._model.ensemble import Ensemble
from predgap.noise import Background, Noise


def engine_for(
    ensemble: Ensemble, noise: Noise, n_threads: int = 1, strategy: Strategy | None = None
) -> Engine:
    """The engine of a model under a noise; NoiseError if the noise does not fit the model."""
    if isinstance(noise, Background):
        return BackgroundEngine(ensemble, background_rows(noise, ensemble), n_threads)
    return Engine(ensemble, laws_for_model(noise, ensemble), n_threads, strategy)
