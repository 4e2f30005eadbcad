"""Rules shared by the DMA instructions."""

from __future__ import annotations

from typing import Any

from nki.base.errors import ArgumentError, GenerationError, MemoryRegionError
from nki.ir.instruction import Inst, Rule
from nki.ir.types import Buffer, is_row_indexed
from nki.isa.tables import enums
from nki.target.model import Target

_MODE = enums.dge_mode
_GUIDE = "Descriptor generation guide, "
_REFERENCE = "NKI reference, nki.isa.dma_copy"


def skips(inst: Any) -> bool:
    """True if ``oob_mode`` skips rows with an index out of bounds."""
    return inst.oob_mode is enums.oob_mode.skip


def row_indexed(inst: Inst) -> bool:
    """True if an operand has a run-time index for each of its rows."""
    return any(map(is_row_indexed, inst.accesses()))


NO_PSUM = Rule(
    "DM01",
    "DMA cannot reach psum, where it would find {o[in psum]}",
    lambda i, t: all(a.buffer is not Buffer.psum for a in i.accesses()),
    "Release notes of NKI 0.3 (no DMA from PSUM)",
    MemoryRegionError,
    "move the tile between PSUM and SBUF with nisa.tensor_copy",
)

HARDWARE = Rule(
    "DM02",
    "hardware descriptor generation does not exist on {t.name}",
    lambda i, t: i.dge_mode is not _MODE.hwdge,
    _REFERENCE,
    GenerationError,
    "use nisa.dge_mode.swdge, or target trn2 or trn3",
    until=2,
)

PRIORITY = (
    Rule(
        "DM03",
        "priority={i.priority} is not one of 0, 1, 2, 3",
        lambda i, t: i.priority is None or i.priority in range(t.dma_priorities),
        _REFERENCE,
        ArgumentError,
        "pass 0 (most urgent) to 3, or None",
    ),
    Rule(
        "DM04",
        "priority needs gen4; {t.name} has no DMA quality of service",
        lambda i, t: i.priority is None,
        _REFERENCE,
        GenerationError,
        "leave priority out, or target trn3",
        until=3,
    ),
)

ROWS = (
    Rule(
        "DM05",
        "{t.name} has no DMA with an index for each row",
        lambda i, t: not row_indexed(i),
        _GUIDE + "mode selection summary (indirect: NeuronCore-v3 and newer); Beta 1 loads and stores by indices on "
        "NeuronCore-v2 (release 2.20.0, for this generation alone, has nl.load, nl.store and nl.atomic_rmw by indices)",
        GenerationError,
        "loop over the rows with one index each, or target trn2 or trn3",
        until=2,
        release="0.2",
    ),
    Rule(
        "DM06",
        "an operand outside hbm has an index for each row: {o[by rows]}",
        lambda i, t: all(a.buffer.is_hbm for a in i.accesses() if is_row_indexed(a)),
        _REFERENCE,
        MemoryRegionError,
        "copy the tensor to HBM first",
    ),
)

ROWS_MODE = Rule(
    "DM07",
    "dge_mode={i.dge_mode.name} cannot follow an index for each row; only software on GpSimd can",
    lambda i, t: not row_indexed(i) or i.dge_mode in (_MODE.unknown, _MODE.swdge),
    _GUIDE + "how access patterns affect the mode",
    ArgumentError,
    "leave dge_mode out, or pass nisa.dge_mode.swdge",
)


def _one_each(i: Any, t: Target) -> bool:
    rows = [a for a in i.accesses() if is_row_indexed(a)]
    return all((a.dynamic.source.shape[0], a.dynamic.source.free_elements) == (a.shape[0], 1) for a in rows)


ONE_COLUMN = Rule(
    "DM08",
    "the indices are no column with one for each row of {o[by rows]}",
    _one_each,
    _REFERENCE,
    fix="pass a column of (rows, 1), such as indices[0:rows, 0:1]; only nisa.dma_transpose takes more",
)
