"""How much the tests try: few random cases in `make test`, many in `make test-all`."""

from __future__ import annotations

import os

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
"""`ci`: `make test`, the same cases each time. `full`: `make test-all`. `quick`: while working."""

FULL = PROFILE in ("full", "thorough")


def cases(few: int, many: int) -> int:
    """How many random cases to try: few, or many in `make test-all`."""
    return many if FULL else few
