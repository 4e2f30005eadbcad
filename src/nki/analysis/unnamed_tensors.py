"""The warning about unnamed tensors through which cores exchange data: NKI makes one of them for each core."""

from __future__ import annotations

from collections.abc import Mapping

from nki.analysis.byte_sets import ByteSet
from nki.base.warning import NkiPortabilityWarning, warn_at
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, Tensor
from nki.ir.windows import may_overlap


def warn_of_unnamed(program: Program, unnamed: Mapping[str, Tensor]) -> None:
    """Warn of each tensor of ``unnamed`` that is no result, and from which a core reads what another one writes."""
    for tensor in unnamed.values():
        if tensor.role or tensor.span is None:
            continue
        written = [_accesses(core, tensor, writes=True) for core in program.cores]
        for core in program.cores:
            other = _writer(core, tensor, written)
            if other is None:
                continue
            message = f"core {core.rank} reads from '{tensor.name}' what core {other} writes, but has a tensor of its "
            message += "own on the device: of what is in nl.shared_hbm, cores share what has a `name=` or is returned. "
            message += f"Write `name='{tensor.name}'`"
            warn_at(tensor.span, message, NkiPortabilityWarning)
            break


def _writer(core: CoreProgram, tensor: Tensor, written: list[list[Access]]) -> int | None:
    """A core that writes what ``core`` reads, and does not write itself."""
    own = ByteSet(tensor)
    for access in written[core.rank]:
        if access.dynamic is None:
            own.add(access)
    for read in _accesses(core, tensor, writes=False):
        if read.dynamic is None and own.contains(read):
            continue
        for other, accesses in enumerate(written):
            if other != core.rank and any(may_overlap(read, access) for access in accesses):
                return other
    return None


def _accesses(core: CoreProgram, tensor: Tensor, writes: bool) -> list[Access]:
    """The accesses of ``core`` to ``tensor``, or to its own tensor of that name."""
    found = (access for inst in core.instructions() for access in (inst.writes() if writes else inst.reads()))
    return [
        Access(tensor, access.offset, access.shape, access.strides, access.dtype, access.dynamic)
        for access in found
        if access.tensor.buffer is tensor.buffer and access.name == tensor.name
    ]


__all__ = ["warn_of_unnamed"]
