"""`write_report`: an Evaluation as one HTML file."""

from __future__ import annotations

import base64
import hashlib
import math
import os
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from predgap._files import atomic_write
from predgap._text import printable, require
from predgap.report import _content as content
from predgap.report._content import column, disputing, embedded, name, number

if TYPE_CHECKING:
    from predgap.evaluation import Evaluation


def write_report(
    evaluation: Evaluation,
    path: str | os.PathLike[str],
    *,
    command: str | None = None,
    title: str | None = None,
) -> Path:
    """Writes an evaluation as a page: one HTML file that loads nothing and opens in any browser.

    The page has the verdict, what was examined, the scores of the rankings between random and best, their
    curves, the rows in which they disagree most, how the scores depend on the strength of the noise, the
    features, and how every number was obtained. It is at most 3 MB for 1,000 rows. The same evaluation gives
    the same bytes.

    Parameters
    ----------
    evaluation : Evaluation
        What `predgap.evaluate` returned.
    path : path
        Where to write. A file that is there is replaced, at once and only when the page is complete.
    command : str, or None, default=None
        How to run it again, shown on the page.
    title : str, or None, default=None
        The title of the page. None: a question that names the rankings.

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    DependencyError
        If jinja2 is not installed.
    OSError
        If the file cannot be written.
    """
    require("a report", "report")
    to = Path(path)
    atomic_write(to, html(evaluation, command, title).encode())
    return to


def html(evaluation: Evaluation, command: str | None = None, title: str | None = None) -> str:
    """The page as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("predgap.report", ""),
        autoescape=True,
        finalize=lambda item: printable(item) if type(item) is str else item,  # a subclass is finished HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    parts = {key: _read(*names) for key, names in _PARTS.items()}
    return environment.get_template("page.html.j2").render(
        **{key: Markup(text) for key, text in parts.items()},  # our own files, not data
        **{f"{key}_hash": _hash(text) for key, text in parts.items()},
        data=Markup(embedded(evaluation)),  # has no character that could end the element
        command=command,
        title=title or _title(evaluation),
        **_context(evaluation),
    )


_PAIRED_RANKINGS: Final = 20  # with more, pairs of rankings are not shown
_PARTS: Final = {"style": ("page.css",), "script": ("charts.js", "page.js")}


def _read(*names: str) -> str:
    folder = files("predgap.report")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def _hash(text: str) -> str:
    """The hash by which a page that allows only its own style and script names them."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _title(evaluation: Evaluation) -> str:
    names = [name(text) for text in evaluation.names]
    if len(names) > 4:
        return f"Are these {len(names)} feature rankings faithful to the model?"
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"Feature rankings by {listed}: are they faithful to the model?"


def _context(evaluation: Evaluation) -> dict[str, Any]:
    about = evaluation.description
    noise_header, noise_rows, n_noise_more = content.noise_table(about.get("noise_table"))
    shown, more, n_unlisted = content.features(evaluation)
    curve_places, curve_rows = content.curve_table(evaluation)
    m = len(evaluation.names)
    n_unpaired = m if m > _PAIRED_RANKINGS else 0
    strengths, sweep_rows = content.sweep_table(evaluation)
    return {
        "evaluation": evaluation,
        "version": about["version"],
        "names": [name(text) for text in evaluation.names],
        "n_disputing": sum(i < len(evaluation.names) for i in disputing(evaluation)),
        "n_rows": evaluation.scores["pgi2"].shape[1],
        "verdict": evaluation.verdict().split("\n"),
        "facts": content.facts(about),
        "noise_text": about["noise"],
        "noise_header": noise_header,
        "noise_rows": noise_rows,
        "n_noise_more": n_noise_more,
        "board": content.leaderboard(evaluation),
        "all_proven": bool(evaluation.best_is_proven.all()),
        "has_pgu2": "pgu2" in evaluation.scores,
        "differences": [] if n_unpaired else _differences(evaluation),
        "n_unpaired": n_unpaired,
        "curve_places": curve_places,
        "curve_rows": curve_rows,
        "agreement": [] if n_unpaired else content.matrix(evaluation.agreement),
        "correlation": [] if n_unpaired else content.matrix(evaluation.correlation),
        "strengths": strengths,
        "sweep_rows": sweep_rows,
        "shown": shown,
        "more": more,
        "n_unlisted": n_unlisted,
        "obtained": content.obtained(evaluation),
        "notes": evaluation.notes,
    }


def _differences(evaluation: Evaluation) -> list[tuple[str, str, str]]:
    found = list(evaluation.differences)
    means = column([row.mean for row in found])
    return [
        (f"{name(row.a)} − {name(row.b)}", mean, _p(row.p)) for row, mean in zip(found, means, strict=True)
    ]


def _p(p: float) -> str:
    return "–" if math.isnan(p) else "< 0.0001" if p < 1e-4 else number(p, 2)
