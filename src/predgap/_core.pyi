"""The compiled kernels. Private: arguments are checked by the layers above; what is wrong raises ValueError.

Arrays are C-contiguous. n rows, d features, k places of a ranking. `x` holds rows as the model casts them,
with cells in place of the codes of categories; NaN is missing.
"""

from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int32]
_Bytes = NDArray[np.uint8]
_Strategy = Literal["auto", "plan", "compiled", "cells", "pairs"]  # "auto" but in tests and benchmarks
_Question = Literal["gap", "curve", "greedy", "single", "subsets", "examine"]

LAWS: dict[str, int]  # codes of the kinds of laws: still, normal, uniform, fixed, table, category
METHODS: tuple[str, ...]  # words of the method codes that calls return: exact, bounded, pruned
ROUTES: tuple[str, ...]  # words of the codes of routes: plan, compiled, pairs
SPEEDS: dict[str, tuple[float, str]]  # what the planner counts: nanoseconds of one, and what it is
MOST_SECONDS: float  # the most that a row may take
MOST_BYTES: int  # the most that a row may take

class TooCostly(Exception):  # noqa: N818, it is turned into CostError
    """A row would take more than the limits, or has: args are the row, milliseconds and megabytes."""

def instruction_set() -> str: ...
def normal_tails(z: _Floats) -> tuple[_Floats, _Floats]: ...

class _Context(Protocol):
    """How a call is run: predgap._engine.context.Context."""

    @property
    def n_threads(self) -> int: ...
    def look(self, done: int, milliseconds: float = 0.0) -> None:
        """The core calls it now and then, with the rows done and what a row may take. What it raises ends the
        call."""

class Model:
    """The trees of all outputs, and what follows from them for all rows."""

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        root: _Ints,  # (n_trees)
        target: _Ints,  # (n_trees) the output that a tree adds to; -1 where leaves are vectors
        feature: _Ints,  # (n_nodes) and so on, as in Ensemble
        threshold: _Floats,
        left: _Ints,
        right: _Ints,
        default_left: _Bytes,
        value: _Floats,  # (n_nodes, 1 or n_outputs)
        category_set: _Ints,
        n_levels: _Ints,
        set_feature: _Ints,
        set_begin: _Ints,
        set_level: _Ints,
    ) -> None: ...
    @property
    def thresholds(self) -> _Floats: ...
    @property
    def threshold_begin(self) -> _Ints: ...
    @property
    def cell_begin(self) -> _Ints: ...
    @property
    def cell_of_level(self) -> _Ints: ...
    @property
    def has_plan(self) -> bool: ...
    def limit_work(self, milliseconds: float, megabytes: float) -> None:
        """Limits what rows take from now on, by counts; what they would take has limits of its own."""
    def typical_rows(self) -> _Floats:
        """A few rows made of the model's thresholds and cells, (m, d), to foretell costs without data."""

class Rows:
    """Rows of a model. `below` and `above` (n, n_thresholds) are the tails of table laws; `still` (n, d) says
    which values do not move."""

    def __init__(
        self, model: Model, x: _Floats, below: _Floats | None, above: _Floats | None, still: _Bytes | None
    ) -> None: ...

class Accuracy:
    """What is promised. The tolerance of "bounded" is relative to the answer (of curves: to their mean; of
    rankings: to the gap of all taken features), that of "pruned" to the row's scale, without proof; "exact"
    has none."""

    def __init__(
        self,
        kind: Literal["exact", "bounded", "pruned"],
        tolerance: float = 0.0,
        strategy: _Strategy = "auto",
    ) -> None: ...

class Units:
    """Features that move at the same time and are ranked as one: each feature of a model in one unit."""

    def __init__(
        self,
        begin: _Ints,  # (m + 1) where the members of each unit begin; no unit is empty
        member: _Ints,  # (d) features
    ) -> None: ...

# Each answer ends with error bounds and method codes, (n,). A bound is absolute: of each gap of a row, be it
# of one subset, of a prefix, or of all that a ranking took. Pruned answers have one too, which may be large.
_Answer = tuple[_Floats, _Floats, _Bytes]

