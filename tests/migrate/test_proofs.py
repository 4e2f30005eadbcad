"""A migration proves what it rewrites: kernels have verdicts, and a wrong one that random numbers pass is caught."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
from nki.cli import main
from nki.language.beta1_rewriting import expressions
from nki.migrate.migration import MARK, migrated
from nki.migrate.runs.run_comparison import Call, loaded
from nki.proofs.verdict import Verdict
from tests.migrate import test_dynamic_access, test_verdict
from tests.migrate.kernel_files import alone, names
from tools import beta1_guide

CASES = sorted(beta1_guide.CASES.glob("*.py"))
NOT_FOLLOWED = {
    "mask_that_clips": "divided by 0",
    "comparison_as_number": "patterns of uint8",
    "into_one_block": "places that depend on the inputs are written",
    "into_rows": "places that depend on the inputs are written",
    "computed_block": "depends on the inputs, and is none of them",
}
"""Kernels of the corpus that no proof follows, and what the reason says."""


def _check(name: str, verdict: Verdict | None) -> None:
    assert verdict is not None
    if name in NOT_FOLLOWED:
        assert verdict.verdict == "undecided"
        assert NOT_FOLLOWED[name] in verdict.reason
    else:
        assert verdict.verdict == "equal", verdict
        assert verdict.bound <= 1e-9


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_the_kernels_of_the_guide_have_a_verdict(path: Path) -> None:
    for outcome in beta1_guide.pair(path).migration.outcomes:
        _check(path.stem, outcome.proof)


@pytest.mark.parametrize("name", [n for n in names(test_verdict.KERNELS) if n not in test_verdict.LEFT])
def test_risky_kernels_have_a_verdict(name: str, tmp_path: Path) -> None:
    source = alone(test_verdict.KERNELS, name)
    call = Call(name, test_verdict.arguments(name, 0))
    [outcome] = migrated(tmp_path / "kernel.py", source, [call], name).outcomes
    _check(name, outcome.proof)


@pytest.mark.parametrize("name", test_dynamic_access.NAMES)
def test_kernels_with_places_of_the_run_have_a_verdict(name: str, tmp_path: Path) -> None:
    [outcome] = test_dynamic_access.migration(name, tmp_path).outcomes
    _check(name, outcome.proof)


HEAD = "import neuronxcc.nki as nki\nimport neuronxcc.nki.isa as nisa\nimport neuronxcc.nki.language as nl\n\n\n"
COMPARED = """\
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    nl.store(out, value=t * (t > 2.0))
    return out
"""
TAIL = """\
@nki.jit
def kernel(x):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:32, 0:columns]
    for i in nl.affine_range(2):
        t = nl.load(x[i * 32 + i_p, i_f], mask=i * 32 + i_p < rows)
        nl.store(out[i * 32 + i_p, i_f], value=nl.exp(t), mask=i * 32 + i_p < rows)
    return out
