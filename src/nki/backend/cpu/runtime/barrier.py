"""Native barrier among any number of cores: a row at which a core waits until its peers have come to theirs.

Exchanges are copies through shared memory with barriers between them (:mod:`nki.transforms.lower_sendrecv`), so the
barrier is the only synchronisation with code of its own. Every ordered pair of cores has a line of shared memory: the
first core counts in it how often it has synchronised with the second, with the tag and the trap site of the last two
times. A core posts to the lines of all its peers, then waits until the count of each peer has reached its own. Both
cores of a pair see the same two tags, so both detect that these differ, or that the other core has ended.
"""

from __future__ import annotations

import ctypes
import sys
import zlib
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from llvmlite import ir

from nki.backend.cpu.runtime import poll
from nki.backend.cpu.runtime.dispatch import I8, I32, I64, POINTER, ROUTINE, count, element
from nki.backend.cpu.runtime.frame import ANYWHERE, CONTROL_BYTES, STATUS
from nki.numerics.jit import engine

LINE: Final = 64
"""Bytes of the line of an ordered pair: the count, 1 once the core has ended, then two records of tag and site."""
_ENDED, _RECORDS, _RECORD = 8, 16, 16
_PEERS, _PEER = 5, 3
"""Arguments of a row before those of its peers; arguments of each peer."""
_SPINS_BEFORE_YIELD: Final = 2000
DEADLOCK: Final = -1
"""Second word of the status, instead of the number of an operand, when cores do not meet."""


def lines_bytes(cores: int) -> int:
    """Bytes of the lines of all ordered pairs of ``cores`` cores, and of the control words behind them."""
    return LINE * cores * cores + CONTROL_BYTES


def control(cores: int) -> int:
    """Byte offset of the control words of a launch from its lines."""
    return LINE * cores * cores


def line(rank: int, peer: int, cores: int) -> int:
    """Byte offset of the line in which core ``rank`` counts for ``peer``."""
    return LINE * (rank * cores + peer)


def arguments(lines: int, yields: int, tag: str, site: int, rank: int, peers: Iterable[int], cores: int) -> list[int]:
    """The arguments of a barrier row of core ``rank``.

    ``lines`` and ``yields`` are the slots of the lines and of :func:`yield_address`; cores that meet pass one ``tag``.
    """
    peers = list(peers)
    args = [lines, yields, zlib.crc32(tag.encode()), site, len(peers)]
    for peer in peers:
        args += [line(rank, peer, cores), line(peer, rank, cores), peer]
    return args


@cache
def address() -> int:
    """The routine of a barrier row; see :func:`arguments`."""
    module = ir.Module("nki_barrier")
    _add_barrier(module)
    return engine().compile(module)["nki_barrier"]


@cache
def yield_address() -> int:
    """The operating system's function by which a thread lets others run."""
    if sys.platform == "win32":
        function: Any = ctypes.windll.kernel32.SwitchToThread  # type: ignore[attr-defined]
    else:
        function = ctypes.CDLL(None).sched_yield
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def add_end(b: Any, lines: Any, rank: Any, cores: Any) -> None:
    """Emit code that marks core ``rank`` as ended in the ``lines`` of ``cores`` cores."""
    first = _at(b, lines, b.mul(b.mul(rank, cores), _word(LINE)))
    count(b, cores, lambda peer: _end(b, _at(b, first, b.mul(peer, _word(LINE)))))


def _end(b: Any, own: Any) -> None:
    b.atomic_rmw("xchg", _at(b, own, _word(_ENDED)), _word(1), "release")


def _word(number: int) -> Any:
    return ir.Constant(I64, number)


def _at(b: Any, base: Any, offset: Any) -> Any:
    return b.gep(base, [offset], source_etype=I8)


