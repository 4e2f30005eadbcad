"""A file that changes between two commands: what runs is its text, whatever Python has kept of an older one."""

from __future__ import annotations

import os
import py_compile
import sys
from pathlib import Path

import pytest

from nki.migrate.runs.run_comparison import loaded
from nki.workload.load_kernel import code_of, imported


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that was edited so that Python takes the bytecode of its older text, as of one size and one second."""
    path = tmp_path / "edited_kernel.py"
    path.write_text("value = 1.0\n")
    py_compile.compile(str(path), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    path.write_text("value = 2.0\n")
    return path


def test_the_text_of_an_edited_file_runs(path: Path) -> None:
    with imported(path) as module:
        assert module.value == 2.0
        assert code_of(module).co_consts[0] == 2.0


def test_a_migration_runs_the_text_that_it_was_given(path: Path) -> None:
    with loaded(path, "value = 3.0\n", path.parent) as module:
        assert module.value == 3.0


def test_nothing_is_written_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "lone_kernel.py"
    path.write_text("value = 1.0\n")
    with imported(path):
        assert os.listdir(tmp_path) == ["lone_kernel.py"]
