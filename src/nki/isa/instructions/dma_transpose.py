"""``nisa.dma_transpose``."""

from __future__ import annotations

from typing import Any, Final

from nki.base.errors import ArgumentError, DTypeError, PartitionError, ShapeError
from nki.cost import dma_costs
from nki.ir.algebra import Algebra, permuted
from nki.ir.effects import Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import COMPUTING, Draw
from nki.ir.types import Access, Buffer, In, Out, Tile, is_row_indexed
from nki.isa.rules.dma import HARDWARE, NO_PSUM, PRIORITY, ROWS, ROWS_MODE, skips
from nki.isa.rules.operand_rules import buffer, rule
from nki.isa.tables import enums
from nki.target.model import Target

_SOURCE = "NKI reference, nki.isa.dma_transpose"
_DIRECT = f"{_SOURCE}, direct transpose; release notes of NKI 0.6"
_INDIRECT = f"{_SOURCE}, indirect transpose"
_AXES: Final = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
_MODE = enums.dge_mode


def _turned(i: Any) -> tuple[int, ...]:
    """The shape that ``dst`` has to have."""
    return tuple(i.src.shape[axis] for axis in _AXES[i.src.ndim])


def _hardware(i: Any) -> bool:
    return i.dge_mode is _MODE.hwdge


def _indirect(i: Any) -> bool:
    return is_row_indexed(i.src)


def _fits_hardware(src: Access, block: int) -> bool:
    """True if the rows of ``src`` make blocks of ``block`` rows, a power of two."""
    rows = src.shape[0]
    if src.ndim == 2:
        return rows == block
    return block % rows == 0 and rows * src.shape[-2] % block == 0


def _indices(i: Any) -> Access:
    return i.src.dynamic.source


def _are_blocks(indices: Access, t: Target) -> bool:
    """True if a column of indices is a multiple of a block of rows long; several columns use all partitions."""
    partitions, columns = indices.shape[0], indices.free_elements
    fits = 1 <= partitions <= t.partitions and partitions % t.dma_transpose_block_rows == 0
    return indices.ndim == 2 and fits and (columns == 1 or partitions == t.partitions)


