"""Direct allocation: ``sbuf.alloc``, ``sbuf.mod_alloc``, ``psum.alloc``, ``psum.mod_alloc`` and ``auto_alloc``.

The directives of ``nki.compiler`` that stand beside them change nothing here.

Source of the formulas: NKI 2.26.1, direct allocation guide.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, cast

from nki.base.beta1_errors import Beta1AllocationError
from nki.base.element_types import DType
from nki.base.source import here
from nki.frontend.builder import current
from nki.ir.types import Buffer
from nki.target import GEN3

Shape = tuple[int, ...]
_BANK: Final = GEN3.psum_bank_bytes


class Allocator:
    """A memory together with the rule that gives each tile its address.

    ``rule(index, partitions, bytes)`` gives (first partition, byte) in SBUF, (bank, first partition, byte) in PSUM.
    """

    def __init__(
        self, buffer: Buffer, rule: Callable[[Shape, int, int], Any], given: dict[str, Any], *counts: Shape
    ) -> None:
        self.buffer = buffer
        self.rule = rule
        self.counts = counts
        self.given = {name: value for name, value in given.items() if value not in (0, ())}
        """The arguments of the allocator that are no defaults; ``alloc`` has its rule alone."""
        self.where = here(3)

    def address_of(self, tile: Shape, kind: DType, blocks: int, label: str) -> Callable[[Shape], tuple[int, int]]:
        """The function from a block index to (first partition, byte) of the tile there."""
        size = math.prod(tile[1:]) * kind.itemsize
        for count in self.counts:
            if blocks and count and len(count) != blocks:
                raise Beta1AllocationError(
                    f"'{label}' has {blocks} block dimensions, and its allocation numbers of tiles for {len(count)}",
                    fix="give a number of tiles for each block dimension",
                )

        def address(index: Shape) -> tuple[int, int]:
            given = tuple(int(n) for n in self.rule(index, tile[0], size))
            if self.buffer is Buffer.sbuf:
                if len(given) != 2:
                    raise _wrong(label, given, "(first partition, byte)")
                partition, byte = given
            elif len(given) != 3:
                raise _wrong(label, given, "(bank, first partition, byte)")
            else:
                partition, byte = given[1], given[0] * _BANK + given[2]
            self._check(f"'{label}' {tile} {kind}", index, (partition, tile[0]), (byte, size))
            return partition, byte

        return address

    def _check(self, what: str, index: Shape, rows: tuple[int, int], space: tuple[int, int]) -> None:
        """Raise unless so many partitions and bytes from the first ones on are there, and begin a bank in PSUM."""
        target, memory = current("an allocation").target, self.buffer.value
        limit = target.sbuf_partition_bytes if self.buffer is Buffer.sbuf else target.psum_partition_bytes
        (partition, height), (byte, size) = rows, space
        place = f"block {index} of {what}" if index else what
        name, message = "", ""
        if not 0 <= partition <= target.partitions - height:
            name = "base_partition"
            message = f"at partitions {partition} to {partition + height - 1}; {target.name} has {target.partitions}"
            most = target.partitions - height - partition
        elif not 0 <= byte <= limit - size:
            name = "base_addr" if self.buffer is Buffer.sbuf or "base_addr" in self.given else "base_bank"
            message = f"at bytes {byte} to {byte + size - 1} of each partition; {memory} of {target.name} has {limit}"
            most = limit - size - byte
        elif self.buffer is Buffer.psum and byte % _BANK:
            name = "base_addr"
            message = f"at byte {byte % _BANK} of a bank; a tile in PSUM begins at the beginning of one"
            most = 0
        else:
            return
        call = f"{memory}.mod_alloc" if "rule" not in self.given else f"the rule of {memory}.alloc"
        start = self.given.get(name, 0)
        if "rule" in self.given:
            fix = "let it return a place inside of the memory"
        elif name == "base_addr" and self.buffer is Buffer.psum:
            fix = "leave base_addr out"
        else:
            step = _BANK if name == "base_bank" else 1
            last = max(start + most // step, 0)
            fix = f"choose {name} {f'from 0 to {last}' if last else '0'}, or smaller tiles"
        puts = f"{call} puts" if "rule" in self.given else f"{name}={start} of {call} puts"
        raise Beta1AllocationError(f"{puts} {place} {message}", fix=fix, span=self.where.span, stack=self.where.stack)


def _wrong(label: str, given: Shape, form: str) -> Beta1AllocationError:
    return Beta1AllocationError(f"the allocation of '{label}' gives {given}, not {form}", fix=f"return {form}")


def _linear(tiles: Shape, index: Shape) -> int:
    """The row-major number of ``index``, taken modulo ``tiles``."""
    counts = (tiles if index else ()) or (1,) * len(index)
    number = 0
    for i, count in zip(index, counts, strict=True):
        number = number * count + i % count
    return number


def _tuple(tiles: Any) -> Shape:
    entries = cast("tuple[Any, ...]", tiles) if isinstance(tiles, tuple | list) else (tiles,)
    return tuple(int(n) for n in entries)


def _callback(rule: Callable[..., Any]) -> Callable[[Shape, int, int], Any]:
    """A user's rule; it gets its arguments by the documented names where it has these."""

    def call(index: Shape, partitions: int, size: int) -> Any:
        named = {"idx": index, "pdim_size": partitions, "fdim_size": size}
        by_name = named.keys() <= inspect.signature(rule).parameters.keys()
        return rule(**named) if by_name else rule(index, partitions, size)

    return call


