"""Fixtures and settings shared by all tests."""

from __future__ import annotations

import os
import signal
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:  # before a library asks: threads of several processes wait for cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

from effort import PROFILE

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell has its background jobs ignore Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("ci", max_examples=40, derandomize=True, print_blob=True, **_COMMON)  # make test
settings.register_profile("full", max_examples=300, print_blob=True, **_COMMON)  # make test-all
settings.register_profile("quick", max_examples=15, **_COMMON)
settings.register_profile("thorough", max_examples=1000, print_blob=True, **_COMMON)
settings.load_profile(PROFILE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The paper's slow checks come last: what else is broken is known sooner."""
    items.sort(key=lambda item: item.get_closest_marker("slow_paper") is not None)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with the paper's models and splits; they are not part of the repository."""
    here = Path(__file__).resolve().parent
    folder = Path(os.environ.get("PREDGAP_SHARED_DATA", here.parent / "shared" / "data"))
    if not (folder / "models").is_dir():
        pytest.skip(f"no models in {folder}; set PREDGAP_SHARED_DATA to the folder that has them")
    return folder
