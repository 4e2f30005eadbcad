"""Two cores in native code: an exchange of tiles is copies through shared memory, with meetings between them.

A meeting is the one thing that needs code of its own. Each core has a line of memory with the number of meetings that
it has come to, and what the last two were about; it waits until the other's number has reached its own. Both see the
same pair of subjects, so both notice when they are not the same, or when the other has ended.
"""

# llvmlite ships no type information.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import ctypes
import sys
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from llvmlite import ir

from nki.backend.cpu.runtime.dispatch import I8, I32, I64, POINTER, ROUTINE, STATUS, element
from nki.base.dtype import uint8
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, changed
from nki.ir.program import Program
from nki.ir.types import Access, Buffer, Tensor, row_major
from nki.isa.instructions.core_barrier import CoreBarrier
from nki.isa.instructions.dma_copy import DmaCopy
from nki.isa.instructions.sendrecv import Sendrecv
from nki.numerics.jit import engine

LINE: Final = 64
"""Bytes of a core's line: the count, whether it has ended, then subject and place of the last two meetings."""
_ENDED, _ABOUT = 8, 16
_PATIENCE: Final = 2000
"""Looks at the other core's line before the thread offers its processor to others."""
UNMET: Final = -1
"""Stands in the second word of the status, instead of an operand's number, when the cores did not meet."""


@dataclass(slots=True)
class Meetings:
    """The barriers of one core's program that stand for meetings: what each is about, and the user's instruction."""

    boxes: tuple[Tensor, Tensor]
    """Where core 0 and core 1 put what they send."""
    about: dict[int, tuple[int, Inst]] = field(default_factory=dict[int, tuple[int, Inst]])
    """By id of a barrier, which must live as long."""

    def barrier(self, inst: Inst, data: Access, *subject: Any) -> CoreBarrier:
        made = CoreBarrier(data, (0, 1))
        made.where = inst.where
        self.about[id(made)] = (zlib.crc32(repr(subject).encode()), inst)
        return made


def outboxes(kernel: Program) -> tuple[Tensor, Tensor]:
    """Shared memory in which each core leaves what it sends; as large as the largest exchange."""
    sizes = [
        inst.src.size * inst.src.dtype.itemsize
        for core in kernel.cores
        for inst in core.instructions()
        if isinstance(inst, Sendrecv)
    ]
    first, second = (Tensor(f"outbox {n}", (max(sizes, default=8),), uint8, Buffer.shared_hbm) for n in (0, 1))
    return first, second


def met(kernel: Program, meetings: Meetings) -> tuple[Statement, ...]:
    """The body of one core with every exchange as copies, and only those barriers at which another core is met."""

    def lowered(inst: Inst) -> Iterable[Inst]:
        if isinstance(inst, CoreBarrier):
            return (
                []
                if inst.together() == (kernel.core,)
                else [meetings.barrier(inst, inst.data, "core_barrier", inst.data.name)]
            )
        if not isinstance(inst, Sendrecv) or inst.send_to_rank == kernel.core:
            return [inst]
        mine, theirs = meetings.boxes[kernel.core], meetings.boxes[1 - kernel.core]
        shape, dtype = inst.src.shape, inst.src.dtype
        sent, received = (Access(box, 0, shape, row_major(shape), dtype) for box in (mine, theirs))
        subject = ("sendrecv", inst.pipe_id, shape, dtype.name)
        copies = DmaCopy(sent, inst.src), DmaCopy(inst.dst, received)
        for copy in copies:
            copy.where = inst.where
        return [
            copies[0],
            meetings.barrier(inst, sent, *subject, "sent"),
            copies[1],
            meetings.barrier(inst, received, *subject, "received"),
        ]

    return changed(kernel.body, lowered)


@cache
def address() -> int:
    """The routine of a meeting.

    Its arguments are the slots of this core's line, of the other's, and of the function that offers the processor to
    other threads; then the subject and the place (1 + the number of the instruction).
    """
    module = ir.Module("nki_meeting")
    _add_meet(module)
    return engine().compile(module)["nki_meet"]


