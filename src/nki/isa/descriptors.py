"""Descriptors of DMA, for those who compile kernels and know no instruction."""

from __future__ import annotations

from nki.ir.instruction import Inst
from nki.isa.tables.enums import dge_mode


def static_where_free(inst: Inst) -> Inst:
    """``inst`` with descriptors that lie ready in HBM, if it is a DMA that leaves the choice to the compiler.

    An offset that only the run knows needs a generator: such a transfer stays as it is, and so does every other
    instruction.
    """
    mode = getattr(inst, "dge_mode", None)
    if mode is not dge_mode.unknown or any(access.dynamic is not None for access in inst.accesses()):
        return inst
    return inst.replace(dge_mode=dge_mode.none)