def _add_barrier(module: ir.Module) -> None:
    function = ir.Function(module, ROUTINE, "nki_barrier")
    frame, args, *_ = function.args
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    lines = element(b, frame, element(b, args, _word(0), I64), POINTER)
    yields = element(b, frame, element(b, args, _word(1), I64), I64)
    tag, site, peers = (element(b, args, _word(i), I64) for i in (2, 3, 4))
    status = element(b, frame, _word(STATUS), POINTER)
    failed = b.icmp_signed("!=", b.load(status, typ=I64), _word(0))
    with b.if_then(failed, likely=False):
        b.ret_void()

    def argument(peer: Any, number: int) -> Any:
        return element(b, args, b.add(b.mul(peer, _word(_PEER)), _word(_PEERS + number)), I64)

    def post(peer: Any) -> None:
        own = _at(b, lines, argument(peer, 0))
        times = b.add(b.load(own, typ=I64), _word(1))
        record = _record(b, own, times)
        b.store(tag, record)
        b.store(site, _at(b, record, _word(8)))
        b.atomic_rmw("xchg", own, times, "release")  # llvmlite cannot store atomically through opaque pointers

    def wait(peer: Any) -> None:
        own, other = (_at(b, lines, argument(peer, number)) for number in (0, 1))
        times = b.load(own, typ=I64)
        record = _record(b, other, times)
        ended, met = _wait(b, frame, other, times, yields)
        blocks = {name: b.append_basic_block(name) for name in ("differs", "fail", "next")}
        b.position_at_end(met)
        b.cbranch(b.icmp_signed("==", b.load(record, typ=I64), tag), blocks["next"], blocks["differs"])
        b.position_at_end(blocks["differs"])
        other_site = b.load(_at(b, record, _word(8)), typ=I64)
        b.branch(blocks["fail"])
        b.position_at_end(ended)
        b.branch(blocks["fail"])
        b.position_at_end(blocks["fail"])
        reason = b.phi(I64)
        reason.add_incoming(_word(0), ended)
        reason.add_incoming(other_site, blocks["differs"])
        for number, value in enumerate((site, _word(DEADLOCK), reason, argument(peer, 2))):
            b.store(value, _at(b, status, _word(8 * number)))
        b.ret_void()
        b.position_at_end(blocks["next"])

    count(b, peers, post)
    count(b, peers, wait)
    b.ret_void()


def _record(b: Any, pair: Any, times: Any) -> Any:
    """The record of synchronisation number ``times``: two are enough, as one core is at most one ahead of the other."""
    return _at(b, pair, b.add(b.mul(b.and_(times, _word(1)), _word(_RECORD)), _word(_RECORDS)))


def _wait(b: Any, frame: Any, other: Any, times: Any, yields: Any) -> tuple[Any, Any]:
    """Wait until the count of line ``other`` is ``times``: the blocks where its core has ended instead, or has come.

    The routine returns if the launch is cancelled.
    """
    entry = b.block
    names = ("look", "check_ended", "spin", "recheck", "ended", "met")
    look, check_ended, spin, recheck, ended, met = (b.append_basic_block(name) for name in names)
    b.branch(look)

    b.position_at_end(look)
    looks = b.phi(I64)
    looks.add_incoming(_word(0), entry)
    b.cbranch(_has_come(b, other, times), met, check_ended)

    b.position_at_end(check_ended)
    flag = b.load_atomic(_at(b, other, _word(_ENDED)), "acquire", 8, typ=I64)
    b.cbranch(b.icmp_signed("!=", flag, _word(0)), recheck, spin)

    b.position_at_end(spin)
    with b.if_then(b.icmp_signed(">", looks, _word(_SPINS_BEFORE_YIELD)), likely=False):
        b.call(b.inttoptr(yields, ir.FunctionType(I32, []).as_pointer()), [])
        poll.poll_now(b, frame, _word(-ANYWHERE))
        with b.if_then(b.icmp_signed("!=", b.load(poll.slot(b, frame, STATUS), typ=I64), _word(0)), likely=False):
            b.ret_void()
    looks.add_incoming(b.add(looks, _word(1)), b.block)
    b.branch(look)

    b.position_at_end(recheck)  # the other core may have come before it ended
    b.cbranch(_has_come(b, other, times), met, ended)
    return ended, met


def _has_come(b: Any, other: Any, times: Any) -> Any:
    return b.icmp_signed(">=", b.load_atomic(other, "acquire", 8, typ=I64), times)
