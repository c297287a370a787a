"""All commands of `predgap`: each is in a module of its own, which adds it to `app`."""

from __future__ import annotations

from predgap.cli import (  # noqa: F401 (they add their commands)
    comparing,
    completion,
    gaps,
    info,
    judging,
    papers,
    rankings,
)
from predgap.cli.app import app

__all__ = ["app"]