class _Kernel:
    """What both kinds of noise answer. `masks` (1 or n, d) are subsets of features; without `units`, each
    feature is one."""

    def gap(self, rows: Rows, masks: _Bytes, accuracy: Accuracy, context: _Context) -> _Answer:
        """Gaps (n,)."""

    def curve(
        self, rows: Rows, order: _Ints, accuracy: Accuracy, context: _Context, units: Units | None = None
    ) -> _Answer:
        """order (1 or n, k) of units -> gaps of its prefixes (n, k)."""

    def rank(
        self,
        rows: Rows,
        method: Literal["greedy", "single"],
        top: int,
        accuracy: Accuracy,
        context: _Context,
        units: Units | None = None,
    ) -> tuple[_Ints, _Floats, _Bytes, _Floats, _Bytes]:
        """Order (n, top) of m units, scores (n, m; NaN of units that were not taken), is the place proven?
        (n, top), bounds, methods."""

    def search(
        self,
        rows: Rows,
        chosen: _Ints,
        n_places: int,
        width: int,
        accuracy: Accuracy,
        context: _Context,
        units: Units | None = None,
    ) -> tuple[_Ints, _Floats, _Floats, _Bytes]:
        """chosen (n, m) units -> good orders of them, gaps of the prefixes (n, n_places), bounds, methods."""

    def subset_gaps(
        self,
        rows: Rows,
        chosen: _Ints,
        share: _Floats,
        accuracy: Accuracy,
        context: _Context,
        units: Units | None = None,
    ) -> _Answer:
        """chosen (n, m) units -> gaps (n, 2^m) of all their subsets. A tolerance is relative to the sum over
        sizes of share (m + 1) times the mean gap of that size."""

    def moments(
        self, rows: Rows, masks: _Bytes, accuracy: Accuracy, context: _Context
    ) -> tuple[_Floats, _Floats, _Floats, _Bytes]:
        """E[f(x')] - f(x), (n, n_outputs), covariances of the outputs, (n, n_outputs, n_outputs; NaN off the
        diagonal where each output has trees of its own), bounds, methods. A tolerance is relative to the gap.
        """

    def mean_change(self, rows: Rows, masks: _Bytes, context: _Context) -> tuple[_Floats]:
        """E[f(x')] - f(x), (n, n_outputs); exact."""

