"""``nisa.nc_transpose``."""

from __future__ import annotations

from typing import Any

from nki.base.element_types import bfloat16, float8_e4m3, float8_e4m3fn, float8_e5m2, float16, float32
from nki.base.errors import DTypeError, MemoryRegionError, ShapeError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra
from nki.ir.deprecation import DeprecatedForms
from nki.ir.effects import Copy, Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.recorder import current
from nki.ir.sample import COMPUTING, PACKED, Draw
from nki.ir.types import Access, Buffer, In, Out, Tile
from nki.isa.rules.operand_rules import engines, rule, tiles
from nki.isa.tables import enums
from nki.target.model import Target

_E = enums.engine
_SOURCE = "NKI reference, nki.isa.nc_transpose"


def _small(i: Any, t: Target) -> bool:
    return i.data.partitions <= t.vector_transpose_max and i.data.free_elements <= t.vector_transpose_max


def _by_tensor(i: Any) -> bool:
    """True if the Tensor engine can reach the memories: from SBUF into PSUM."""
    return i.data.buffer is Buffer.sbuf and i.dst.buffer is Buffer.psum


def _widens(i: Any, t: Target) -> bool:
    """True of a product with an identity that leaves its sums in PSUM as they are, in float32."""
    narrow = i.data.dtype in (bfloat16, float16)
    return not t.matmul_transpose_mode and narrow and i.dst.dtype is float32 and i.engine is not _E.vector


def undocumented_fp8(moved: Access) -> str | None:
    """The warning about a transpose of 8-bit floats on the Tensor engine of gen3, where documents disagree."""
    if moved.dtype not in _FP8 or current("a transpose").target.generation != 3:
        return None
    return (
        f"the Tensor engine of trn2 transposes '{moved.name}' of {moved.dtype}: the reference has a result of this "
        "dtype, the architecture guide one of 16-bit elements; transpose a copy in bfloat16, about which both agree"
    )


_FP8 = (float8_e4m3, float8_e4m3fn, float8_e5m2)


def _undocumented(i: Any) -> str | None:
    return undocumented_fp8(i.data) if _by_tensor(i) and i.engine is not _E.vector else None


@instruction(
    engines=(_E.tensor, _E.vector),
    effects=Effects(transpose=lambda i: Copy(i.dst, i.data)),
    deprecated=DeprecatedForms(open_question=_undocumented),
)
class NcTranspose(Inst):
    """``dst = data.T``: partitions become elements and elements partitions; free dimensions count as one.

    The Tensor engine takes up to 128 x 128 from SBUF and writes PSUM; the Vector engine up to 32 x 32 between SBUF and
    PSUM. Without ``engine``, the Tensor engine is used when the memories fit it. Bits are moved unchanged; ``dst`` has
    the dtype of ``data``. (On gen2 the Tensor engine multiplies by an identity, so that NaN and infinity spoil other
    elements of the tile on hardware; there ``dst`` of bfloat16 or float16 data may also be float32.)
    """

    dst: Out[Tile]
    data: In[Tile]
    engine: enums.engine = _E.unknown
    name: str | None = None

    rules = (
        *tiles("dst", "data", any_dtype=True),
        *engines(_E.tensor, _E.vector),
        rule(
            "NT03",
            "data {o[data]} is larger than 128 x 128",
            lambda i, t: i.data.free_elements <= t.matmul_stationary_free_max,
            _SOURCE,
            error=ShapeError,
            fix="transpose blocks of 128 x 128",
        ),
        rule(
            "NT01",
            "dst '{i.dst.name}' {i.dst.shape} is not data '{i.data.name}' {i.data.shape} transposed",
            lambda i, t: (i.dst.partitions, i.dst.free_elements) == (i.data.free_elements, i.data.partitions),
            _SOURCE,
            fix="allocate dst as ({i.data.free_elements}, {i.data.partitions})",
        ),
        rule(
            "NT02",
            "dst '{i.dst.name}' is {i.dst.dtype}, data '{i.data.name}' is {i.data.dtype}; a transpose keeps the dtype",
            lambda i, t: i.dst.dtype is i.data.dtype or (_by_tensor(i) and _widens(i, t)),
            f"{_SOURCE}; nki-samples, allocated_fused_linear: the array writes float32 on trn1",
            error=DTypeError,
            fix="allocate dst as {i.data.dtype} and convert with nisa.tensor_copy",
        ),
        rule(
            "NT04",
            "the Tensor engine reads sbuf and writes psum; data '{i.data.name}' is in {i.data.buffer.value} and dst "
            "'{i.dst.name}' in {i.dst.buffer.value}",
            lambda i, t: i.engine is not _E.tensor or _by_tensor(i),
            _SOURCE,
            error=MemoryRegionError,
            fix="allocate dst with buffer=nl.psum and data with buffer=nl.sbuf",
        ),
        rule(
            "NT05",
            "the Vector engine transposes up to 32 x 32; data is {o[data]}",
            lambda i, t: i.engine is not _E.vector or _small(i, t),
            _SOURCE,
            error=ShapeError,
            fix="use nisa.engine.tensor with dst in PSUM",
        ),
        rule(
            "NT06",
            "no engine transposes data {o[data]} from {i.data.buffer.value} to {i.dst.buffer.value}: more than 32 x 32 "
            "goes from sbuf to psum",
            lambda i, t: i.engine is not _E.unknown or _small(i, t) or _by_tensor(i),
            _SOURCE,
            error=MemoryRegionError,
            fix="allocate dst with buffer=nl.psum and data with buffer=nl.sbuf",
        ),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        value = m.transpose(m.load(self.data))
        m.store(self.dst, value if self.dst.dtype is self.data.dtype else m.cast(value, self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """Vector: ``max(64, N) + issue`` cycles for N elements per partition. Tensor: a product with an identity, with
        several passes for 4-byte elements.
        """
        if self.engine is _E.vector or not _by_tensor(self):
            return cost.streaming(self, target, self.data.free_elements, "nc_transpose")
        # As a matmul by the identity; fp32 takes half the passes where the array moves it unchanged.
        wide = self.data.dtype.itemsize == 4
        cycles, instructions = 1, 1
        if wide:
            cycles, instructions = cost.float32_product(target, halved=target.matmul_transpose_mode)
        columns = max(self.data.partitions, min(target.matmul_min_interval_cycles, self.data.free_elements))
        shape = (self.data.partitions, self.data.free_elements, self.data.partitions)
        source = f"{cost.REFERENCE}nc_transpose"
        return cost.matmul(
            target,
            shape,
            columns,
            cycles,
            "docs",
            source,
            operands=(self.dst, self.data, None),
            instructions=instructions,
            moves=True,
        )

    @classmethod
    def sample(cls, draw: Draw) -> NcTranspose:
        dtype = draw.choice((*COMPUTING, *PACKED))
        if draw.flag():
            rows, columns = (draw.integer(1, draw.target.vector_transpose_max) for _ in range(2))
            to, source = (draw.choice((Buffer.sbuf, Buffer.psum)) for _ in range(2))
            return cls(draw.tile(columns, rows, dtype, to), draw.tile(rows, columns, dtype, source))
        rows, columns = draw.partitions(), draw.choice((1, 7, 32, 96, 128))
        wide = not draw.target.matmul_transpose_mode and dtype in (bfloat16, float16) and draw.flag()
        return cls(draw.tile(columns, rows, float32 if wide else dtype, Buffer.psum), draw.tile(rows, columns, dtype))
