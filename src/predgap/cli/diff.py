"""Adds the command `predgap diff`: what changed between two models?"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from predgap import CostError, Ensemble, Explainer, TableError, plots
from predgap._files import atomic_write
from predgap._inputs.outputs import Outputs
from predgap._tables import text_table
from predgap._text import count, format_items, printable
from predgap._typing import BoolArray, FloatArray, IndexArray
from predgap.cli.app import app
from predgap.cli.explainers import CommandRequest, OpenedCommand, opened
from predgap.cli.options import (
    checked_target,
    chosen_format,
    format_option,
    json_option,
    perturbing,
    reading_models,
)
from predgap.cli.tables import json_text, writing
from predgap.errors import DependencyError
from predgap.loaders import ModelFile
from predgap.loaders.differences import Pair, paired

_PICTURES: Final = (".png", ".svg", ".pdf")
_DRIVERS: Final = 3  # features that are named for a row


def _picture(context: click.Context, parameter: click.Parameter, value: str | None) -> Path | None:
    path = checked_target(context, parameter, value)
    if value is not None and (path is None or path.suffix.lower() not in _PICTURES):
        raise click.BadParameter(f"{value!r}; expected a file that ends in {', '.join(_PICTURES)}")
    return path


def _table_file(context: click.Context, parameter: click.Parameter, value: str | None) -> Path | str | None:
    return value if value in (None, "-") else checked_target(context, parameter, value)


@app.command()
@reading_models("old", "new")
@perturbing
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="K",
    help="How many features and rows to show.",
)
@click.option(
    "--plot",
    callback=_picture,
    metavar="FILE",
    help="Draw the differences, and the features that move them: .png, .svg or .pdf.",
)
@click.option(
    "-o",
    "--out",
    callback=_table_file,
    metavar="FILE",
    help="Write a table with a line for each row of DATA; with - to standard output, and nothing else.",
)
@format_option
@json_option
def diff(
    old: ModelFile,
    new: ModelFile,
    top: int,
    plot: Path | None,
    out: Path | str | None,
    form: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Show what changed between two models: how far are their predictions apart, and why?

    Differences are NEW minus OLD, of raw predictions. Under noise, all features of a row move, and the
    expected squared difference is that of the two predictions of the moved row. A feature drives the
    difference as far as the difference moves when this feature alone does. The table of -o has row, old, new,
    difference, expected_square and driver, the feature that moves the row's difference most. A column that
    only one of the models has is needed in DATA, too.

    \b
    Examples:
      predgap diff model.txt newer.txt rows.csv --reference train.csv
      predgap diff model.txt newer.txt rows.csv --top 3 --plot changes.png -o changes.csv
    """
    if asked["output"] == "predicted":
        told = "--output predicted: the models may predict different classes; name one"
        raise click.UsageError(told, click.get_current_context())
    target = out if isinstance(out, Path) else None
    form = chosen_format(target, form, False) if out is not None else None
    pair = paired(new, old, ("NEW", "OLD"))
    with opened(CommandRequest(model=new, **asked), "rows", ensemble=pair.difference) as job:
        found = changes(job, pair, _position(pair.difference, job.explainer.output))
        if plot is not None:
            _draw(found, job, plot)
        if form is not None:
            table = found.as_table()
            with writing(target, form, table.schema) as write:
                write(table)
        if out is not None and target is None:
            return
        facts = _facts(found, pair, job, top)
    click.echo(json_text(facts) if as_json else "\n".join(_lines(facts)))


def _position(difference: Ensemble, output: int | str | None) -> int | None:
    known = Outputs(difference.n_outputs, difference.class_names)
    return None if output is None else known.position(output)


def _facts(found: Changes, pair: Pair, job: OpenedCommand, top: int) -> dict[str, Any]:
    """All that is shown, as JSON takes it."""
    size = np.abs(found.difference)
    overall, in_changed = found.shares
    mean = found.gaps.mean(axis=0)
    return {
        "trees": {
            "old": pair.second.n_trees,
            "new": pair.first.n_trees,
            "common": pair.n_common,
        },
        "only_in": {
            name: list(other) for name, other in zip(("old", "new"), pair.lacking, strict=True)
        },  # NEW comes first in the pair: what it lacks is only in OLD
        "rows": len(size),
        "mean": float(found.difference.mean()),
        "rms": float(np.sqrt(np.mean(size**2))),
        "largest": float(size.max()),
        "rms_under_noise": float(np.sqrt(found.expected.mean())),
        "noise": repr(job.explainer.noise),
        "obtained": sorted(found.methods),
        "rows_that_changed_most": int(found.changed.sum()),
        "features": [
            {
                "feature": found.names[j],
                "mean_gap": float(mean[j]),
                "share": float(overall[j]),
                "share_in_rows_that_changed_most": float(in_changed[j]),
            }
            for j in np.argsort(-mean, kind="stable")[:top]
            if mean[j] > 0
        ],
        "largest_rows": [_row_facts(found, row) for row in found.largest(top).tolist()],
    }