@instruction(engines=(enums.engine.dma,), effects=Effects(skips=skips, row_indexed=True, row_dims={"dst": -1}))
class DmaTranspose(Inst):
    """Write ``src``, in HBM or SBUF, to the SBUF tile ``dst`` with its first and last dimensions exchanged.

    ``axes``, which may be left out, are ``(1, 0)``, ``(2, 1, 0)`` or ``(3, 1, 2, 0)`` after the number of dimensions of
    ``src``: dimension ``i`` of ``dst`` is dimension ``axes[i]`` of ``src``. ``dst`` has the rank of ``src``.
    Bits are moved unchanged; both have one dtype.

    ``src`` may have a run-time index for all of it, or (in HBM) one for each row: row ``r`` of what is transposed is
    then the row of the tensor that index ``r`` names. Indices go down the first column of their tile, then down the
    next. With ``oob_mode=nisa.oob_mode.skip``, an index outside the tensor leaves what it would have written alone.

    The descriptor generation guide still has the limits that hardware descriptors had before NKI 0.6
    (``src.shape[0] == 16`` for every rank); here the reference's limits hold. It also lists ``nisa.dge_mode.none`` for
    transposes without indices, which the reference does not, and which real kernels use.
    """

    dst: Out[Tile]
    src: In[Tile]
    axes: tuple[int, ...] | None = None
    priority: int | None = None
    dge_mode: enums.dge_mode = _MODE.unknown
    oob_mode: enums.oob_mode = enums.oob_mode.error
    name: str | None = None

    rules = (
        NO_PSUM,
        buffer("dst", Buffer.sbuf),
        rule(
            "DX01",
            "src {o[src]} has {i.src.ndim} dimensions; a DMA transposes 2, 3 or 4",
            lambda i, t: i.src.ndim in _AXES,
            _SOURCE,
            error=ShapeError,
            fix="reshape src, so that the dimensions to exchange are the first and the last",
        ),
        rule(
            "DX02",
            "axes={i.axes} for src {o[src]}; a DMA exchanges the first and the last dimension: (1, 0), (2, 1, 0) or "
            "(3, 1, 2, 0)",
            lambda i, t: i.axes is None or i.axes == _AXES[i.src.ndim],
            _SOURCE,
            error=ArgumentError,
            fix="leave axes out, and bring the dimensions of src into that order with a view first",
        ),
        rule(
            "DX03",
            "dst {o[dst]} does not have the shape, rank included, of src {o[src]} with its first and last dimensions "
            "exchanged",
            lambda i, t: i.dst.shape == _turned(i),
            "Release notes of NKI 0.4 (the rank of dst is enforced)",
            error=ShapeError,
            fix="reshape dst or src to the other's rank, with dimensions of size 1 in the middle",
        ),
        rule(
            "DX04",
            "dst '{i.dst.name}' is {i.dst.dtype}, src '{i.src.name}' is {i.src.dtype}; a transpose keeps the dtype",
            lambda i, t: i.dst.dtype is i.src.dtype,
            _SOURCE,
            error=DTypeError,
            fix="allocate dst as {i.src.dtype} and convert with nisa.tensor_copy",
        ),
        HARDWARE,
        *PRIORITY,
        rule(
            "DX05",
            "dge_mode=swdge is for a src with a run-time index; src is {o[src]}",
            lambda i, t: i.dge_mode is not _MODE.swdge or i.src.dynamic is not None,
            _DIRECT,
            error=ArgumentError,
            fix="leave dge_mode out, or pass nisa.dge_mode.hwdge or nisa.dge_mode.none",
        ),
        rule(
            "DX06",
            "hardware descriptors transpose rows in blocks of {t.dma_transpose_block_rows}; src is {o[src]}",
            lambda i, t: not _hardware(i) or _fits_hardware(i.src, t.dma_transpose_block_rows),
            _DIRECT,
            error=ShapeError,
            fix="slice src to 16 rows; of 3 or 4 dimensions also to 1, 2, 4 or 8, if that times src.shape[-2] is a "
            "multiple of 16. Or leave dge_mode out",
        ),
        rule(
            "DX07",
            "the last dimension of src {o[src]} is larger than {t.partitions}",
            lambda i, t: i.src.shape[-1] <= t.partitions,
            f"{_SOURCE}, dst is a tile in SBUF; indirect transpose; direct transpose",
            error=PartitionError,
            fix="transpose 128 columns at a time",
        ),
        rule(
            "DX08",
            "src '{i.src.name}' is {i.src.dtype}: transposes with hardware descriptors, or with an index for each row, "
            "are of elements of 2 bytes",
            lambda i, t: not (_hardware(i) or _indirect(i)) or i.src.dtype.itemsize == 2,
            f"{_SOURCE}, indirect transpose; direct transpose",
            error=DTypeError,
            fix="see both tensors as nl.bfloat16 if the elements come in pairs, or gather the rows with nisa.dma_copy "
            "and transpose without dge_mode",
        ),
        rule(
            "DX09",
            "oob_mode=skip needs a run-time index; src {o[src]} has none",
            lambda i, t: i.oob_mode is enums.oob_mode.error or i.src.dynamic is not None,
            _SOURCE,
            error=ArgumentError,
            fix="leave oob_mode out",
        ),
        *ROWS,
        ROWS_MODE,
        rule(
            "DX10",
            "src {o[src]} has an index for each row; of its two middle dimensions, one must be 1",
            lambda i, t: not _indirect(i) or i.src.ndim < 4 or 1 in i.src.shape[1:3],
            _INDIRECT,
            error=ShapeError,
            fix="reshape src to (rows, 1, …, columns)",
        ),
        rule(
            "DX11",
            "src {o[src]} has an index for each row; the number of rows must be a multiple of "
            "{t.dma_transpose_block_rows}",
            lambda i, t: not _indirect(i) or i.src.shape[0] % t.dma_transpose_block_rows == 0,
            _INDIRECT,
            error=ShapeError,
            fix="gather more rows and use some, or gather with nisa.dma_copy first",
        ),
        rule(
            "DX12",
            "the indices of the rows of '{i.src.name}' are {i.src.dynamic.source.dtype}",
            lambda i, t: not _indirect(i) or _indices(i).dtype.name == "uint32",
            _INDIRECT,
            error=DTypeError,
            fix="copy them to an nl.uint32 tile with nisa.tensor_copy",
        ),
        rule(
            "DX13",
            "the indices of the rows of '{i.src.name}' are a tile of {i.src.dynamic.source.shape}",
            lambda i, t: not _indirect(i) or _are_blocks(_indices(i), t),
            _INDIRECT,
            error=ShapeError,
            fix="pass (16 … 128, 1), the first a multiple of 16; or (128, columns)",
        ),
        rule(
            "DX14",
            "src {o[src]} has {i.src.shape[0]} rows, for which there are {i.src.dynamic.source.size} indices",
            lambda i, t: not _indirect(i) or _indices(i).size >= i.src.shape[0],
            _INDIRECT,
            error=ShapeError,
            fix="slice src to as many rows, or pass more indices: (128, columns) if there are more than 128",
        ),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        m.store(self.dst, m.load(permuted(self.src, _AXES[self.src.ndim])))

    def cost(self, target: Target) -> Estimate:
        """``bytes / (efficiency * bandwidth)`` in whole blocks of 128 partitions and 16 elements; a transpose uses a
        documented part of the bandwidth.
        """
        from_hbm = self.src.buffer.is_hbm
        efficiency = target.dma_transpose_efficiency if from_hbm else target.dma_transpose_sbuf_efficiency
        indirect = is_row_indexed(self.src)
        dge = dma_costs.dge_of(self.dge_mode.name, "unknown", target, indirect=indirect, accesses=(self.dst, self.src))
        return dma_costs.transposed(self.dst, target, efficiency, dge, by_rows=indirect)

    @classmethod
    def sample(cls, draw: Draw) -> DmaTranspose:
        dtype = draw.choice(COMPUTING)
        first, last = draw.choice((1, 3, 16, 33, 64)), draw.choice((1, 5, 32, 128))
        middle = draw.choice(((), (1,), (5,), (1, 4), (3, 2)))
        src = draw.hbm((first, *middle, last), dtype) if draw.flag() else draw.block(first, (*middle, last), dtype)
        return cls(draw.block(last, (*middle, first), dtype), src)
