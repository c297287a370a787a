"""Fixtures and settings shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("ci", max_examples=100, derandomize=True, print_blob=True, **_COMMON)
settings.register_profile("quick", max_examples=15, **_COMMON)
settings.register_profile("thorough", max_examples=1000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with the paper's models and splits; they are not part of the repository."""
    here = Path(__file__).resolve().parents[1]
    folder = Path(os.environ.get("PREDGAP_SHARED_DATA", here.parent / "shared" / "data"))
    if not (folder / "models").is_dir():
        pytest.skip(f"no models in {folder}; set PREDGAP_SHARED_DATA to the folder that has them")
    return folder
