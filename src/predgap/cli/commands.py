"""All commands of `predgap`: each is in a module of its own, which adds it to `app`."""

from __future__ import annotations

from predgap.cli import (  # noqa: F401 (they add their commands)
    comparing,
    completion,
    demo,
    gaps,
    info,
    judging,
    rankings,
)
from predgap.cli.app import app

__all__ = ["app"]
