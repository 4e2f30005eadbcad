"""Arguments that a kernel writes by reference, and that no run of it reads: results of a graph's call, no operands."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from nki.analysis.definite_initialization import maybe_uninitialized
from nki.base.locks import imported
from nki.frontend.capture import Captured
from nki.frontend.specialise import returns_nothing
from nki.ir.program import Program
from nki.ir.text import artifact

if TYPE_CHECKING:
    from nki.compilation.executable import Executable


def without_operands(executable: Executable, captured: Captured) -> Executable:
    """``executable``, to which a call passes only what it reads, if the kernel returns nothing by itself.

    An argument stays an operand, and the result shares its storage, if the kernel reads an element of it or may leave
    one as it is.
    """
    return _without_operands(executable) if returns_nothing(captured) else executable


@lru_cache(maxsize=256)
def _without_operands(executable: Executable) -> Executable:
    names = _only_written(executable.kernel)
    if not names:
        return executable
    program = artifact.loads(artifact.dumps(executable.kernel))  # tensors of its own: their role changes
    for tensor in program.inputs:
        tensor.role = "output" if tensor.name in names else tensor.role
    inputs = tuple(tensor for tensor in program.inputs if tensor.role == "input")
    program = replace(program, signature=replace(program.signature, inputs=inputs))
    executables: Any = imported("nki.compilation.executable")
    return executables.Executable.parsed(artifact.dumps(program), f"kernel {executable.name!r}")


def _only_written(program: Program) -> set[str]:
    """The inputs that the kernel returns and with former contents that reach nothing."""
    signature = program.signature
    changed = [tensor for tensor in signature.inputs if tensor in signature.outputs]
    others = tuple(tensor for tensor in signature.inputs if tensor not in changed)
    # What one core reads of what another writes is a question of stage hazards.
    everything = program.cores[0].with_body([statement for core in program.cores for statement in core.body])
    read = maybe_uninitialized(everything, replace(signature, inputs=others))
    return {tensor.name for tensor in changed if tensor not in read}


__all__ = ["without_operands"]
