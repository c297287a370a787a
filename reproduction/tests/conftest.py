"""The authors' models, and tables that several files of tests look at: computed once."""

from __future__ import annotations

from pathlib import Path

import pytest

from reproduction.experiments import agreement, pgi
from reproduction.models import Subject, authors_subjects
from reproduction.results import Result


@pytest.fixture(scope="session")
def all_authors(shared_data: Path) -> tuple[Subject, ...]:
    return authors_subjects(shared_data)


@pytest.fixture(scope="session")
def table_2(all_authors: tuple[Subject, ...]) -> Result:
    """Agreement with SHAP."""
    return agreement.run(agreement.Config(), all_authors)


@pytest.fixture(scope="session")
def table_3(all_authors: tuple[Subject, ...]) -> Result:
    """PGI²."""
    return pgi.run(pgi.Config(n_resamples=100), all_authors)
