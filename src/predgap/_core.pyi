from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

_Progress = Callable[[int], object] | None
_Strategy = Literal["terms", "pairs"]

def instruction_set() -> str: ...
def normal_tails(z: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...

class CategoryNoise:
    def __init__(self, engine: Engine, mass: NDArray[np.float64]) -> None: ...

class NoiseTables:
    def __init__(
        self,
        kinds: NDArray[np.uint8],
        parameters: NDArray[np.float64],
        below: NDArray[np.float64] | None,
        above: NDArray[np.float64] | None,
        categories: CategoryNoise | None,
    ) -> None: ...

class Engine:
    def __init__(
        self,
        n_features: int,
        root: NDArray[np.int32],
        feature: NDArray[np.int32],
        threshold: NDArray[np.float64],
        left: NDArray[np.int32],
        right: NDArray[np.int32],
        default_left: NDArray[np.uint8],
        value: NDArray[np.float64],
        category_set: NDArray[np.int32],
        n_levels: NDArray[np.int32],
        set_feature: NDArray[np.int32],
        set_begin: NDArray[np.int32],
        set_level: NDArray[np.int32],
    ) -> None: ...
    @property
    def thresholds(self) -> NDArray[np.float64]: ...
    @property
    def threshold_begin(self) -> NDArray[np.int32]: ...
    @property
    def cell_begin(self) -> NDArray[np.int32]: ...
    @property
    def cell_of_level(self) -> NDArray[np.int32]: ...
    @property
    def has_terms(self) -> bool: ...
    def counts(self, subset: NDArray[np.uint8]) -> tuple[list[float], list[float]]: ...
    def cost(self, subset: NDArray[np.uint8]) -> tuple[float, float, float, float]: ...
    def gap(
        self,
        x: NDArray[np.float64],
        noise: NoiseTables,
        subset: NDArray[np.uint8],
        strategy: _Strategy,
        n_threads: int,
        progress: _Progress,
    ) -> NDArray[np.float64]: ...
    def mean_change(
        self,
        x: NDArray[np.float64],
        noise: NoiseTables,
        subset: NDArray[np.uint8],
        strategy: _Strategy,
        n_threads: int,
        progress: _Progress,
    ) -> NDArray[np.float64]: ...
    def bounded(
        self,
        x: NDArray[np.float64],
        noise: NoiseTables,
        subset: NDArray[np.uint8],
        rtol: float,
        n_threads: int,
        progress: _Progress,
    ) -> NDArray[np.float64]: ...
    def sample(
        self,
        x: NDArray[np.float64],
        noise: NoiseTables,
        subset: NDArray[np.uint8],
        points: NDArray[np.float64],
        stretch_end: NDArray[np.int64],
        n_threads: int,
        progress: _Progress,
    ) -> NDArray[np.float64]: ...
    def curve(
        self,
        x: NDArray[np.float64],
        noise: NoiseTables,
        order: NDArray[np.int32],
        strategy: _Strategy,
        n_threads: int,
        progress: _Progress,
    ) -> NDArray[np.float64]: ...
    def sample_curve(
        self,
        x: NDArray[np.float64],
        noise: NoiseTables,
        order: NDArray[np.int32],
        points: NDArray[np.float64],
        column: NDArray[np.int32],
        n_replicates: int,
        n_threads: int,
        progress: _Progress,
    ) -> NDArray[np.float64]: ...
    def algorithm1(
        self,
        x: NDArray[np.float64],
        scale: NDArray[np.float64],
        subset: NDArray[np.uint8],
        float32: bool = False,
    ) -> NDArray[np.float64]: ...

def rank(
    engines: list[Engine],
    xs: list[NDArray[np.float64]],
    noises: list[NoiseTables],
    method: Literal["greedy", "single"],
    strategy: _Strategy,
    n_threads: int,
    progress: _Progress,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]: ...
def race(
    engines: list[Engine],
    xs: list[NDArray[np.float64]],
    noises: list[NoiseTables],
    method: Literal["greedy", "single"],
    points: NDArray[np.float64],
    column: NDArray[np.int32],
    look_end: NDArray[np.int64],
    n_replicates: int,
    clear: float,
    n_threads: int,
    progress: _Progress,
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]: ...