class _OnChip:
    """A memory as ``buffer=``, where the compiler or a rule chooses addresses."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.value = buffer.value

    def auto_alloc(self) -> Buffer:
        """The memory, at addresses that the compiler chooses."""
        return self.buffer

    def alloc(self, rule: Callable[..., Any]) -> Allocator:
        """The memory, at ``rule(index, partitions, bytes)``: (first partition, byte), in PSUM behind a bank."""
        return Allocator(self.buffer, _callback(rule), {"rule": rule})


class SbufAllocation(_OnChip):
    """``nki.compiler.sbuf``."""

    def mod_alloc(
        self, *, base_addr: int, base_partition: int = 0, num_par_tiles: Any = (), num_free_tiles: Any = ()
    ) -> Allocator:
        """SBUF, at addresses that repeat after so many tiles."""
        par, free = _tuple(num_par_tiles), _tuple(num_free_tiles)

        def rule(index: Shape, partitions: int, size: int) -> tuple[int, int]:
            return base_partition + _linear(par, index) * partitions, base_addr + _linear(free, index) * size

        return Allocator(Buffer.sbuf, rule, {"base_addr": base_addr, "base_partition": base_partition}, par, free)


class PsumAllocation(_OnChip):
    """``nki.compiler.psum``."""

    def mod_alloc(
        self,
        *,
        base_bank: int,
        base_addr: int = 0,
        base_partition: int = 0,
        num_bank_tiles: Any = (),
        num_par_tiles: Any = (),
        num_free_tiles: Any = (),
    ) -> Allocator:
        """PSUM, at banks and addresses that repeat after so many tiles."""
        banks, par, free = _tuple(num_bank_tiles), _tuple(num_par_tiles), _tuple(num_free_tiles)

        def rule(index: Shape, partitions: int, size: int) -> tuple[int, int, int]:
            return (
                base_bank + _linear(banks, index),
                base_partition + _linear(par, index) * partitions,
                base_addr + _linear(free, index) * size,
            )

        given = {"base_bank": base_bank, "base_addr": base_addr, "base_partition": base_partition}
        return Allocator(Buffer.psum, rule, given, banks, par, free)


sbuf: Final = SbufAllocation(Buffer.sbuf)
psum: Final = PsumAllocation(Buffer.psum)


# Directives to the compiler of Beta 1; none changes anything here


def unchanged(func: Any = None, log_level: Any = None, **_: Any) -> Any:
    """The function itself, with or without options in front."""
    del log_level
    return unchanged if func is None else func


skip_middle_end_transformations = enable_stack_allocator = force_auto_alloc = unchanged


@contextmanager
def multi_buffer(factor: int = 1) -> Generator[None]:
    """Nothing: the compiler decides how many tiles are alive."""
    del factor
    yield


@contextmanager
def allocation_scope(*_: Any, **__: Any) -> Generator[None]:
    """Nothing: tiles live from their first use to their last."""
    yield
