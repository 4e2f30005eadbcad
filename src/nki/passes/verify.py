"""Stage ``verify``: every instruction obeys its rules, and the kernel as a whole can be called.

Instructions were verified as they were recorded; the instructions of a kernel that came as text or from an artifact are
verified here. ``OPEN_NKI_CHECK_STAGES=1`` verifies all of them. Windows are checked in any case: native code trusts
them.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar

from nki.base import knobs
from nki.base.errors import (
    CollectiveOrderError,
    ConstantWrittenError,
    CoreError,
    InputWrittenError,
    MemoryRegionError,
    NkiError,
    OutputUnwrittenError,
    StructureError,
)
from nki.ir.access_bounds import WindowChecker
from nki.ir.declaration.methods import accesses_of
from nki.ir.instruction import Inst, Rule
from nki.ir.loop import BOUNDS, For, While, instructions, is_register, loops
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import CoreStage
from nki.ir.types import Access, Buffer, Tensor
from nki.ir.verifier import check_tensor, verify
from nki.target.model import Target


@dataclass(frozen=True)
class Verify(CoreStage):
    """Stage ``verify``."""

    name: ClassVar[str] = "verify"

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:
        """``core`` itself. Raises the error of the first rule that is broken, at the user's line."""
        _tensors(core, target)
        _structure(core, program, target)
        _loops(core)
        known: dict[object, Sequence[Rule]] = {}
        windows = WindowChecker()
        again = knobs.check_stages()
        for inst in core.numbered:
            try:
                windows.check(inst)
                if again or inst.verified_for is not target:
                    verify(inst, target, known, program.release)
                if inst.effects.external:
                    check_cores(inst, core.rank, program.grid)
            except NkiError as error:
                raise error.at(inst.where.span, inst.where.stack) from None
        return core

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Inputs are written only if they are outputs, returned or hidden; every other output is written somewhere, on
        some core. All cores call the same collectives, on tensors that are no outputs.
        """
        if after.meets_ranks:
            check_collectives(after)
        check_returned(after, unless_swapped=True)
        written = {*after.inputs}
        fixed = {*after.inputs}.difference(after.outputs)
        writes_hbm: dict[object, bool] = {}  # by form; inputs, outputs and constants are in HBM
        for inst in after.instructions():
            form = inst.form
            matters = writes_hbm.get(form)
            if matters is None:
                matters = writes_hbm[form] = any(access.buffer.is_hbm for access in inst.writes())
            for access in inst.writes() if matters else ():
                tensor = access.tensor
                if tensor in written and tensor not in fixed:
                    continue
                if tensor.data is not None:
                    check_writes(inst)
                if tensor in fixed:
                    raise _input_written(inst, access, after.name, after.written())
                written.add(tensor)
        for tensor in after.outputs:
            if tensor not in written:
                raise OutputUnwrittenError(
                    f"kernel {after.name!r} returns '{tensor.name}' and never writes to it",
                    fix="copy the result into it with nisa.dma_copy",
                    span=tensor.span,
                )


def _tensors(core: CoreProgram, target: Target) -> None:
    """Every tensor can exist; tensors that differ in their names alone are checked once."""
    known: set[tuple[Any, ...]] = set()
    for tensor in core.tensors:
        form = (tensor.name.__class__, tensor.shape, tensor.dtype.name, tensor.buffer.word, tensor.address)
        if form in known:
            continue
        try:
            check_tensor(tensor.name, tensor.shape, tensor.dtype, tensor.buffer, tensor.address, target)
        except NkiError as error:
            raise error.at(tensor.span) from None
        known.add(form)


def _structure(core: CoreProgram, kernel: Program, target: Target) -> None:
    """Inputs and outputs are tensors that callers can pass and receive."""
    known, fix = set(core.tensors), "compare with the output of `nki dump`"
    for tensor in (*kernel.inputs, *kernel.outputs):
        if not tensor.buffer.is_hbm or tensor not in known:
            raise StructureError(f"'{tensor.name}' passes between kernel and caller and is not in HBM", fix=fix)
    for tensor in core.tensors:
        if not tensor.role and tensor.data is None:
            continue
        size = None if tensor.data is None else len(tensor.data.data)
        if (tensor.role == "constant" and tensor.buffer.is_hbm, size) not in ((True, tensor.nbytes), (False, None)):
            raise StructureError(f"'{tensor.name}' is no constant in HBM with the data that it needs", fix=fix)
    specs = zip(kernel.signature.output_specs(), kernel.outputs, strict=True)
    if any(
        math.prod(spec.shape) * spec.dtype.itemsize != tensor.nbytes or min(spec.shape, default=0) < 1
        for spec, tensor in specs
    ):
        raise StructureError(f"kernel {kernel.name!r} returns a tensor in a shape that it cannot have", fix=fix)
    if not kernel.signature.returned or len(set(kernel.outputs)) < len(kernel.outputs):
        raise StructureError(f"kernel {kernel.name!r} returns no tensor, or one of them twice", fix=fix)
    for role, tensors in (("input", {*kernel.inputs}), ("output", {*kernel.outputs}.difference(kernel.inputs))):
        if {t for t in core.tensors if t.role == role} != tensors:
            raise StructureError(f"the {role}s that kernel {kernel.name!r} declares and has are not the same", fix=fix)
    count = kernel.grid[0] if kernel.grid else 1
    if len(kernel.grid) > 1 or not 1 <= count <= target.logical_core_max or len(kernel.cores) != count:
        raise StructureError(
            f"kernel {kernel.name!r} has grid {kernel.grid} and programs for {len(kernel.cores)} cores; {target.name} "
            f"runs a kernel on at most {target.logical_core_max}",
            fix=fix,
        )


def _loops(core: CoreProgram) -> None:
    """Loops count in registers of their own, by steps that end."""
    fix = "compare with the output of `nki dump`"
    for loop in loops(core.body):
        names = [r.name for r in (loop.register, *loop.reads()) if not is_register(r)]
        if names:
            raise StructureError(f"'{names[0]}' controls a loop and is no register", fix=fix).at(loop.where.span)
        if isinstance(loop, While):
            continue
        if any(isinstance(bound, int) and bound not in BOUNDS for bound in (loop.start, loop.stop)):
            raise StructureError(
                f"the loop over '{loop.register.name}' has bounds {loop.start} and {loop.stop} that no register holds",
                fix=fix,
            ).at(loop.where.span)
        inside = [a for inst in instructions(loop.body) for a in accesses_of(inst, inst.write_names)]
        inside += [inner.register for inner in loops(loop.body) if isinstance(inner, For)]
        if loop.step not in BOUNDS or loop.step < 1 or any(a.tensor is loop.register.tensor for a in inside):
            raise StructureError(
                f"the loop over '{loop.register.name}' has step {loop.step}, or writes its own register", fix=fix
            ).at(loop.where.span)


def check_cores(inst: Inst, core: int, grid: tuple[int, ...]) -> None:
    """Raise if ``inst``, on this core, meets cores that the launch does not have, or leaves its own out."""
    if (barrier := inst.as_barrier()) is not None:
        wanted, argument = barrier.cores, barrier.argument
    elif (exchange := inst.as_exchange()) is not None:
        wanted, argument = (exchange.to, core), exchange.argument
    else:
        return
    count = grid[0] if grid else 1
    if max(wanted) >= count:
        raise CoreError(
            f"{inst.mnemonic}: {argument} names core {max(wanted)}; the kernel runs on {count} core{'s'[: count > 1]}",
            fix="launch it as kernel[2](…), or guard the call with `if nl.num_programs() > 1`",
        ).at(inst.where.span, inst.where.stack)
    if core not in wanted:
        raise CoreError(
            f"{inst.mnemonic}: {argument} leaves out core {core}, which runs it",
            fix="name both cores, or guard the call with nl.program_id",
        ).at(inst.where.span, inst.where.stack)


def check_collectives(program: Program) -> None:
    """Raise unless all cores call the same collectives in the same order, none of them on what the kernel returns. A
    core may ask for its rank on its own.
    """
    calls = [[inst for inst in core.numbered if _meets(inst)] for core in program.cores]
    for inst in calls[0]:
        for access in inst.accesses():
            if access.tensor in program.outputs:
                raise MemoryRegionError(
                    f"{inst.mnemonic}: '{access.name}' is returned, and a result is no operand of a collective",
                    fix="let the collective write a tensor of nl.ndarray(…, buffer=nl.shared_hbm, name=…), and copy it "
                    "to the result with nisa.dma_copy",
                ).at(inst.where.span, inst.where.stack)
    for rank, others in enumerate(calls[1:], 1):
        pairs: Iterable[tuple[Inst | None, Inst | None]] = zip_longest(calls[0], others)
        for one, other in pairs:
            if one is None or other is None or not _is_same_call(one, other):
                caller, known = (0, one) if one is not None else (rank, other)
                assert known is not None
                raise CollectiveOrderError(
                    f"core {caller} calls {known.mnemonic}, and core {rank - caller} does not: all cores of a rank "
                    "call each collective, with the same tensors in HBM",
                    fix="move the collective out of what depends on nl.program_id, and do not slice its tensors by it",
                ).at(known.where.span, known.where.stack)


def _meets(inst: Inst) -> bool:
    return (collective := inst.as_collective()) is not None and bool(collective.groups)


def _is_same_call(one: Inst, other: Inst) -> bool:
    if one.key() != other.key():
        return False
    pairs = zip(one.accesses(), other.accesses(), strict=True)
    return all(a.buffer is not Buffer.shared_hbm or a.equals(b) for a, b in pairs)


def check_writes(inst: Inst) -> None:
    """Raise if ``inst`` writes to a constant."""
    for access in inst.writes():
        if access.tensor.data is not None:
            raise ConstantWrittenError(
                f"{inst.mnemonic} writes to '{access.name}', a constant, which all launches and all cores share",
                fix="copy it to a tensor of its own first, with nisa.dma_copy",
            ).at(inst.where.span, inst.where.stack)


def check_returned(kernel: Program, *, unless_swapped: bool = False) -> None:
    """Raise :class:`InputWrittenError` if ``kernel`` changes an input that it does not return: for callers with arrays
    that cannot change. ``unless_swapped``: only if it writes there what nothing has written, its operands swapped.
    """
    hidden = kernel.outputs[len(kernel.signature.returned) :]
    written = kernel.written() if hidden else set[Tensor]()
    for inst in kernel.instructions() if hidden else ():
        for access in inst.writes():
            if access.tensor in hidden and not (unless_swapped and _never_written(inst, written) is None):
                raise _input_written(inst, access, kernel.name, written)


def _input_written(inst: Inst, access: Access, name: str, written: Container[Tensor]) -> NkiError:
    fix = (
        "return it as well: NumPy arrays and PyTorch tensors change in place, JAX arrays cannot; or allocate an output "
        "with nl.ndarray(…, buffer=nl.shared_hbm), write that and return it"
    )
    if (unwritten := _never_written(inst, written)) is not None:
        fix = (
            f"the destination comes first: nothing writes '{unwritten.name}', so pass it as dst, and '{access.name}' "
            f"in its place; if '{access.name}' is to change, {fix}"
        )
    return InputWrittenError(
        f"{inst.mnemonic} writes to '{access.name}', an input that kernel {name!r} does not return", fix=fix
    ).at(inst.where.span, inst.where.stack)


def _never_written(inst: Inst, written: Container[Tensor]) -> Tensor | None:
    """An operand of ``inst`` that is not among ``written``, and that is no input."""
    read = (access.tensor for access in inst.reads())
    memory = (tensor for tensor in read if tensor.buffer.word != "register" and tensor.role in ("", "output"))
    return next((tensor for tensor in memory if tensor not in written), None)
