"""The verdict of a migration: no kernel goes to other numbers without a sign, and a proof is one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nki.cli import main
from nki.migrate.migration import migrated
from nki.migrate.runs.run_comparison import Call, compared, launched, loaded
from nki.workload.arguments import parse
from tests.migrate.kernel_files import alone, names

KERNELS = Path(__file__).parent / "risky_kernels.py"
LEFT = {"whole_division": "does not run", "backward_rows": "does not run", "rows_below_a_mask": "does not run"}
"""Kernels that no rule carries over, and what is said of them."""
ROUNDED = {"mask_that_clips"}
"""Kernels that divide, for which today's kernels multiply with the reciprocal."""


def arguments(name: str, seed: int) -> tuple[np.ndarray, ...]:
    shapes = ["128x64:float32", "128:float32"] if name == "column_and_row" else ["128x64:float32"]
    return tuple(parse(text)[1].array(seed, index) for index, text in enumerate(shapes))


@pytest.mark.parametrize("name", names(KERNELS))
def test_no_kernel_goes_to_other_numbers_without_a_sign(name: str, tmp_path: Path) -> None:
    old = alone(KERNELS, name)
    result = migrated(tmp_path / "kernel.py", old, [Call(name, arguments(name, 0))], name)
    text = result.outcomes[0].text
    if name in LEFT:
        assert not result.done
        assert LEFT[name] in text
        assert "# TODO(nki-migrate)" in result.new
        return
    assert result.done, (text, result.left, result.notes, result.new)
    assert text.startswith("largest difference" if name in ROUNDED else "same bits")
    call = Call(name, arguments(name, 1))  # other numbers than the verdict's
    with loaded(tmp_path / "before.py", old, tmp_path) as module:
        before = launched(module, call, new=False)
    with loaded(tmp_path / "after.py", result.new, tmp_path, beta1=False) as module:
        assert compared(call, before, launched(module, call, new=True)).same


def test_results_of_another_dtype_are_no_success() -> None:
    call = Call("k", ())
    outcome = compared(call, [np.ones(3, np.float32)], [np.ones(3, np.float16)])
    assert not outcome.same
    assert outcome.text == "a result of dtype float16 in place of float32"


@pytest.mark.parametrize("number", [0.0, np.nan, np.inf])
def test_numbers_that_tell_nothing_prove_nothing(number: float) -> None:
    outcome = compared(Call("k", ()), [np.full(3, number)], [np.full(3, number)])
    assert not outcome.same
    assert "tell nothing" in outcome.text


TWO = """\
import logging

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

logging.disable(logging.OFF)


@nki.jit
def doubled(x, wide=False):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    if wide:
        t = nl.exp(t)
    nl.store(out, value=t * 2.0)
    return out


@nki.jit
def added(x, y):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=nl.load(x) + nl.load(y))
    return out
"""


def test_a_file_whose_kernels_are_all_compared_ends_with_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "two.py"
    file.write_text(
        f"{TWO}\n\ndef test_them():\n    import numpy as np\n\n    a = np.ones((128, 64), np.float32)\n"
        "    doubled(a)\n    doubled(a, wide=True)\n    added(a, a)\n"
    )
    assert main(["migrate", str(file)]) == 0
    error = capsys.readouterr().err
    assert "not compared" not in error
    assert "did not run" not in error


def test_arguments_go_to_the_kernels_that_take_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "two.py"
    file.write_text(TWO)
    argument = ["--arg", "128x64:float32"]
    assert main(["migrate", str(file), *argument, *argument]) == 1
    output = capsys.readouterr()
    assert "added: same bits" in output.err
    assert "not compared: doubled" in output.err  # `wide` is no tensor
    assert "logging.disable(logging.CRITICAL)" in output.out
    assert main(["migrate", str(file), *argument]) == 1
    error = capsys.readouterr().err
    assert "doubled: same bits" in error
    assert "not compared: added" in error
    assert "line 14 of the old file did not run with these arguments" in error
    assert main(["migrate", str(file), *argument * 4]) == 2
    assert "no kernel of" in capsys.readouterr().err


def test_kernels_that_a_neighbour_has_are_named(tmp_path: Path) -> None:
    head = "import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\n"
    part = "\n\ndef part(x):\n    i_p = nl.arange(128)[:, None]\n    return nl.load(x[i_p, nl.arange(64)[None, :]])\n"
    (tmp_path / "older_part.py").write_text(head + part)
    kernel = (
        "from older_part import part\n\n\n@nki.jit\ndef kernel(x):\n"
        "    out = nl.ndarray((nl.par_dim(128), 64), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, part(x))\n    return out\n"
    )
    result = migrated(tmp_path / "kernel.py", head + kernel, [Call("kernel", (np.ones((128, 64), np.float32),))])
    assert not result.done
    assert result.outcomes[0].text.endswith("; it imports older_part.py, of Beta 1: migrate that as well")