def _row_facts(found: Changes, row: int) -> dict[str, Any]:
    both = () if found.predictions is None else found.predictions[row].tolist()
    return {
        "row": found.labels[row].as_py(),
        **dict(zip(("old", "new"), both, strict=False)),
        "difference": float(found.difference[row]),
        "expected_square": float(found.expected[row]),
        "drivers": found.drivers(row, _DRIVERS),
    }


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    """The facts for people."""
    trees, n_changed = facts["trees"], facts["rows_that_changed_most"]
    yield f"trees        {trees['old']} in OLD, {trees['new']} in NEW; {trees['common']} are the same in both"
    for name, features in facts["only_in"].items():
        if features:
            yield f"features     only in {name.upper()}: {format_items(features)}"
    yield (
        f"difference   NEW - OLD in {count(facts['rows'], 'row')}: mean {facts['mean']:.4g}, "
        f"root mean square {facts['rms']:.4g}, largest {facts['largest']:.4g} "
        "(raw predictions, before any link)"
    )
    yield (
        f"under noise  root of the expected square {facts['rms_under_noise']:.4g} "
        f"({', '.join(facts['obtained'])}); {printable(facts['noise'])}"
    )
    if not facts["features"]:
        yield "features     no feature moves the difference"
    else:
        yield ""
        rows = [[f["feature"], *(_percent(f[name]) for name in _SHARES)] for f in facts["features"]]
        most = (
            f"in the {n_changed} rows that changed most" if n_changed > 1 else "in the row that changed most"
        )
        yield text_table(["what moves the difference", "share", most], rows)
    if facts["largest_rows"]:
        yield ""
        numbers = [name for name in ("old", "new", "difference") if name in facts["largest_rows"][0]]
        rows = [
            [str(r["row"]), *(r[name] for name in numbers), *[*r["drivers"], "", ""][:2]]
            for r in facts["largest_rows"]
        ]
        yield text_table(["row", *numbers, "moved most by", "then by"], rows)


_SHARES: Final = ("share", "share_in_rows_that_changed_most")


def _percent(share: float) -> str:
    return "-" if np.isnan(share) else f"{100 * share:.1f} %"


