"""The kernels by themselves, against their definition, in an executable without Python."""

from __future__ import annotations

import pytest

import native_tests


def test_kernels_compute_what_is_defined() -> None:
    if reason := native_tests.missing():
        pytest.skip(reason)
    done = native_tests.run(native_tests.build(native_tests.ROOT, native_tests.BUILD / "tests"))
    assert done.returncode == 0, done.stdout[-20000:]
    assert "Status: SUCCESS!" in done.stdout
