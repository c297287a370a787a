"""The command `predgap demo`: compares rankings of the diabetes data by how faithful they are to a model."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from predgap import plots
from predgap._files import atomic_write
from predgap._optional import require
from predgap._typing import FloatArray
from predgap.explainer import Explainer
from predgap.noise import Relative
from predgap.ranking import Ranking

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.table import Table


_FEATURES: Final = (  # scikit-learn calls the last six s1 ... s6
    "age",
    "sex",
    "body mass",
    "blood pressure",
    "cholesterol",
    "LDL",
    "HDL",
    "chol. / HDL",
    "triglycerides",
    "glucose",
)
_TREES: Final = 80
_NOISE: Final = 0.3  # standard deviations
_MODEL: Final = {
    "max_depth": 4,
    "eta": 0.04,
    "subsample": 0.5,
    "min_child_weight": 10,
    "lambda": 20,
    "seed": 0,
    "nthread": 1,
}
_PICTURE_TITLE: Final = "Which ranking names first the features that move the prediction?"
_RANDOM_ORDERS: Final = 20
_RUNS: Final = 5
_TIE: Final = 1e-12  # relative; gaps are exact to about this


@dataclass(frozen=True, slots=True)
class Trained:
    """The model and the rows to explain."""

    booster: Any
    train: FloatArray  # (n_train, d)
    rows: FloatArray  # (n, d), not seen in training
    dmatrix: Any  # `rows` as XGBoost wants them
    r2: float  # on `rows`


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rankings of the same rows by several methods, their curves, and the time that they took."""

    rankings: dict[str, Ranking]  # by method
    curves: dict[str, FloatArray]  # by method and for "random", (n, d)
    seconds: dict[str, float]  # per row; of methods that look at a row

    @property
    def pgi2(self) -> dict[str, FloatArray]:
        return {name: curve.mean(axis=1) for name, curve in self.curves.items()}

    def wins(self, name: str) -> str:
        """In how many rows greedy has at least the same PGI², as text such as "98 of 111"."""
        pgi2 = self.pgi2
        better = pgi2["greedy"] >= pgi2[name] * (1 - _TIE)
        return f"{int(better.sum())} of {len(better)}"

    def most_different(self) -> int:
        """The row where greedy and TreeSHAP differ most."""
        return int(np.argmax(self.pgi2["greedy"] - self.pgi2["TreeSHAP"]))


def run(console: Console, folder: Path) -> Path:
    """Trains a model, compares rankings of its features, saves a picture in `folder`; returns its path."""
    require("the demo", "demo")
    trained = train()
    comparison = compare(trained)
    _print_setting(console, trained)
    for table in (_methods_table(comparison), _places_table(comparison), _agreement_table(comparison)):
        console.print(table)
        console.print()
    _print_row(console, comparison)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "diabetes.png"
    image = io.BytesIO()
    picture(comparison).savefig(image, dpi=150)
    atomic_write(path, image.getvalue())
    console.print(f"Picture: {path}", markup=False, soft_wrap=True)
    return path


# ---- work ----------------------------------------------------------------------------------------


def train() -> Trained:
    """Trains an XGBoost regressor on the diabetes data of scikit-learn."""
    import xgboost
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import train_test_split

    data = load_diabetes(scaled=False)
    X, rows, y, target = train_test_split(data.data, data.target, test_size=0.25, random_state=1)
    booster = xgboost.train(_MODEL, xgboost.DMatrix(X, y, feature_names=list(_FEATURES)), _TREES)
    dmatrix = xgboost.DMatrix(rows, feature_names=list(_FEATURES))
    error = target - booster.predict(dmatrix)
    r2 = 1 - float(np.mean(error**2) / np.var(target))
    return Trained(booster, X, rows, dmatrix, r2)


def compare(trained: Trained) -> Comparison:
    """Ranks the rows by each method, and computes the curve of each ranking."""
    explainer = Explainer(trained.booster, Relative(trained.train, _NOISE))
    rows, seconds = trained.rows, {}
    greedy, seconds["greedy"] = _timed(lambda: explainer.rank(rows))
    single, seconds["single"] = _timed(lambda: explainer.rank(rows, "single"))
    contributions, seconds["TreeSHAP"] = _timed(
        lambda: trained.booster.predict(trained.dmatrix, pred_contribs=True)
    )
    rankings = {
        "greedy": greedy,
        "single": single,
        "TreeSHAP": Ranking.from_attributions(contributions, feature_names=_FEATURES),
        "gain": _by_gain(trained.booster, len(rows)),
    }
    curves = {name: explainer.curve(rows, ranking) for name, ranking in rankings.items()}
    curves["random"] = _random_curve(explainer, rows)
    return Comparison(rankings, curves, {name: total / len(rows) for name, total in seconds.items()})


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result of `work`, and the median time of a few runs in seconds."""
    times = []
    for _ in range(_RUNS):
        start = perf_counter()
        result = work()
        times.append(perf_counter() - start)
    return result, float(np.median(times))


def _by_gain(booster: Any, n_rows: int) -> Ranking:
    """XGBoost's global importance, the same for all rows."""
    gain = booster.get_score(importance_type="gain")
    values = [float(gain.get(name, 0.0)) for name in _FEATURES]
    return Ranking.from_attributions(np.tile(values, (n_rows, 1)), feature_names=_FEATURES)


