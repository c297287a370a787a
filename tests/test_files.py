"""Files that are written whole, beside which nothing else is touched."""

from __future__ import annotations

import os
import threading

import pytest

from predgap._files import atomic_write


def test_a_link_under_the_name_of_a_temporary_file_is_not_followed(tmp_path):
    """Names must not be foretold: process and thread are known to everybody."""
    victim, planted = tmp_path / "victim", tmp_path / f".model.{os.getpid()}.{threading.get_ident()}.tmp"
    victim.write_text("precious")
    planted.symlink_to(victim)
    atomic_write(tmp_path / "model", b"new")
    assert victim.read_text() == "precious"
    assert (tmp_path / "model").read_bytes() == b"new"
    assert {*tmp_path.iterdir()} == {victim, planted, tmp_path / "model"}


def test_a_guessed_name_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("secrets.token_hex", lambda n: "guessed")
    victim, planted = tmp_path / "victim", tmp_path / ".model.guessed.tmp"
    victim.write_text("precious")
    planted.symlink_to(victim)
    with pytest.raises(FileExistsError):
        atomic_write(tmp_path / "model", b"new")
    assert victim.read_text() == "precious"
    assert {*tmp_path.iterdir()} == {victim, planted}
