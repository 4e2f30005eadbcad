"""What declarations say of the work of two instructions: the one instruction computes the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nki.isa  # noqa: F401  # declares the instructions
from nki.base.element_types import float32
from nki.ir.declaration.combining import NONE, Scaling
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.types import Access, Buffer, Tensor, row_major
from nki.isa.instructions.activation import Activation, ActivationReduce
from nki.isa.instructions.tensor_reduce import TensorReduce
from nki.isa.instructions.tensor_scalar import ScalarTensorTensor, TensorScalar
from nki.isa.instructions.tensor_tensor import TensorTensor
from nki.isa.tables.enums import engine
from nki.isa.tables.operators import OPS
from nki.target import GEN3
from tests.support.instruction_bench import Array, program, run_reference

ROWS, COLUMNS = 32, 24


def tile(name: str, columns: int = COLUMNS) -> Access:
    return Access.whole(Tensor(name, (ROWS, columns), float32, Buffer.sbuf))


X, MIDDLE, Y, OTHER = tile("x"), tile("middle"), tile("y"), tile("other")
ONE, TWO, TOTAL = tile("one", 1), tile("two", 1), tile("total", 1)
MULTIPLY, ADD, SUBTRACT, EXP = (OPS[name] for name in ("multiply", "add", "subtract", "exp"))


def results(*instructions: Inst) -> dict[str, Array]:
    """What ``instructions`` write, of the same contents by name; ``middle`` is filled by the first of them."""
    made = program([inst.with_schedule(queue="") for inst in instructions], GEN3, [MIDDLE.tensor])
    inputs: list[Array] = []
    for tensor in made.tensors:
        rng = np.random.default_rng(sum(map(ord, tensor.name)))
        inputs.append(rng.uniform(-2, 2, tensor.shape).astype(np.float32))
    outputs = run_reference(made.kernel, inputs)
    return {access.name: made.at(outputs, access) for inst in instructions for access in inst.writes()}


def scaling_of(inst: Inst) -> Scaling:
    scaling = inst.effects.combining.scaling(inst)
    assert scaling is not None
    return scaling


SCALINGS = [
    TensorScalar(MIDDLE, X, MULTIPLY, 3.0),
    TensorScalar(MIDDLE, X, ADD, ONE, True),
    TensorScalar(MIDDLE, X, SUBTRACT, ONE),
    TensorScalar(MIDDLE, X, SUBTRACT, 0.7, True),
    TensorScalar(MIDDLE, X, MULTIPLY, ONE, False, ADD, TWO),
    TensorScalar(MIDDLE, X, OPS["abs"], None),
    Activation(MIDDLE, OPS["copy"], X, TWO, ONE),
    Activation(MIDDLE, OPS["copy"], X, None, 0.3),
]
SECONDS = [
    TensorScalar(Y, MIDDLE, SUBTRACT, 1.5, True),
    TensorScalar(Y, MIDDLE, MULTIPLY, TWO),
    TensorTensor(Y, MIDDLE, OTHER, SUBTRACT).with_schedule(queue="vector"),
    TensorTensor(Y, OTHER, MIDDLE, SUBTRACT).with_schedule(queue="vector"),
    Activation(Y, EXP, MIDDLE),
    ActivationReduce(Y, EXP, MIDDLE, ADD, TOTAL),
]
POSSIBLE = {
    (first, second)
    for first, seconds in enumerate(
        [(0, 1, 2, 3, 4, 5), (0, 1, 2, 3, 4, 5), (0, 1, 2, 3), (0, 1, 2, 3), (4, 5), (0, 1)]
    )
    for second in seconds
} | {(6, 4), (6, 5), *((7, second) for second in range(6))}
"""Pairs of :data:`SCALINGS` and :data:`SECONDS`, by number, that one instruction can do."""


@pytest.mark.parametrize("first", range(len(SCALINGS)))
@pytest.mark.parametrize("second", range(len(SECONDS)))
def test_a_scaling_before_an_instruction(first: int, second: int) -> None:
    one, two = SCALINGS[first], SECONDS[second]
    both = two.effects.combining.after_scaling(two, scaling_of(one), next(a for a in two.reads() if a is MIDDLE))
    assert (both is not None) == ((first, second) in POSSIBLE)
    if both is not None:
        expected, actual = results(one, two), results(both.inst)
        for access in two.writes():
            assert np.array_equal(actual[access.name].view("u4"), expected[access.name].view("u4"))


def test_a_sum_behind_a_function() -> None:
    one, two = Activation(MIDDLE, EXP, X, None, 0.5), TensorReduce(TOTAL, ADD, MIDDLE, 1)
    total = two.effects.combining.row_sum(two)
    assert total is not None
    both = one.effects.combining.with_row_sum(one, total)
    assert both is not None
    assert np.array_equal(results(both.inst)["total"].view("u4"), results(one, two)["total"].view("u4"))


@pytest.mark.parametrize(
    "other",
    [
        TensorReduce(TOTAL, OPS["maximum"], MIDDLE, 1),
        TensorReduce(TOTAL, ADD, MIDDLE, 1, negate=True),
        TensorReduce(tile("parts", 4), ADD, Access.whole(Tensor("blocks", (ROWS, 4, 6), float32, Buffer.sbuf)), 2),
    ],
)
def test_what_is_no_sum_of_a_partition(other: TensorReduce) -> None:
    assert other.effects.combining.row_sum(other) is None


@pytest.mark.parametrize("left", [True, False])
def test_a_tile_that_repeats_one_number(left: bool) -> None:
    repeated = Access(ONE.tensor, 0, (ROWS, COLUMNS), (row_major(ONE.shape)[0], 0), float32)
    inst = TensorTensor(Y, *((repeated, X) if left else (X, repeated)), SUBTRACT, engine.vector)
    scalar = inst.effects.combining.by_column(inst)
    assert scalar is not None and scalar.engine_choice is engine.vector
    assert np.array_equal(results(scalar)["y"].view("u4"), results(inst)["y"].view("u4"))


def test_instructions_that_do_not_combine() -> None:
    bits = TensorScalar(MIDDLE, X, OPS["bitwise_and"], 3)
    assert bits.effects.combining.scaling(bits) is None
    function = Activation(MIDDLE, EXP, X)
    assert function.effects.combining.scaling(function) is None
    assert scaling_of(Activation(MIDDLE, OPS["copy"], X)) == Scaling(MIDDLE, X, ())
    plain = TensorTensor(Y, X, OTHER, ADD)
    assert plain.effects.combining.by_column(plain) is None
    in_words = TensorTensor(Y, X, OTHER, OPS["bitwise_or"]).with_schedule(queue="vector")
    scaling = scaling_of(SCALINGS[0])
    assert in_words.effects.combining.after_scaling(in_words, scaling, X) is None
    elsewhere = TensorTensor(Y, MIDDLE, OTHER, ADD).with_schedule(queue="gpsimd")
    assert elsewhere.effects.combining.after_scaling(elsewhere, scaling, MIDDLE) is None
    third: Any = REGISTRY["tensor_copy"]
    assert third.effects.combining is NONE and NONE.after_scaling(bits, scaling, X) is None


def test_one_instruction_has_two_operators_at_most() -> None:
    assert ScalarTensorTensor.effects.combining is NONE
    second = TensorScalar(Y, MIDDLE, ADD, 1.0, False, MULTIPLY, 2.0)
    assert second.effects.combining.after_scaling(second, scaling_of(SCALINGS[0]), MIDDLE) is None