def _random_curve(explainer: Explainer, rows: FloatArray) -> FloatArray:
    """The mean curve of random rankings."""
    rng = np.random.default_rng(0)
    in_order = np.tile(np.arange(rows.shape[1]), (len(rows), 1))
    curves = [explainer.curve(rows, rng.permuted(in_order, axis=1)) for _ in range(_RANDOM_ORDERS)]
    mean: FloatArray = np.mean(curves, axis=0)
    return mean


# ---- words ---------------------------------------------------------------------------------------


def _print_setting(console: Console, trained: Trained) -> None:
    console.print(
        f"Diabetes data: {len(trained.train)} rows to train on, {len(trained.rows)} to explain, "
        f"{trained.rows.shape[1]} features.\n"
        f"Model: XGBoost, {_TREES} trees of depth {_MODEL['max_depth']}, R² {trained.r2:.2f} on new rows.\n"
        f"Noise: each feature moves by {_NOISE} of its standard deviation, to values that\n"
        "it can take (age in whole years; sex is drawn anew now and then).\n"
        "The gap is the mean squared change of the prediction; every gap here is exact.\n",
        soft_wrap=True,
    )


def _table(title: str, *columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(columns[0], no_wrap=True)
    for column in columns[1:]:
        table.add_column(column, justify="right")
    return table


def _methods_table(comparison: Comparison) -> Table:
    title = "PGI² by method (higher: the features named first do move the prediction)"
    table = _table(title, "method", "mean PGI²", "± s.e.", "of greedy's", "greedy ≥ it, rows", "µs per row")
    pgi2 = comparison.pgi2
    for name, values in pgi2.items():
        seconds = comparison.seconds.get(name)
        table.add_row(
            name,
            f"{values.mean():.1f}",
            f"{values.std(ddof=1) / np.sqrt(len(values)):.1f}",
            f"{values.mean() / pgi2['greedy'].mean():.0%}",
            "" if name == "greedy" else comparison.wins(name),
            "" if seconds is None else f"{seconds * 1e6:.0f}",
        )
    table.caption = (
        "Greedy is built to raise PGI², though it need not win every row; TreeSHAP answers another question, "
        "how the prediction is shared out. "
        f"s.e.: standard error over rows. gain: XGBoost's own, one order for all rows. random: mean of "
        f"{_RANDOM_ORDERS} orders per row. µs: one thread, median of {_RUNS} runs, to rank only."
    )
    table.caption_justify = "left"
    return table


def _places_table(comparison: Comparison) -> Table:
    table = _table("Mean place of each feature (1 is the most important)", "feature", *comparison.rankings)
    means = {name: ranking.ranks.mean(axis=0) for name, ranking in comparison.rankings.items()}
    for j in np.argsort(means["greedy"], kind="stable"):
        table.add_row(_FEATURES[j], *(f"{mean[j]:.1f}" for mean in means.values()))
    return table


def _agreement_table(comparison: Comparison) -> Table:
    others = [name for name in comparison.rankings if name != "greedy"]
    title = "Rows that agree with greedy"
    table = _table(title, "the most important", *others)
    for k in (1, 2, 3):
        shares = (comparison.rankings["greedy"].agreement(comparison.rankings[name], k) for name in others)
        table.add_row(
            "feature" if k == 1 else f"{k} features, in any order", *(f"{share:.0%}" for share in shares)
        )
    return table


def _print_row(console: Console, comparison: Comparison) -> None:
    row = comparison.most_different()
    table = _table(
        f"One row, the one where they differ most (test row {row})",
        "place",
        "greedy takes",
        "gap so far",
        "TreeSHAP takes",
        "gap so far",
    )
    sides = [
        (comparison.rankings[name].top(len(_FEATURES))[row], comparison.curves[name][row])
        for name in ("greedy", "TreeSHAP")
    ]
    for k in range(len(_FEATURES)):
        cells = [cell for features, curve in sides for cell in (features[k], f"{curve[k]:.1f}")]
        table.add_row(str(k + 1), *cells)
    console.print(table)
    console.print()


# ---- picture -------------------------------------------------------------------------------------


def picture(comparison: Comparison) -> Figure:
    """Four panels: mean curves, greedy against TreeSHAP by row, mean places, and one row."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with rc_context({"font.size": 10, "axes.titlesize": 12, "axes.titlelocation": "left"}):
        layout = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15, wspace=0.03, hspace=0.03)
        figure = Figure(figsize=(12.5, 10), layout=layout)
        figure.suptitle(_PICTURE_TITLE, fontsize=16, weight="bold")
        (top_left, top_right), (low_left, low_right) = figure.subplots(2, 2)
        plots.gap_curves(comparison.curves, ax=top_left)
        top_left.set_title("Gap of the first k features, mean over rows")
        pgi2 = comparison.pgi2
        plots.pgi2_against(pgi2["TreeSHAP"], pgi2["greedy"], "TreeSHAP", "greedy", ax=top_right)
        top_right.set_title(f"Greedy does no worse in {comparison.wins('TreeSHAP')} rows")
        plots.mean_places(comparison.rankings, ax=low_left)
        low_left.set_title("Mean place of each feature")
        _draw_row(comparison, low_right)
    return figure


def _draw_row(comparison: Comparison, ax: Any) -> None:
    row = comparison.most_different()
    greedy, shap = (
        (name, comparison.rankings[name][row], comparison.curves[name][row])
        for name in ("greedy", "TreeSHAP")
    )
    plots.two_ladders(greedy, shap, ax=ax)
    ax.set_title(f"Row {row}, where they differ most: greedy left, TreeSHAP right")
