"""Kernels that kernels call lose their decorator, and host code that calls them goes on to run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nki.cli import main

FILE = """\
import unittest

import numpy as np

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


{decorator}
def my_kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a) * 2.0)
    return out


@nki.jit
def top(a):
    b = my_kernel(a)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(b) + 1.0)
    return out


class TestKernels(unittest.TestCase):
    def test_it(self):
        x = np.ones((8, 16), np.float32)
        assert np.all(my_kernel(x) == 2)


def chosen(double):
    return my_kernel if double else top


if __name__ == "__main__":
    x = np.arange(128, dtype=np.float32).reshape(8, 16)
    assert np.array_equal(top(x), 2 * x + 1)
    {host}
"""
HOSTS = {
    "a = my_kernel(x)": "a = nki.jit(my_kernel)(x)",
    "kernel_decorated = my_kernel; a = kernel_decorated(x)": "kernel_decorated = nki.jit(my_kernel)",
    "a = chosen(True)(x)": "return nki.jit(my_kernel) if double else top",
    "a = nki.simulate_kernel(my_kernel, x)": "a = nki.simulate(nki.jit(my_kernel))(x)",
    "a = [kernel(x) for kernel in (my_kernel, top)][0]": "for kernel in (nki.jit(my_kernel), top)",
    'a = {"double": my_kernel}["double"](x)': '{"double": nki.jit(my_kernel)}',
    "a = (lambda: my_kernel)()(x)": "a = (lambda: nki.jit(my_kernel))()(x)",
    "a = list(map(my_kernel, [x]))[0]": "a = list(map(nki.jit(my_kernel), [x]))[0]",
}


def file_of(folder: Path, decorator: str, *host: str) -> Path:
    path = folder / "kernels.py"
    lines = [line for one in host for line in (one, "assert np.array_equal(a, 2 * x)")]
    path.write_text(FILE.format(decorator=decorator, host="\n    ".join(lines)))
    return path


@pytest.mark.parametrize("decorator", ['@nki.jit(mode="trace")', "@nki.trace", "@nki.jit"])
def test_the_host_applies_the_decorator(decorator: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(tmp_path, decorator, *HOSTS)
    assert main(["migrate", str(path)]) == 0
    output = capsys.readouterr()
    assert [new for new in HOSTS.values() if new not in output.out] == []
    assert "\n\n\ndef my_kernel(a):" in output.out and "@nki.jit\ndef top(a):" in output.out
    assert "nki.jit(my_kernel)(x) == 2" in output.out
    assert "top: same bits" in output.err
    path.write_text(output.out)
    for words in ([str(path)], ["-m", "unittest", "kernels"]):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_a_call_that_makes_the_kernel_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(tmp_path, "@nki.jit", "a = nki.jit(my_kernel)(x)")
    assert main(["migrate", str(path)]) == 0
    assert "    a = nki.jit(my_kernel)(x)\n" in capsys.readouterr().out


def test_one_that_no_kernel_of_the_file_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = FILE.replace("b = my_kernel(a)", "b = a").replace("2 * x + 1", "x + 1")
    path = tmp_path / "kernels.py"
    path.write_text(alone.format(decorator='@nki.jit(mode="trace")', host="my_kernel(x)"))
    assert main(["migrate", str(path)]) == 0
    assert "@nki.jit\ndef my_kernel(a):" in capsys.readouterr().out
    path.write_text("import neuronxcc.nki as nki\n\n\n@nki.jit(mode='trace')\ndef part(tile):\n    return tile\n")
    main(["migrate", str(path)])
    assert capsys.readouterr().out == "import nki\n\n\ndef part(tile):\n    return tile\n"


def test_a_program_that_fails_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(tmp_path, "@nki.jit", "a = my_kernel(x)")
    path.write_text(path.read_text() + "    import sys\n    assert 'neuronxcc' in sys.modules, 'gone'\n")
    assert main(["migrate", str(path)]) == 1
    output = capsys.readouterr()
    assert "__main__: the new file fails as a program: AssertionError: gone" in output.err
    assert "same bits" not in output.err
    mark = "# TODO(nki-migrate): the new file fails as a program: AssertionError: gone\nif __name__"
    assert mark in output.out


def test_an_error_of_ours_is_named_by_its_first_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(tmp_path, "@nki.jit", "a = globals()['my_' + 'kernel'](x)")
    assert main(["migrate", str(path)]) == 1
    assert "fails as a program: nki.base.errors.OutsideKernelError: [NKI-KN001]" in capsys.readouterr().err


def test_a_program_that_fails_as_it_is_proves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(tmp_path, "@nki.jit", "a = my_kernel(x)")
    path.write_text(path.read_text() + "    import torch_that_nobody_has\n")
    assert main(["migrate", str(path)]) == 0
    assert "top: same bits" in capsys.readouterr().err
