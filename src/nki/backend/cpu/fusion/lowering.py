"""The kernel IR of any instruction of a program for native code."""

from __future__ import annotations

from nki.backend.cpu.fusion.epilogue import MatmulWithEpilogue, lower_with_epilogue
from nki.backend.cpu.fusion.group import FusionGroup
from nki.backend.cpu.fusion.parts import lower_group
from nki.backend.cpu.kernel_ir.builder import KernelIRBuilder
from nki.backend.cpu.kernel_ir.lower import lower
from nki.backend.cpu.kernel_ir.nodes import Aliases
from nki.backend.cpu.kernel_ir.verifier import verify
from nki.base import knobs
from nki.ir.instruction import Inst


def lower_any(inst: Inst, aliases: Aliases) -> KernelIRBuilder:
    """The kernel IR of an instruction, or of several as one, whose operands overlap as ``aliases`` says."""
    match inst:
        case FusionGroup():
            lowered = lower_group(inst)
        case MatmulWithEpilogue():
            lowered = lower_with_epilogue(inst)
        case _:
            return lower(inst, aliases)
    if knobs.check_stages():
        verify(lowered.statements, inst.mnemonic)
    return lowered