@cache
def offer_address() -> int:
    """The operating system's function by which a thread lets others run."""
    if sys.platform == "win32":
        function: Any = ctypes.windll.kernel32.SwitchToThread  # type: ignore[attr-defined]
    else:
        function = ctypes.CDLL(None).sched_yield
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def end(line: int) -> None:
    """Say in the line at this address that its core has ended."""
    ctypes.c_int64.from_address(line + _ENDED).value = 1


def _word(number: int) -> Any:
    return ir.Constant(I64, number)


def _at(b: Any, line: Any, offset: Any) -> Any:
    return b.gep(line, [offset], source_etype=I8)


def _add_meet(module: ir.Module) -> None:
    function = ir.Function(module, ROUTINE, "nki_meet")
    bases, args, *_ = function.args
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    blocks = {name: function.append_basic_block(name) for name in ("come", "there", "other", "gone", "fail", "done")}
    mine, theirs = (element(b, bases, element(b, args, _word(i), I64), POINTER) for i in range(2))
    offer = element(b, bases, element(b, args, _word(2), I64), I64)
    subject, place = (element(b, args, _word(i), I64) for i in (3, 4))
    status = element(b, bases, _word(STATUS), POINTER)
    b.cbranch(b.icmp_signed("==", b.load(status, typ=I64), _word(0)), blocks["come"], blocks["done"])

    b.position_at_end(blocks["come"])
    count = b.add(b.load(mine, typ=I64), _word(1))
    entry = b.add(b.mul(b.and_(count, _word(1)), _word(16)), _word(_ABOUT))  # the other may be one meeting ahead
    b.store(subject, _at(b, mine, entry))
    b.store(place, _at(b, mine, b.add(entry, _word(8))))
    b.atomic_rmw("xchg", mine, count, "release")  # llvmlite cannot store atomically through opaque pointers
    _wait(b, theirs, count, offer, blocks)

    b.position_at_end(blocks["there"])
    same = b.icmp_signed("==", b.load(_at(b, theirs, entry), typ=I64), subject)
    b.cbranch(same, blocks["done"], blocks["other"])
    b.position_at_end(blocks["other"])
    there = b.load(_at(b, theirs, b.add(entry, _word(8))), typ=I64)
    b.branch(blocks["fail"])

    b.position_at_end(blocks["fail"])
    where = b.phi(I64)
    where.add_incoming(_word(0), blocks["gone"])
    where.add_incoming(there, blocks["other"])
    for offset, value in ((0, place), (8, _word(UNMET)), (16, where)):
        b.store(value, _at(b, status, _word(offset)))
    b.branch(blocks["done"])
    b.position_at_end(blocks["done"])
    b.ret_void()


def _wait(b: Any, theirs: Any, count: Any, offer: Any, blocks: dict[str, Any]) -> None:
    """Go on at ``there`` once the other core has come to meeting ``count``; at ``fail`` if it has ended instead."""
    come = b.block
    look, wait, rest = (b.append_basic_block(name) for name in ("look", "wait", "rest"))
    b.branch(look)

    b.position_at_end(look)
    looks = b.phi(I64)
    looks.add_incoming(_word(0), come)
    b.cbranch(_come(b, theirs, count), blocks["there"], wait)

    b.position_at_end(wait)
    ended = b.load_atomic(_at(b, theirs, _word(_ENDED)), "acquire", 8, typ=I64)
    b.cbranch(b.icmp_signed("!=", ended, _word(0)), blocks["gone"], rest)

    b.position_at_end(rest)
    with b.if_then(b.icmp_signed(">", looks, _word(_PATIENCE)), likely=False):
        b.call(b.inttoptr(offer, ir.FunctionType(I32, []).as_pointer()), [])
    looks.add_incoming(b.add(looks, _word(1)), b.block)
    b.branch(look)

    b.position_at_end(blocks["gone"])  # it may have come before it ended
    b.cbranch(_come(b, theirs, count), blocks["there"], blocks["fail"])


def _come(b: Any, theirs: Any, count: Any) -> Any:
    return b.icmp_signed(">=", b.load_atomic(theirs, "acquire", 8, typ=I64), count)
