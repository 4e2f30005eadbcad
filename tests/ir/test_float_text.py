"""Floats of launches in the text form, in artifacts and on the command line."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
from nki.base.errors import ArgumentError, NkiError, TextError
from nki.base.float_text import exact_text, from_text
from nki.cli import main
from nki.compilation import pipeline
from nki.compilation.executable import Executable
from nki.compilation.float_arguments import for_values
from nki.ir.floats.runtime_float import RuntimeFloat, evaluate, show
from nki.ir.program import Program
from nki.ir.text import artifact, parser, printer
from nki.ir.text.formula import parse_formula
from nki.target import find
from tests.compilation.float_kernels import computed, one_operand
from tests.support.shared_launches import outputs_of

X = np.linspace(-1, 1, 16 * 8, dtype=np.float32).reshape(16, 8)


def compiled(function: Any, value: float) -> Program:
    kernel = nki.jit(function)
    kernel(X, value)
    (executable,) = kernel._executables.values()
    return executable.kernel


def test_text_says_which_floats_there_are() -> None:
    program = compiled(computed, 0.25)
    text = printer.show(program)
    assert "  float lr = 0.25\n" in text
    assert "operand0=@(1.0-lr)" in text and "operand1=@(((-lr)*2.0)/3.0)" in text
    assert parser.parse(text) == program
    assert artifact.loads(artifact.dumps(program)) == program
    assert printer.show(parser.parse(text)) == text
    assert parser.parse(text.replace("lr = 0.25", "lr = 0.5")) != program
    assert parser.parse(text.replace("@(1.0-lr)", "@(lr-1.0)")) != program


@pytest.mark.parametrize(
    "value",
    [0.1, -0.0, math.inf, -math.inf, math.nan, -math.nan, 5e-324, struct.unpack("<d", b"\1\2\3\4\5\6\xf8\x7f")[0]],
)
def test_text_keeps_every_bit_of_a_float(value: float) -> None:
    bits = struct.pack("<d", value)
    assert struct.pack("<d", from_text(exact_text(value))) == bits
    program = compiled(one_operand, 0.5)
    plain = for_values(program, {"lr": value})
    for text in (printer.show(plain), printer.show(program).replace("lr = 0.5", f"lr = {exact_text(value)}")):
        read = for_values(parser.parse(text), {})
        (number,) = [n for inst in read.instructions() for n in inst.immediates()]
        assert struct.pack("<d", number) == bits


FORMULAS = ("x", ("-", "x"), ("+", "x", -1.0), ("*", -2.5, ("-", "y")), ("/", ("-", ("+", "x", "y")), 1e-300),
            ("-", ("*", "inf", "nan"), math.inf), ("-", 0.0, "x"), ("+", -math.inf, "a b"))  # fmt: skip


@pytest.mark.parametrize("formula", FORMULAS, ids=str)
def test_formulas_are_read_as_they_were_written(formula: Any) -> None:
    text = show(formula)
    assert parse_formula(text, 0) == (formula, len(text))
    values = {"x": 0.3, "y": -7.0, "inf": 2.0, "nan": 3.0, "a b": 1.0}
    assert evaluate(parse_formula(text, 0)[0], values) == evaluate(formula, values)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("@(1.0-lr)", "@(1.0-rate)"),
        ("@(1.0-lr)", "@(1.0-lr"),
        ("@(1.0-lr)", "@1.0-lr)"),
        ("@(1.0-lr)", "@"),
        ("@(1.0-lr)", "@(1.0%lr)"),
        ("@(1.0-lr)", "@(1.0/(lr-lr))"),
        ("@(1.0-lr)", "@" + "(-" * 100 + "lr" + ")" * 100),
        ("@(1.0-lr)", "@" + "(-" * 20 + "lr" + ")" * 20),
        ("op0=multiply", "op0=@lr"),
        ("dst=", "name=@lr dst="),
        ("float lr = 0.25", "float lr = 0.25\n  float lr = 0.5"),
        ("float lr = 0.25", "float lr = zero"),
        ("float lr = 0.25", "float lr = 0.25.1"),
        ("float lr = 0.25", ""),
        ("float lr = 0.25", "float lr = nan(0x12)"),
    ],
)
def test_wrong_text_names_its_line(old: str, new: str) -> None:
    text = printer.show(compiled(computed, 0.25))
    assert old in text
    with pytest.raises(TextError) as error:
        parser.parse(text.replace(old, new, 1))
    assert "line" in error.value.message


def test_a_rule_that_needs_the_number_refuses_the_text() -> None:
    text = printer.show(compiled(one_operand, 0.5))
    for old, new in (("op0=multiply", "op0=bitwise_and"), ("op0=multiply", "op0=abs")):
        program = parser.parse(text.replace("float32[16,8]", "int32[16,8]").replace(old, new))
        with pytest.raises(NkiError) as error:
            pipeline.compile(None, {}, find(program.target), start=program)
        assert isinstance(error.value, ArgumentError) or error.value.rule
        assert "lr" in error.value.message


def test_a_file_runs_with_the_value_of_its_call_or_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kernel.klir"
    file.write_bytes(artifact.dumps(compiled(computed, 0.25)))
    np.save(tmp_path / "x.npy", X)

    def run(*more: str) -> str:
        options = ["run", str(file), "--arg", f"x={tmp_path / 'x.npy'}", "--json", "--check", *more]
        assert main(options) == 0
        return json.loads(capsys.readouterr().out)["outputs"][0]["sum"]

    want = {value: float(nki.simulate(computed)(X, value).astype(np.float64).sum()) for value in (0.25, 0.5, 2.0)}
    assert (run(), run("--arg", "lr=0.5"), run("--arg", "lr=2")) == tuple(want.values())
    (out,) = outputs_of(Executable.load(file), X)
    assert float(out.astype(np.float64).sum()) == want[0.25]


def test_wrong_floats_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kernel.klir"
    file.write_bytes(artifact.dumps(compiled(one_operand, 0.5)))
    for text, words in (("lr=None", "lr is a float, not None"), ("lr=16x8:float32", "lr is a float"), ("l=1.0", "'l'")):
        assert main(["run", str(file), "--arg", text]) != 0
        assert words in capsys.readouterr().err


def test_a_float_without_a_compilation_has_no_value() -> None:
    number = RuntimeFloat.of(0.5, ("*", "lr", 2.0), None)
    for use in (bool, float, str, repr, hash, lambda n: n == 0.5, lambda n: n + 1, lambda n: -n, abs):
        with pytest.raises(ArgumentError, match=r"\(lr\*2\.0\) is known when the kernel is launched"):
            use(number)
