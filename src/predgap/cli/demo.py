"""The command `predgap demo`: is SHAP faithful to a model of the diabetes data?"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from predgap import plots
from predgap._files import atomic_write
from predgap._text import require
from predgap._typing import FloatArray
from predgap.cli.app import OutputConsole, app
from predgap.evaluation import Evaluation, evaluate
from predgap.explainer import Explainer
from predgap.noise import Relative
from predgap.report import write_report

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console


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
_RANKINGS: Final = {
    "SHAP": "shap",
    "gain": "gain",
    "greedy": "greedy",
    "random": "random",
    "optimal": "optimal",
}
_STRENGTHS: Final = (0.1, 0.3, 1.0)
_TITLE: Final = "Which ranking names first the features that move the prediction?"


@dataclass(frozen=True, slots=True)
class Trained:
    """The model and the rows to explain."""

    booster: Any
    train: FloatArray  # (n_train, d)
    rows: FloatArray  # (n, d), not seen in training
    r2: float  # on `rows`


@app.command()
def demo() -> None:
    """Train a model of the diabetes data, judge SHAP and other rankings of it; write a page and a picture."""
    run(OutputConsole(), Path("predgap-demo"))


def run(console: Console, folder: Path) -> tuple[Path, Path]:
    """Trains a model and judges rankings of its features; returns the paths of the page and the picture."""
    require("the demo", "demo")
    trained = train()
    _print_setting(console, trained)
    found = judge(trained)
    console.print(found.verdict().replace("\n", "\n\n"), markup=False)
    console.print()
    console.print(repr(found), markup=False, soft_wrap=True)
    folder.mkdir(parents=True, exist_ok=True)
    page, path = folder / "report.html", folder / "diabetes.png"
    write_report(found, page, command="predgap demo")
    image = io.BytesIO()
    picture(found).savefig(image, dpi=150)
    atomic_write(path, image.getvalue())
    console.print(f"\nPage: {page}\nPicture: {path}", markup=False, soft_wrap=True)
    return page, path


def train() -> Trained:
    """Trains an XGBoost regressor on the diabetes data of scikit-learn."""
    import xgboost
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import train_test_split

    data = load_diabetes(scaled=False)
    X, rows, y, target = train_test_split(data.data, data.target, test_size=0.25, random_state=1)
    booster = xgboost.train(_MODEL, xgboost.DMatrix(X, y, feature_names=list(_FEATURES)), _TREES)
    error = target - booster.predict(xgboost.DMatrix(rows, feature_names=list(_FEATURES)))
    r2 = 1 - float(np.mean(error**2) / np.var(target))
    return Trained(booster, X, rows, r2)


def judge(trained: Trained) -> Evaluation:
    """Scores the rankings in all rows, also at other strengths of the noise."""
    explainer = Explainer(trained.booster, Relative(trained.train, _NOISE))
    return evaluate(explainer, trained.rows, _RANKINGS, strengths=_STRENGTHS)


def _print_setting(console: Console, trained: Trained) -> None:
    console.print(
        f"Diabetes data: {len(trained.train)} rows to train on, {len(trained.rows)} to explain, "
        f"{trained.rows.shape[1]} features.\n"
        f"Model: XGBoost, {_TREES} trees of depth {_MODEL['max_depth']}, R² {trained.r2:.2f} on new rows.\n"
        f"Noise: each feature moves by {_NOISE} of its standard deviation, to values that\n"
        "it can take (age in whole years; sex is drawn anew now and then).\n",
        soft_wrap=True,
    )


def picture(found: Evaluation) -> Figure:
    """Four panels: scores, mean curves, and a row as greedy and as SHAP order its features."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with rc_context({"font.size": 10, "axes.titlesize": 12, "axes.titlelocation": "left"}):
        layout = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15, wspace=0.03, hspace=0.03)
        figure = Figure(figsize=(12.5, 10), layout=layout)
        figure.suptitle(_TITLE, fontsize=16, weight="bold")
        (scores, lines), below = figure.subplots(2, 2)
        found.plot(ax=scores)
        scores.set_title("Mean score, and how far it is from random to best")
        noise, curves = str(found.description["noise"]), dict(zip(found.names, found.curves, strict=True))
        plots.gap_curves(
            {name: curves[name] for name in ("SHAP", "gain", "greedy")},
            random=curves["random"],
            best=found.best_curve,
            noise=noise,
            ax=lines,
        )
        lines.set_title("Gap of the first k features, mean over rows")
        row = most_different(found)
        for name, ax in zip(("greedy", "SHAP"), below, strict=True):
            plots.ladder(
                found.rankings[name], row, curve=curves[name], values=found.table, noise=noise, ax=ax
            )
            ax.set_title(f"Row {row}, where they differ most, by {name}")
    return figure


def most_different(found: Evaluation) -> int:
    """The row in which SHAP is furthest behind greedy."""
    pgi2 = dict(zip(found.names, found.scores["pgi2"], strict=True))
    return int(np.argmax(pgi2["greedy"] - pgi2["SHAP"]))