class Independent(_Kernel):
    """Noise that moves each feature by itself."""

    def most_work(self) -> tuple[float, float]:
        """The milliseconds and the megabytes, by counts, that any row took since this was asked last."""

    def __init__(
        self,
        model: Model,
        kinds: _Bytes,  # (d) codes of LAWS
        parameters: _Floats,  # (5, d) scale or half-width; P(x' = x) without, and P of, what the law does;
        # the range that x' does not leave, but for what x itself is outside
        at: _Floats,  # (n_thresholds) x' >= threshold where x plus the law's number is at least this
        fixed: _Floats,  # (n_thresholds, 2) tails of the law "fixed"
        mass: _Floats,  # (n_cells) P(x' in the cell) where x is in another
        stay: _Floats,  # (n_cells) P(x' in the cell) where x is in it
    ) -> None: ...
    def cost(
        self,
        rows: Rows,
        question: _Question,
        features: _Bytes,
        n: int,
        accuracy: Accuracy,
        context: _Context,
        units: Units | None = None,
        order: _Ints | None = None,
        closely: bool = False,
    ) -> tuple[_Bytes, _Bytes, _Floats, _Floats, _Floats, _Floats]:
        """The way that answers would take to a question about the features (1 or n, d): codes of methods and
        of routes, the limit of what is left out, milliseconds and megabytes, (n,); and how many things of
        each kind of `SPEEDS` that is, (n, n_speeds). order: of a curve, (1 or n, places), if it is known.
        closely: of a model without a plan milliseconds and megabytes are counted on some of its trees, which
        takes a part of that time."""

    def way_taken(
        self,
        rows: Rows,
        question: _Question,
        features: _Bytes,
        n: int,
        accuracy: Accuracy,
        context: _Context,
        units: Units | None = None,
        order: _Ints | None = None,
    ) -> tuple[_Bytes, _Bytes, _Floats]:
        """Answers a gap, a greedy ranking or a curve, and tells the way that was taken first: codes of
        methods and of routes, and the limit of what is left out, (n,)."""

    def moving_units(self, rows: Rows, context: _Context, units: Units | None = None) -> tuple[_Bytes]:
        """Which units can change anything, (n, n_units)."""

    def main_weights(self, rows: Rows, masks: _Bytes, accuracy: Accuracy, context: _Context) -> _Answer:
        """Weights of the main effects (n, n_thresholds) of a model with one output. What a feature changes
        on average, as a function of x', is the sum of weight_c (1[x' < c] - P(x' < c)) over its thresholds
        c."""

    def sensitivity(
        self, rows: Rows, accuracy: Accuracy, context: _Context, units: Units | None = None
    ) -> tuple[_Floats, _Floats, _Floats, _Floats, _Floats, _Floats, _Bytes]:
        """The variance (n,) when all m units move; the parts of it that come from a unit alone, from all sets
        with it, and its equal parts of these, (n, m) each; from pairs (n, m, m), 0 on the diagonal; bounds of
        all parts, relative to the variance, to which a tolerance is relative too; methods."""

    def outcomes(self, row: Rows, mask: _Bytes, context: _Context) -> tuple[_Floats, _Floats] | None:
        """One row, mask (1, d) -> probabilities (m), changes (n_outputs, m); None if there are too many."""

    def change_range(self, rows: Rows, masks: _Bytes, context: _Context) -> tuple[_Floats]:
        """The least and the largest change of each output, (n, n_outputs, 2)."""

    def sample(
        self,
        rows: Rows,
        output: int,
        subset: _Bytes,  # (d)
        points: _Floats,  # (1 or n, m, n features of the subset)
        stretch_end: NDArray[np.int64],
        context: _Context,
    ) -> tuple[_Floats]:
        """Sums of f(x') - f(x), its square and its fourth power over stretches of points, (n, s, 3)."""

    def sample_changes(
        self, rows: Rows, subset: _Bytes, points: _Floats, context: _Context
    ) -> tuple[_Floats]:
        """subset (d), points (1 or n, m, n features of the subset) -> f(x') - f(x), (n, n_outputs, m)."""

    def sample_curve(
        self,
        rows: Rows,
        order: _Ints,  # (1 or n, k)
        points: _Floats,  # (m, columns), by replicates
        column: _Ints,  # (d) of each feature, -1 for none
        n_replicates: int,
        context: _Context,
        units: Units | None = None,
    ) -> tuple[_Floats]:
        """Sums of the squared changes of the prefixes, over the outputs too, (n, n_replicates, k)."""

    def race(
        self,
        rows: Rows,
        method: Literal["greedy", "single"],
        top: int,
        points: _Floats,
        column: _Ints,
        look_end: NDArray[np.int64],
        n_replicates: int,
        clear: float,
        context: _Context,
        units: Units | None = None,
    ) -> tuple[_Ints, _Floats, _Floats]:
        """Order (n, top), scores (n, n_units; NaN of those not taken) and leads of the places (n, top)."""

class Joint(_Kernel):
    """Noise that moves features together: they take the values of a row of a table. All is exact."""

    def __init__(self, table: Rows) -> None: ...
    def changes(self, rows: Rows, masks: _Bytes, context: _Context) -> tuple[_Floats]:
        """f(x') - f(x) at each row of the table, (n, n_outputs, m)."""

    def mean_gap(
        self, rows: Rows, weights: _Floats, context: _Context, units: Units | None = None
    ) -> tuple[_Floats]:
        """The mean gap (n,) of a random subset, which has p given units and lacks n others with probability
        weights[p, n]; weights[0] must be 0."""

    def shapley(
        self, rows: Rows, gained: _Floats, lost: _Floats, context: _Context, units: Units | None = None
    ) -> tuple[_Floats]:
        """Shapley values (n, n_units), from weights like those of `mean_gap`: what each of the p units gains,
        and what each of the n others loses."""

    def box_costs(self, rows: Rows, m: int, context: _Context, units: Units | None = None) -> tuple[_Floats]:
        """Milliseconds of `mean_gap`, `shapley` and `subset_gaps` of m units, (n, 3)."""

    @property
    def most_of_a_pair(self) -> int:
        """How large p + n can be."""

    def cost(self, question: _Question, n_units: int, top: int) -> tuple[float, float]:
        """Milliseconds and megabytes of any row."""

def algorithm1(
    model: Model, x: _Floats, scale: _Floats, subset: _Bytes, float32: bool = False
) -> _Floats: ...
