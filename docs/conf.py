"""Sphinx: the pages in MyST Markdown, the reference from the docstrings of the public names."""

from __future__ import annotations

import re
from typing import Any

import predgap

project = "predgap"
author = "the predgap developers"
version = release = predgap.__version__
project_copyright = "2026, the predgap developers"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
default_role = "py:obj"  # `gap` in a docstring is a link where there is one
autodoc_typehints = "none"  # docstrings say more: shapes
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_param = False  # types are prose, such as "(n, d) array or frame": no links
napoleon_use_rtype = False

smartquotes = False  # x' is a perturbed row

html_theme = "furo"
html_title = f"predgap {release}"
html_show_sphinx = False


def as_prose(_app: Any, what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Docstrings are prose where Sphinx would see markup.

    |value| is an absolute value, not a substitution. A colon in what a property is does not end a type.
    """
    in_example = False
    for at, line in enumerate(lines):
        in_example = line.lstrip().startswith(">>>") or (in_example and line.strip() != "")
        if not in_example:
            lines[at] = line.replace("|", r"\|")
            if what == "property":
                lines[at] = lines[at].replace(": ", "; ")


def without_private(
    _app: Any, _what: str, _name: str, _obj: Any, _options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Arguments with an underscore are not for users."""
    return re.sub(r", _\w+=[^,)]*", "", signature) if signature else signature, returns


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", as_prose, priority=100)  # before napoleon
    app.connect("autodoc-process-signature", without_private)
