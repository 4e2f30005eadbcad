"""Engines that an instruction may name, by release and target, as the documents of the release say.

Tags are of aws-neuron/aws-neuron-sdk: the reference of ``nki.isa`` (``general/nki/api/nki/isa/__init__.py``, since
2.26.1 ``nki/api/nki/isa/__init__.py``) and, for operators, "Supported Math Operators for NKI ISA"
(``nki.api.shared.rst``). Beta 1 (0.1) is 2.20 to 2.26.1, NKI 0.2 is 2.27 and 2.28; each takes what one of them takes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import nki.isa as nisa
import nki.language as nl
from nki.base.errors import NkiError

from .rule_cases import LEGAL
from .spec import Spec, ints, psum, tile
from .test_rules import call

E = nisa.engine
EVERY = ("0.1", "0.2", "0.3", "0.7")
NEW = EVERY[1:]
SUBTRACT = {"op0": nl.subtract, "op1": None, "operand1": None}
SUM = {"op0": nl.add, "op1": None, "operand1": None}
PRODUCT = {"op0": nl.multiply, "op1": None, "operand1": None}
RSQRT = {"op0": nl.rsqrt, "operand0": 0.0, "op1": None, "operand1": None}
BITS = {"dst": ints(4, 8), "data": ints(4, 8), "op0": nl.bitwise_and, "operand0": 3, "op1": None, "operand1": None}


ENGINE_RULES = frozenset(("EN01", "EN02", "NT05", "RN02", "RN03", "TC01", "TS03", "TS04", "TS05", "TT03", "GE01"))
"""The rules about engines, and about instructions that a target lacks."""


class Row(NamedTuple):
    """``allowed``: the targets on which each of ``releases`` lets ``mnemonic`` run on ``engine``, by ``document``."""

    mnemonic: str
    changes: dict[str, Any]
    engine: nisa.engine
    releases: tuple[str, ...]
    allowed: str
    document: str


TABLE = (
    Row("tensor_scalar", {}, E.scalar, ("0.1",), "trn1 trn2 trn3", "2.21, 2.22: no limit to a target"),
    Row("tensor_scalar", SUM, E.scalar, ("0.1",), "trn1 trn2 trn3", "2.21"),
    Row("tensor_scalar", PRODUCT, E.scalar, ("0.1",), "trn1 trn2 trn3", "2.21"),
    Row("tensor_scalar", {}, E.scalar, NEW, "trn2 trn3", "2.23 to 2.26.1: on Scalar only from NeuronCore-v3"),
    Row("tensor_scalar", SUBTRACT, E.scalar, EVERY, "trn3", "a subset on trn2; Trainium3 guide: natively, as Vector"),
    Row("tensor_scalar", SUBTRACT, E.vector, EVERY, "trn1 trn2 trn3", "2.21"),
    Row("tensor_scalar", RSQRT, E.gpsimd, EVERY, "trn1 trn2 trn3", "2.22: only allowed for rsqrt"),
    Row("tensor_scalar", SUBTRACT, E.gpsimd, EVERY, "", "2.22: only allowed for rsqrt"),
    Row("tensor_scalar", BITS, E.vector, EVERY, "trn1 trn2 trn3", "2.21: bitvec operators must run on Vector"),
    Row("tensor_scalar", BITS, E.scalar, EVERY, "", "2.21"),
    Row("tensor_scalar", BITS, E.gpsimd, EVERY, "", "2.21"),
    Row("tensor_scalar", {}, E.tensor, EVERY, "", "2.21"),
    Row("tensor_copy", {}, E.scalar, EVERY[:2], "trn1 trn2 trn3", "2.21 to 2.27: by way of FP32 on NeuronCore-v2"),
    Row("tensor_copy", {"src": ints(4, 8)}, E.scalar, EVERY, "trn2 trn3", "2.21: not where FP32 is no precise cast"),
    Row("tensor_copy", {}, E.scalar, ("0.3", "0.7"), "trn2 trn3", "2.28: not supported on NeuronCore-v2"),
    Row("tensor_copy", {}, E.gpsimd, EVERY, "trn1 trn2 trn3", "2.21"),
    Row("tensor_copy", {"src": psum(4, 8)}, E.gpsimd, EVERY, "", "2.21: GpSimd cannot access PSUM"),
    Row("tensor_copy", {"src": psum(4, 8)}, E.vector, EVERY, "trn1 trn2 trn3", "2.21"),
    Row("tensor_tensor", {}, E.gpsimd, EVERY, "trn1 trn2 trn3", "2.22"),
    Row("tensor_tensor", {}, E.scalar, EVERY, "", "2.22: Vector or GpSimd"),
    Row("tensor_tensor", {"op": nl.power}, E.vector, EVERY, "", "2.21: power runs on GpSimd"),
    Row("tensor_tensor", {"data1": psum(4, 8)}, E.gpsimd, EVERY, "", "2.21: GpSimd cannot access PSUM"),
    Row("memset", {}, E.gpsimd, EVERY, "trn1 trn2 trn3", "2.21"),
    Row("memset", {}, E.scalar, EVERY, "", "2.21: Vector or GpSimd"),
    Row("nc_transpose", {}, E.tensor, EVERY, "trn1 trn2 trn3", "2.21"),
    Row("nc_transpose", {}, E.vector, EVERY, "trn1 trn2 trn3", "2.21: up to (32, 32)"),
    Row("nc_transpose", {"data": tile(4, 64), "dst": psum(64, 4)}, E.vector, EVERY, "", "2.21: up to (32, 32)"),
    Row("nc_transpose", {}, E.scalar, EVERY, "", "2.21: Tensor or Vector"),
    Row("rng", {}, E.gpsimd, NEW, "trn2 trn3", "2.27: NeuronCore-v2: Vector"),
    Row("rng", {}, E.vector, NEW, "trn1 trn2 trn3", "2.27"),
    Row("rand_get_state", {}, E.gpsimd, NEW, "trn2 trn3", "2.27: NeuronCore-v3+"),
    Row("rand_get_state", {"dst": ints(4, 24, dtype="uint32")}, E.vector, NEW, "trn3", "2.27: NeuronCore-v3: GpSimd"),
    Row("core_barrier", {}, E.vector, NEW, "trn2 trn3", "2.27: NeuronCore-v3 or newer"),
)  # fmt: skip
CASES = [(row, release) for row in TABLE for release in row.releases]


def allowed(row: Row, release: str, target: str) -> bool:
    """Test if the rules of ``release`` let the instruction name the engine on ``target``."""
    given = {**LEGAL[row.mnemonic], **row.changes, "engine": row.engine}
    made = {name: value.make(name) if isinstance(value, Spec) else value for name, value in given.items()}
    try:
        call(row.mnemonic, made, target, release)
    except NkiError as error:
        if error.rule not in ENGINE_RULES:
            raise
        return False
    return True


@pytest.mark.parametrize(("row", "release"), CASES, ids=lambda value: getattr(value, "mnemonic", value))
def test_engines(row: Row, release: str) -> None:
    there = [name for name in ("trn1", "trn2", "trn3") if allowed(row, release, name)]
    assert there == row.allowed.split(), row.document