def _draw(found: Changes, job: OpenedCommand, path: Path) -> None:
    """Two panels: the differences of all rows, and the features that move them."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise DependencyError("--plot needs matplotlib; try: pip install matplotlib") from None
    ending = path.suffix.lower().removeprefix(".")
    with rc_context({"svg.hashsalt": "predgap", "axes.titlelocation": "left"}):
        figure = Figure(figsize=(11, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        plots.differences(found.difference, expected=found.expected, noise=job.explainer.noise, ax=left)
        left.set_title("How far NEW is from OLD")
        plots.drivers(found.gaps, found.names, changed=found.changed, noise=job.explainer.noise, ax=right)
        right.set_title("What moves the difference")
        image = io.BytesIO()
        undated = {} if ending == "png" else {"CreationDate" if ending == "pdf" else "Date": None}
        figure.savefig(image, format=ending, dpi=150, metadata=undated)
    atomic_write(path, image.getvalue())


# ------------------------------------------------------------------------------------------------------------
# These are the changes between two models in the rows of a table.

_CHANGED: Final = 0.1  # the share of rows that "changed most"


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """The differences of all rows, and what moves them. With several outputs, |difference| over these."""

    labels: pa.Array  # (n,)
    predictions: FloatArray | None  # (n, 2) of OLD and NEW; None for several outputs
    difference: FloatArray  # (n,) NEW − OLD; for several outputs the root of the sum of squares
    expected: FloatArray  # (n,) expected squared difference when all features are perturbed
    gaps: FloatArray  # (n, d) how far each feature alone moves the difference
    names: tuple[str, ...]  # (d,) of features and groups
    methods: frozenset[str]  # how `expected` was obtained

    @property
    def changed(self) -> BoolArray:
        """True for the rows that changed most: a tenth of all, but none that did not change."""
        found = np.zeros(len(self.difference), dtype=np.bool_)
        found[self.largest(ceil(_CHANGED * len(found)))] = True
        return found

    def largest(self, n: int) -> IndexArray:
        """The rows with the largest differences, largest first, without those that have none."""
        order: IndexArray = np.argsort(-np.abs(self.difference), kind="stable")[:n]
        return order[: np.count_nonzero(self.difference[order])]

    @property
    def shares(self) -> tuple[FloatArray, FloatArray]:
        """The share of each feature in the gaps of single features, (d,): in all rows, in those that changed
        most. NaN if there are no such rows, or nothing moves the difference."""
        return _shares(self.gaps), _shares(self.gaps[self.changed])

    def drivers(self, row: int, n: int) -> list[str]:
        """The features that move the difference of a row most, each by itself; at most n, and none that does
        not move it."""
        order = np.argsort(-self.gaps[row], kind="stable")[:n]
        return [self.names[j] for j in order if self.gaps[row, j] > 0]

    def as_table(self) -> pa.Table:
        """A row for each row."""
        both = np.empty((0, 0)) if self.predictions is None else np.ascontiguousarray(self.predictions.T)
        old_and_new = dict(zip(("old", "new"), both, strict=False))
        drivers = [next(iter(self.drivers(row, 1)), None) for row in range(len(self.difference))]
        return pa.table(
            {
                "row": self.labels,
                **old_and_new,
                "difference": self.difference,
                "expected_square": self.expected,
                "driver": pa.array(drivers, pa.string()),
            }
        )


def changes(job: OpenedCommand, pair: Pair, output: int | None) -> Changes:
    """Computes what changed in all rows of a job, whose explainer is that of the difference NEW − OLD."""
    models = [pair.first, pair.second, pair.difference]
    if (names := job.explainer.ensemble.feature_names) is not None:  # a model may have none of its own
        models = [e.named(names) for e in models]
    new, old, difference = (e if output is None else e.select(output) for e in models)
    blocks = list(job.answers(lambda X: _asked(job.explainer, X, (old, new, difference))))
    if not blocks:
        raise TableError(f"{job.table.name} has no rows")
    found = [answer for _, answer in blocks]
    joined = {name: np.concatenate([each[name] for each in found]) for name in ("both", "d", "square", "gap")}
    one = difference.n_outputs == 1
    return Changes(
        labels=pa.concat_arrays([labels for labels, _ in blocks]),
        predictions=joined["both"] if one else None,
        difference=joined["d"] if one else np.sqrt((joined["d"] ** 2).sum(axis=1)),
        expected=joined["square"],
        gaps=joined["gap"],
        names=found[0]["names"],
        methods=frozenset(method for each in found for method in each["methods"]),
    )


def _asked(explainer: Explainer, X: pa.Table, models: tuple[Ensemble, ...]) -> dict[str, Any]:
    old, new, d = (model.predict(X) for model in models)
    single = explainer.rank(X, "single")
    square, methods = _expected_squares(explainer, X, d, len(single.names))
    return {
        "both": np.stack([old, new], axis=-1),
        "d": d,
        "square": square,
        "gap": single.scores,
        "names": single.names,
        "methods": {*methods.tolist()},
    }


def _expected_squares(
    explainer: Explainer, X: pa.Table, d: FloatArray, n_units: int
) -> tuple[FloatArray, NDArray[Any]]:
    """The expected squared difference of each row, (n,), summed over outputs, and how it was obtained."""
    n = len(d)
    try:
        found = explainer.moments(X)
    except CostError:
        everything = np.ones(n_units, dtype=np.bool_)
        gap = explainer.approximate().gap(X, everything)
        mean = explainer.expected_prediction(X, everything)
        squares: FloatArray = (d * (2 * mean - d)).reshape(n, -1).sum(axis=1) + gap.value
        return np.maximum(squares, 0.0), gap.method
    return (found.mean**2 + found.variance).reshape(n, -1).sum(axis=1), found.method


def _shares(gaps: FloatArray) -> FloatArray:
    mean = gaps.mean(axis=0) if len(gaps) else np.zeros(gaps.shape[1])
    total = float(mean.sum())
    return mean / total if total > 0 else np.full(len(mean), np.nan)