"""


def _calls(*shape: int, scale: float = 1.0) -> list[Call]:
    return [Call("kernel", (scale * np.random.default_rng(0).standard_normal(shape, np.float32),))]


def test_another_comparison_that_random_numbers_pass_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, calls = tmp_path / "kernel.py", _calls(32, 16)
    assert migrated(file, HEAD + COMPARED, calls).done
    monkeypatch.setitem(expressions.FUNCTION_OF, ast.Gt, "greater_equal")
    result = migrated(file, HEAD + COMPARED, calls)
    [outcome] = result.outcomes
    assert outcome.same and outcome.text == "same bits"  # no random number is 2
    assert outcome.proof is not None and outcome.proof.verdict == "different"
    assert outcome.proof.witness is not None and 2.0 in outcome.proof.witness.inputs[0]
    assert not result.done
    assert f"{MARK} proved different: output 0" in result.new


def test_masked_tails_are_proved(tmp_path: Path) -> None:
    """The rows of a tile that a masked load leaves out are numbers that no result may depend on."""
    [outcome] = migrated(tmp_path / "kernel.py", HEAD + TAIL, _calls(50, 8)).outcomes
    assert outcome.proof is not None and outcome.proof.verdict == "equal"


def test_old_numbers_that_reach_a_result_are_never_proved(tmp_path: Path) -> None:
    old, new = (f"{HEAD}{TAIL.replace('rows)', '49)', 1)}" for _ in range(2))
    with loaded(tmp_path / "one.py", old, tmp_path) as one, loaded(tmp_path / "two.py", new, tmp_path) as two:
        verdict = nki.prove(one.kernel, two.kernel)(np.zeros((50, 8), np.float32))
    assert verdict.verdict == "undecided"
    assert "nothing has written" in verdict.reason


def test_a_proof_without_time_is_undecided(tmp_path: Path) -> None:
    result = migrated(tmp_path / "kernel.py", HEAD + COMPARED, _calls(32, 16), seconds=1e-9)
    [outcome] = result.outcomes
    assert outcome.proof is not None and outcome.proof.verdict == "undecided"
    assert "had not ended when its time was over (" in outcome.proof.reason
    assert "kernel_before.py:" in outcome.proof.reason
    assert result.done
    [alone_] = migrated(tmp_path / "kernel.py", HEAD + COMPARED, _calls(32, 16), seconds=0).outcomes
    assert alone_.proof is None


def test_the_report_says_what_is_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(HEAD + COMPARED)
    words = ["migrate", f"{file}:kernel", "--arg", "32x16:float32"]
    assert main(words) == 0
    told = capsys.readouterr().err
    assert "kernel: same bits\n" in told
    assert "kernel: proved equal for all inputs of these shapes, over the real numbers (probability of an error" in told
    assert main([*words, "--seconds", "1e-9"]) == 0
    assert "; compared on 1 input only" in capsys.readouterr().err
    assert main([*words, "--json"]) == 0
    [compared] = json.loads(capsys.readouterr().out)["files"][0]["comparisons"]
    assert compared["proof"]["verdict"] == "equal"
    assert main([*words, "--seconds", "-1"]) == 2
    assert "no such limit" in capsys.readouterr().err


GRID = """\
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i, j = nl.program_id(0), nl.program_id(1)
    i_p, i_f = nl.mgrid[0:32, 0:16]
    nl.store(out[i * 32 + i_p, j * 16 + i_f], value=nl.load(x[i * 32 + i_p, j * 16 + i_f]) * (i + 1.0))
    return out
"""


def test_grids_of_beta_1_are_proved_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = tmp_path / "old_grid.py", tmp_path / "new_grid.py"
    old.write_text(HEAD + GRID)
    x = np.ones((64, 48), np.float32)
    new.write_text(migrated(old, HEAD + GRID, [Call("kernel", (x,), grid=(2, 3))], "kernel").new)
    words = ["prove", f"{old}:kernel", f"{new}:kernel", "--arg", "64x48:float32", "--seed", "0"]
    assert main([*words, "--grid", "2x3"]) == 0
    assert "kernel and kernel: equal" in capsys.readouterr().out
    new.write_text(new.read_text().replace("+ 1.0", "+ 2.0"))
    assert main([*words, "--grid", "2x3"]) == 1
    assert main([*words[:1], words[2], *words[2:], "--grid", "2x3"]) == 2
    assert "neither is a kernel of Beta 1" in capsys.readouterr().err


def test_an_input_that_only_one_kernel_changes_is_a_difference() -> None:
    @nki.jit
    def changes(x: Any):
        nki.language.store(x, nki.language.load(x))
        t = nki.language.load(x)
        nki.isa.tensor_scalar(t, t, nki.language.add, 1.0)
        nki.language.store(x, t)
        out = nki.language.ndarray(x.shape, x.dtype, buffer=nki.language.shared_hbm)
        nki.language.store(out, t)
        return out

    @nki.jit
    def keeps(x: Any):
        t = nki.language.load(x)
        nki.isa.tensor_scalar(t, t, nki.language.add, 1.0)
        out = nki.language.ndarray(x.shape, x.dtype, buffer=nki.language.shared_hbm)
        nki.language.store(out, t)
        return out

    x = np.zeros((8, 8), np.float32)
    assert nki.prove(changes, changes)(x).verdict == "equal"
    verdict = nki.prove(changes, keeps)(x)
    assert verdict.verdict == "different"
    assert verdict.place is not None and verdict.place.output == 1
