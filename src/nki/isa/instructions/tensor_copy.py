"""``nisa.tensor_copy`` and ``nisa.memset``: move a tile on chip, fill a tile."""

from __future__ import annotations

import math
from typing import Any

from nki.base.element_types import bfloat16, float8_e8m0fnu, float16
from nki.base.errors import ArgumentError, EngineError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra
from nki.ir.deprecation import DeprecatedForms
from nki.ir.effects import Copy, Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import FLOATS, PACKED, Draw
from nki.ir.types import Buffer, In, Out, Scalar, Tile
from nki.isa.rules.indirection import indirection, not_on, scalar_not_in_psum
from nki.isa.rules.operand_rules import converts, engines, holds, rule, same_elements, same_partitions, tiles
from nki.isa.tables import enums
from nki.target.model import Target

_E = enums.engine


def _is_activation(i: Any) -> bool:
    """True if the Scalar engine of gen2 copies the same by ``nl.copy``, which goes through float32."""
    return i.dst.dtype.is_float and i.src.dtype.is_float


@instruction(
    engines=(_E.vector, _E.scalar, _E.gpsimd),
    effects=Effects(copy=lambda i: Copy(i.dst, i.src), streamed=("src",), element_indexed=("dst", "src")),
    by_workload=True,
)
class TensorCopy(Inst):
    """Copy the tile ``src`` to ``dst`` within SBUF and PSUM.

    Same partitions and elements per partition, shapes may differ. Equal dtypes are copied bit for bit; otherwise each
    element passes through float32. GpSimd cannot reach PSUM; the Scalar engine of gen2 has no such instruction. On gen4
    both tiles may be indirect views, except on GpSimd.
    """

    dst: Out[Tile]
    src: In[Tile]
    engine: enums.engine = _E.unknown
    name: str | None = None

    rules = (
        *tiles("dst", "src", any_dtype=True),
        converts("TC02", "NKI reference, nki.isa.tensor_copy"),
        same_partitions("dst", "src"),
        same_elements("dst", "src"),
        *engines(_E.vector, _E.scalar, _E.gpsimd),
        rule(
            "TC01",
            "the Scalar engine of {t.name} has no tensor_copy",
            lambda i, t: i.engine is not _E.scalar,
            "NKI reference, nki.isa.tensor_copy (since release 2.28)",
            error=EngineError,
            until=2,
            fix="use nisa.activation(dst=…, op=nl.copy, data=…), or another engine",
            unless=_is_activation,
            release="0.3",
        ),
        rule(
            "TC01",
            "the Scalar engine of {t.name} copies by way of float32: {i.src.dtype} to {i.dst.dtype} may lose bits",
            lambda i, t: i.engine is not _E.scalar or _is_activation(i),
            "NKI reference of releases 2.21 to 2.27, nki.isa.tensor_copy: Scalar Engine on NeuronCore-v2",
            error=EngineError,
            until=2,
            fix="use another engine, or copy tiles of floats",
        ),
        *indirection("dst", "src", others=False),
        not_on(_E.gpsimd),
        scalar_not_in_psum(),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        m.store(self.dst, m.cast(m.load(self.src), self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """``max(64, N / w) + issue`` cycles for N elements per partition; w = 1, 2 or 4 by engine, dtype and memory."""
        return cost.copying(self, target, self.dst.free_elements, "tensor_copy")

    @classmethod
    def sample(cls, draw: Draw) -> TensorCopy:
        partitions, free = draw.partitions(), draw.free()
        dtype, other = draw.copied()
        where = draw.choice((Buffer.sbuf, Buffer.psum))
        return cls(draw.tile(partitions, free, dtype), draw.tile(partitions, free, other, where))


def _is_scale(value: float) -> bool:
    return 2.0**-127 <= value <= 2.0**127 and math.frexp(value)[0] == 0.5


def _whole_float(i: Any) -> str | None:
    """The warning for a float value of an integer tile, which NKI itself does not take."""
    whole = type(i.value) is float and i.value % 1 == 0  # others are an error
    if not whole or not i.dst.dtype.is_integer:
        return None
    return (
        f"nisa.memset(value={i.value!r}) of {i.dst.dtype} tile '{i.dst.name}': since NKI 0.3 the value "
        f"has the type of the tile: write {int(i.value)}"
    )


@instruction(engines=(_E.vector, _E.gpsimd), deprecated=DeprecatedForms(warning=_whole_float))
class Memset(Inst):
    """Fill every element of ``dst`` with the compile-time constant ``value``, rounded once to its dtype.

    Packed tiles (``float8_e5m2_x4``, …) are filled with 0 only, float8_e8m0fnu, which has no 0, with powers of two.
    """

    dst: Out[Tile]
    value: Scalar
    engine: enums.engine = _E.unknown
    name: str | None = None

    rules = (
        *tiles("dst", any_width=True),
        *engines(_E.vector, _E.gpsimd),
        rule(
            "MS01",
            "value={i.value} cannot be stored in '{i.dst.name}' of dtype {i.dst.dtype}",
            lambda i, t: holds(i.dst.dtype, i.value),
            "Release notes of NKI 0.3 (the value's type must match dst)",
            error=ArgumentError,
            fix="pass a whole number within the range of {i.dst.dtype}",
            by_value=True,
        ),
        rule(
            "MS02",
            "value={i.value} cannot be stored in '{i.dst.name}' of dtype {i.dst.dtype}: packed tiles take 0 alone",
            lambda i, t: not i.dst.dtype.is_packed or i.value == 0,
            "NKI reference, nki.isa.memset (x4 types)",
            error=ArgumentError,
            fix="fill a view of the tile as an integer dtype with the code",
            by_value=True,
        ),
        rule(
            "MS02",
            "value={i.value} cannot be stored in '{i.dst.name}' of dtype {i.dst.dtype}: a scale is a power of two from "
            "2**-127 to 2**127, never 0",
            lambda i, t: i.dst.dtype is not float8_e8m0fnu or _is_scale(i.value),
            "OCP Microscaling Formats Specification (E8M0); the NKI reference says nothing about it",
            error=ArgumentError,
            fix="pass a power of two, or write codes: `nisa.memset({i.dst.name}.view(nl.uint8), value=127)` makes 1.0, "
            "value=0 makes 2.0**-127",
            by_value=True,
        ),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        m.store(self.dst, m.const(self.value, self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """``max(64, N / w) + issue`` cycles for N elements per partition; w = 1, 2 or 4 by engine, dtype and memory, at
        least 2 for 16-bit zeros on Vector.
        """
        known = type(self.value) in (int, float)  # a float of the launch is not to be looked at
        zeros = known and self.value == 0 and self.dst.dtype in (bfloat16, float16)
        most = 0.5 if zeros and cost.engine_of(self) == "vector" else 1.0
        return cost.copying(self, target, self.dst.free_elements, "memset", most)

    @classmethod
    def sample(cls, draw: Draw) -> Memset:
        dtype = draw.choice((*FLOATS, *PACKED, float8_e8m0fnu))
        value = 0.0 if dtype.is_packed else 2.0 ** draw.integer(-127, 127) if not dtype.computes else draw.number()
        return cls(draw.tile(draw.partitions(), draw.free(), dtype), value)
