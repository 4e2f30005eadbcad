"""Parallel regions: rows that run for one chunk of partitions after the other, or for several at one time.

No partition that a row of a region uses meets what another row does in another partition
(:mod:`nki.backend.cpu.runtime.region_builder`). So chunks may run in any order, each through all rows: one thread runs
chunks whose data fit the cache, a team (:mod:`nki.backend.cpu.runtime.team`) runs them side by side. The bits are those
of the rows one after the other.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from llvmlite import ir

from nki.backend.cpu.loop_ir.nodes import GRANULE
from nki.backend.cpu.runtime import poll, team
from nki.backend.cpu.runtime.dispatch import I8, I32, I64, POINTER, ROUTINE, VOID, count, element
from nki.backend.cpu.runtime.frame import (
    ANYWHERE,
    ARENA,
    ARGS,
    HELPER_STEP,
    HELPERS,
    SCRATCH,
    STATUS,
    STATUS_BYTES,
    TABLE,
    TEAM,
    THREADS,
)
from nki.backend.cpu.runtime.interpreter import call_libc
from nki.numerics.jit import engine
from nki.numerics.llvm import Variable, i64, smaller, while_

FRAME: Final = ir.FunctionType(VOID, [POINTER])
_YIELDS_BEFORE_SLEEP: Final = 200
_SLEEP: Final = 50
"""Microseconds."""


def address() -> int:
    """The routine of a region. Its arguments are the first row, the number of rows, the partitions of the largest one,
    and the partitions of a chunk whose data fit the cache.
    """
    return _addresses()["nki_region"]


def begin_address() -> int:
    """``void begin(frame)``: let the team of the frame help this launch, or take it out of the frame if it is busy."""
    return _addresses()["nki_begin"]


def end_address() -> int:
    """``void end(frame)``: let the team of the frame, if it has one, help other launches."""
    return _addresses()["nki_end"]


@cache
def _addresses() -> dict[str, int]:
    return engine().fixed("nki_region", _module)


def _module() -> ir.Module:
    module = ir.Module("nki_region")
    _add_region(module, team.add_walk_range(module))
    _add_begin(module)
    _add_end(module)
    return module


def _add_region(module: ir.Module, walk: ir.Function) -> None:
    function = ir.Function(module, ROUTINE, "nki_region")
    frame, args, *_ = function.args
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    first, number, partitions, block = (element(b, args, i64(i), I64) for i in range(4))
    table, arguments, status = (element(b, frame, i64(slot), POINTER) for slot in (TABLE, ARGS, STATUS))
    rows = b.gep(table, [b.mul(first, i64(16))], source_etype=I8)
    members = element(b, frame, i64(TEAM), POINTER)
    countdown = poll.countdown(b, frame)

    def run(start: Any, size: Any) -> None:
        b.call(walk, [rows, number, arguments, frame, start, b.add(start, size)])
        poll.poll(b, frame, countdown, i64(-ANYWHERE))

    def well() -> Any:
        return b.icmp_signed("==", b.load(status, typ=I64), i64(0))

    with b.if_then(b.icmp_signed("==", b.ptrtoint(members, I64), i64(0))):
        start = Variable(b)
        start.set(i64(0))
        with while_(b, lambda: b.and_(b.icmp_signed("<", start.get(), partitions), well())):
            run(start.get(), block)
            start.set(b.add(start.get(), block))
        b.ret_void()
    threads = element(b, frame, i64(THREADS), I64)
    share = _rounded(b, _divided_up(b, partitions, threads))
    least = _rounded(b, _divided_up(b, partitions, i64(team.MOST_CHUNKS)))
    size = smaller(b, block, share)
    size = b.select(b.icmp_signed("<", size, least), least, size)
    chunks = _divided_up(b, partitions, size)
    _offer(b, frame, members, (rows, number, arguments), (size, chunks, threads))

    def has_free() -> Any:
        return b.icmp_signed("!=", b.and_(team.load(b, members, team.TICKET), i64(team.FREE)), i64(0))

    def take(chunk: Any) -> None:
        with b.if_then(well()):
            run(b.mul(chunk, size), size)

    with while_(b, has_free):
        ticket = team.load(b, members, team.TICKET)
        with b.if_then(b.icmp_signed("!=", b.and_(ticket, i64(team.FREE)), i64(0))):
            team.take_chunk(b, members, ticket, i64(0), take)
    _await(b, members, chunks)
    _merge_errors(b, frame, threads)
    b.ret_void()


def _divided_up(b: Any, number: Any, by: Any) -> Any:
    return b.udiv(b.add(number, b.sub(by, i64(1))), by)


def _rounded(b: Any, partitions: Any) -> Any:
    """``partitions`` rounded up to whole granules."""
    return b.and_(b.add(partitions, i64(GRANULE - 1)), i64(-GRANULE))


def _offer(b: Any, frame: Any, members: Any, rows: tuple[Any, Any, Any], sizes: tuple[Any, Any, Any]) -> None:
    """Offer chunks of ``rows`` (address, number, arguments); ``sizes``: of a chunk, number of chunks, threads."""
    words = [element(b, frame, i64(slot), I64) for slot in (HELPERS, HELPER_STEP)]
    words += [b.ptrtoint(rows[0], I64), rows[1], b.ptrtoint(rows[2], I64), *sizes]
    offer = team.word(b, members, team.OFFER)
    for position, value in enumerate(words):
        b.store(value, b.gep(offer, [i64(8 * position)], source_etype=I8))
    b.store(i64(0), team.word(b, members, team.DONE))
    past = b.lshr(team.load(b, members, team.TICKET), i64(team.MOST_CHUNKS))
    free = b.lshr(i64(team.FREE), b.sub(i64(team.MOST_CHUNKS), sizes[1]))
    ticket = b.or_(b.shl(b.add(past, i64(1)), i64(team.MOST_CHUNKS)), free)
    b.atomic_rmw("xchg", team.word(b, members, team.TICKET), ticket, "seq_cst")
    team.wake(b, members)


def _await(b: Any, members: Any, chunks: Any) -> None:
    """Wait until all chunks are done: spin, then let other threads run, then sleep."""
    rounds = Variable(b)
    rounds.set(i64(0))
    with while_(b, lambda: b.icmp_signed("<", team.load(b, members, team.DONE), chunks)):
        team.pause(b)
        rounds.set(b.add(rounds.get(), i64(1)))
        with b.if_then(b.icmp_signed(">", rounds.get(), i64(team.SPINS)), likely=False):
            is_long = b.icmp_signed(">", rounds.get(), i64(team.SPINS + _YIELDS_BEFORE_SLEEP))
            with b.if_else(is_long) as (then, otherwise):
                with then:
                    call_libc(b, "usleep", I32, [ir.Constant(I32, _SLEEP)])
                with otherwise:
                    call_libc(b, "sched_yield", I32, [])


def _helper(b: Any, frame: Any, index: Any) -> Any:
    """The address of the frame of a helper, numbered from 0."""
    step = element(b, frame, i64(HELPER_STEP), I64)
    return b.gep(element(b, frame, i64(HELPERS), POINTER), [b.mul(index, step)], source_etype=I8)


def _distance(b: Any, frame: Any, slot: int) -> Any:
    """Bytes from ``frame`` to the address in one of its slots."""
    return b.sub(element(b, frame, i64(slot), I64), b.ptrtoint(frame, I64))


def _merge_errors(b: Any, frame: Any, threads: Any) -> None:
    """Take over the status of a helper that has failed. All chunks fail in the same row, if any does."""
    own, to_status = element(b, frame, i64(STATUS), POINTER), _distance(b, frame, STATUS)

    def helper(index: Any) -> None:
        status = b.gep(_helper(b, frame, index), [to_status], source_etype=I8)
        failed = b.icmp_signed("!=", b.load(status, typ=I64), i64(0))
        first = b.icmp_signed("==", b.load(own, typ=I64), i64(0))
        with b.if_then(b.and_(failed, first), likely=False):
            for number in range(4):
                value = b.load(poll.word(b, status, number), typ=I64)
                b.store(value, poll.word(b, own, number))

    count(b, b.sub(threads, i64(1)), helper)


def _add_begin(module: ir.Module) -> None:
    function = ir.Function(module, FRAME, "nki_begin")
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    frame = function.args[0]
    members = element(b, frame, i64(TEAM), POINTER)
    was_busy = b.atomic_rmw("xchg", team.word(b, members, team.BUSY), i64(1), "seq_cst")
    with b.if_then(b.icmp_signed("!=", was_busy, i64(0)), likely=False):
        b.store(i64(0), poll.word(b, frame, TEAM))
        b.ret_void()
    to_status, to_scratch = _distance(b, frame, STATUS), _distance(b, frame, ARENA)

    def helper(index: Any) -> None:
        other = _helper(b, frame, index)

        def copy(number: Any) -> None:
            b.store(element(b, frame, number, I64), b.gep(other, [b.mul(number, i64(8))], source_etype=I8))

        count(b, b.lshr(to_status, i64(3)), copy)
        status = b.gep(other, [to_status], source_etype=I8)
        b.store(status, poll.word(b, other, STATUS))
        b.store(b.gep(other, [to_scratch], source_etype=I8), poll.word(b, other, SCRATCH))
        for number in range(STATUS_BYTES // 8):
            b.store(i64(0), poll.word(b, status, number))

    count(b, b.sub(element(b, frame, i64(THREADS), I64), i64(1)), helper)
    b.ret_void()


def _add_end(module: ir.Module) -> None:
    function = ir.Function(module, FRAME, "nki_end")
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    members = element(b, function.args[0], i64(TEAM), POINTER)
    with b.if_then(b.icmp_signed("!=", b.ptrtoint(members, I64), i64(0))):
        b.atomic_rmw("xchg", team.word(b, members, team.BUSY), i64(0), "seq_cst")
    b.ret_void()
