"""The file of kernels, and the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import KERNELS, Ran


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file of kernels in the present folder, and a module beside it."""
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "beside.py").write_text("TWO = 2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NKI_SIMULATOR", raising=False)
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    return "kernels.py"


@pytest.fixture
def nki(capsys: pytest.CaptureFixture[str]):
    return lambda *arguments: Ran(capsys, *arguments)
