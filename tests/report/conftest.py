"""The evaluation that the tests of the page share."""

from __future__ import annotations

import pytest

from evaluations import small
from predgap.evaluation import Evaluation


@pytest.fixture(scope="session")
def evaluation() -> Evaluation:
    return small()
