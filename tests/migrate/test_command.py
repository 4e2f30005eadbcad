"""``nki migrate`` as users call it: what it prints and writes, its exit code, what it cannot carry over."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki.cli import main
from tests.support.fresh_process import finished

TILE = '''\
"""A kernel."""

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def doubled(x):
    i_p, i_f = nl.mgrid[0:128, 0:256]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out[i_p, i_f], value=nl.load(x[i_p, i_f]) * 2.0)  # twice
    return out
'''
ARGUMENT = ["--arg", "128x256:float32"]


def written(folder: Path, source: str) -> Path:
    file = folder / "kernel.py"
    file.write_text(source)
    return file


def test_the_new_file_goes_to_the_output_and_the_result_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, TILE)
    assert main(["migrate", f"{file}:doubled", *ARGUMENT]) == 0
    output = capsys.readouterr()
    assert output.out.startswith('"""A kernel."""\n\nimport nki\nimport nki.language as nl\n')
    assert "nl.store(out[0:128, 0:256], value=nl.multiply(nl.load(x[0:128, 0:256]), 2.0))  # twice" in output.out
    assert "doubled: same bits" in output.err
    assert file.read_text() == TILE


def test_statements_of_one_line_stay_on_it_unless_one_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = "\n\ndef host():\n    a = 1; b = 2  # both\n    return a + b\n"
    kernel = TILE.replace(
        "    out = nl", "    columns = 256; rows = 128\n    n = 2; t = nl.load(x[i_p, i_f])\n    out = nl"
    )
    file = written(tmp_path, kernel + host)
    assert main(["migrate", f"{file}:doubled", *ARGUMENT]) == 0
    new = capsys.readouterr().out
    assert "    columns = 256; rows = 128\n    n = 2\n    t = nl.load(x[0:128, 0:256])\n" in new and new.endswith(host)


def test_the_difference_and_the_file_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, TILE)
    assert main(["migrate", str(file), *ARGUMENT, "--diff"]) == 0
    assert "-import neuronxcc.nki as nki\n" in capsys.readouterr().out
    assert file.read_text() == TILE
    assert main(["migrate", str(file), *ARGUMENT, "--write"]) == 0
    assert "neuronxcc" not in file.read_text()
    capsys.readouterr()
    assert main(["migrate", str(file)]) == 0
    assert "nothing to change" in capsys.readouterr().err


def test_arguments_of_the_host_code_and_of_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch = "nki.simulate_kernel(doubled, np.ones((128, 256), np.float32))"
    host = f"\n\ndef test_it():\n    import numpy as np\n\n    {launch}\n"
    file = written(tmp_path, TILE + host)
    assert main(["migrate", str(file)]) == 0
    output = capsys.readouterr()
    assert "doubled: same bits" in output.err
    assert "nki.simulate(doubled)(np.ones((128, 256), np.float32))" in output.out


def test_without_arguments_nothing_is_compared_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["migrate", str(written(tmp_path, TILE))]) == 1
    assert "not compared: no arguments are known" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("nl.store(x[i_p, i_f], 0.0, mask=i_p + i_f < 200)", "no rectangle"),
        ("t = nl.loop_reduce(nl.load(x), op=nl.add, loop_indices=[0])", "loop_reduce"),
        ("t = nl.load(x[i_p, i_f], mask=helper(i_p))", "is not known here"),
        ("t = helper(2 * i_p)", "is used as a value"),
    ],
)
def test_what_no_rule_carries_over_stays_below_a_comment(
    line: str, left: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = TILE.replace("    out = nl", f"    {line}\n    out = nl")
    source = source.replace("@nki.jit", "def helper(i):\n    return i\n\n\n@nki.jit")
    assert main(["migrate", str(written(tmp_path, source))]) == 1
    output = capsys.readouterr()
    place = output.out.split("\n").index(f"    {line}")
    above = output.out.split("\n")[place - 1]
    assert above.startswith("    # TODO(nki-migrate): ") and left in above
    assert "to do: " in output.err


def test_different_results_are_marked_and_end_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nki.language.beta1_rewriting import expressions

    monkeypatch.setitem(expressions.FUNCTION_OF, expressions.ast.Mult, "add")
    assert main(["migrate", f"{written(tmp_path, TILE)}:doubled", *ARGUMENT]) == 1
    output = capsys.readouterr()
    assert "doubled: largest difference" in output.err
    assert "# TODO(nki-migrate): largest difference" in output.out


def test_a_kernel_that_does_not_run_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, TILE)
    main(["migrate", f"{file}:doubled", "--arg", "64x256:float32"])
    assert "was not compared: it does not run as it is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.py"], "there is no file missing.py"),
        (["{file}", "--diff", "--write"], "exclude each other"),
        (["{file}", "{file}", *ARGUMENT], "--arg is about one kernel"),
    ],
)
def test_wrong_commands(words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(written(tmp_path, TILE))
    assert main(["migrate", *(word.format(file=file) for word in words)]) == 2
    assert message in capsys.readouterr().err


def test_a_file_that_is_no_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", str(written(tmp_path, "def f(:\n"))]) == 2
    assert "is not Python" in capsys.readouterr().err


def test_nothing_of_it_is_loaded_without_the_command() -> None:
    finished("import sys, nki, nki.cli; assert 'nki.migrate' not in sys.modules")
