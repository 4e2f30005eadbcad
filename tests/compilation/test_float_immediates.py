"""Immediates that launches pass: for every declaration, the bits of a constant in their place."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nki.base.errors import NkiError
from nki.compilation.executable import Executable
from nki.compilation.float_arguments import for_values
from nki.ir.floats.runtime_float import FloatSpec, RuntimeFloat
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.program import Program
from nki.ir.sample import Draw
from nki.ir.text.parser import parse
from nki.ir.text.printer import show
from nki.ir.verifier import verify
from nki.target import GEN4, GENERATIONS
from tests.support import instruction_bench

PAYLOAD = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0123_4567_89AB))[0]
VALUES = (0.5, -3.25, 0.0, -0.0, math.inf, -math.inf, math.nan, PAYLOAD, 1e-42, -5e-324, 1e300, 1 / 3, 6e4, 3.5e38)
FIELDS = [
    (name, f.name) for name, cls in REGISTRY.items() for f in cls.fields if f.immediate and float in f.types
]  # fmt: skip
TAKEN = {("range_select", "on_false_value")}
"""Immediates that a rule looks at whatever the other arguments are; of some others it looks at some."""


def instruction(mnemonic: str, name: str, draw: Draw) -> Inst | None:
    """An instruction with a number as immediate ``name``, which may be any other float."""
    for _ in range(300):
        inst = instruction_bench.sample(REGISTRY[mnemonic], draw)
        if isinstance(getattr(inst, name), float) and all(_is_legal(inst, name, value) for value in VALUES):
            return inst
    return None


def _is_legal(inst: Inst, name: str, value: float) -> bool:
    try:
        verify(inst.replace(**{name: value}), GEN4, {})
    except NkiError:
        return False
    return True


def with_float(program: Program, value: float) -> Program:
    return replace(program, signature=replace(program.signature, floats=(FloatSpec("x", value),)))


@pytest.mark.parametrize(("mnemonic", "name"), [field for field in FIELDS if field not in TAKEN])
def test_a_float_of_the_launch_has_the_bits_of_a_constant(mnemonic: str, name: str) -> None:
    inst = instruction(mnemonic, name, Draw(instruction_bench.source(mnemonic, name), GEN4))
    assert inst is not None, "no sample takes any number"
    uses: dict[str, Any] = {}
    bench = instruction_bench.program([inst.replace(**{name: RuntimeFloat.of(0.75, "x", uses)})], GEN4)
    program = with_float(bench.kernel, 0.75)
    assert not uses, "a stage has looked at the value"
    assert parse(show(program)) == program
    executable = Executable(program)
    assert not uses and len(executable.formulas) == 1
    rng = np.random.default_rng(instruction_bench.source(mnemonic).getrandbits(64))
    inputs = [np.ascontiguousarray(a) for a in bench.fill(rng)]
    for value in VALUES:
        outputs = [np.frombuffer(b"\xa5" * t.nbytes, t.dtype.plain).reshape(t.shape).copy() for t in program.outputs]
        executable.launch([a.ctypes.data for a in (*inputs, *outputs)], executable.floats_of([value]))
        compiled_in = for_values(program, {"x": value})
        assert not compiled_in.signature.floats
        for got, want in zip(outputs, instruction_bench.run_native(compiled_in, inputs), strict=True):
            assert got.tobytes() == want.tobytes(), value
        assert not list(bench.differences(outputs, instruction_bench.run_reference(compiled_in, inputs)))


@pytest.mark.parametrize(("mnemonic", "name"), FIELDS)
def test_no_part_of_a_compiled_kernel_depends_on_the_value(mnemonic: str, name: str) -> None:
    """Where no rule looks at a number, kernels for two numbers differ in nothing."""
    looked_at = compared = 0
    for generation in GENERATIONS:
        draw = Draw(instruction_bench.source(mnemonic, name, "independent"), generation)
        if not instruction_bench.exists(REGISTRY[mnemonic], generation):
            continue
        for _ in range(30):
            inst = instruction_bench.sample(REGISTRY[mnemonic], draw)
            if not isinstance(getattr(inst, name), float) or compared + looked_at > 5:
                continue
            uses: dict[str, Any] = {}
            numbers = [RuntimeFloat.of(value, "x", uses) for value in (getattr(inst, name), 0.75)]
            try:
                programs = [instruction_bench.program([inst.replace(**{name: n})], generation) for n in numbers]
            except NkiError:
                assert uses, "refused for its value, at which nothing has looked"
            looked_at += bool(uses)
            if not uses:
                one, two = (show(with_float(made.kernel, 0.0)) for made in programs)
                assert one == two and "@x" in one
                compared += 1
    assert compared or looked_at


def test_which_immediates_rules_look_at() -> None:
    for mnemonic, name in TAKEN:
        assert (mnemonic, name) in FIELDS
        draw = Draw(instruction_bench.source(mnemonic, name), GEN4)
        samples = [instruction_bench.sample(REGISTRY[mnemonic], draw) for _ in range(50)]
        numbers = [inst for inst in samples if isinstance(getattr(inst, name), float)]
        assert numbers
        for inst in numbers:
            uses: dict[str, Any] = {}
            verify(inst.replace(**{name: RuntimeFloat.of(getattr(inst, name), "x", uses)}), GEN4, {})
            assert uses, inst
