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
from nki.base.dtype import DType
from nki.ir.types import Buffer
from nki.target.gen3 import GEN3

Shape = tuple[int, ...]
_BANK: Final = GEN3.psum_bank_bytes


class Allocator:
    """A memory together with the rule that gives each tile its address.

    ``rule(index, partitions, bytes)`` gives (first partition, byte) in SBUF, (bank, first partition, byte) in PSUM.
    """

    def __init__(self, buffer: Buffer, rule: Callable[[Shape, int, int], Any], counts: tuple[Shape, ...] = ()) -> None:
        self.buffer = buffer
        self.rule = rule
        self.counts = counts

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
                return given[0], given[1]
            if len(given) != 3:
                raise _wrong(label, given, "(bank, first partition, byte)")
            bank, partition, byte = given
            return partition, bank * _BANK + byte

        return address


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


class SbufAllocation:
    """``nki.compiler.sbuf``."""

    value = "sbuf"

    def auto_alloc(self) -> Buffer:
        """SBUF, at addresses that the compiler chooses."""
        return Buffer.sbuf

    def alloc(self, rule: Callable[..., Any]) -> Allocator:
        """SBUF, at ``rule(index, partitions, bytes)`` = (first partition, byte)."""
        return Allocator(Buffer.sbuf, _callback(rule))

    def mod_alloc(
        self, *, base_addr: int, base_partition: int = 0, num_par_tiles: Any = (), num_free_tiles: Any = ()
    ) -> Allocator:
        """SBUF, at addresses that repeat after so many tiles."""
        par, free = _tuple(num_par_tiles), _tuple(num_free_tiles)

        def rule(index: Shape, partitions: int, size: int) -> tuple[int, int]:
            return base_partition + _linear(par, index) * partitions, base_addr + _linear(free, index) * size

        return Allocator(Buffer.sbuf, rule, (par, free))


class PsumAllocation:
    """``nki.compiler.psum``."""

    value = "psum"

    def auto_alloc(self) -> Buffer:
        """PSUM, at addresses that the compiler chooses."""
        return Buffer.psum

    def alloc(self, rule: Callable[..., Any]) -> Allocator:
        """PSUM, at ``rule(index, partitions, bytes)`` = (bank, first partition, byte)."""
        return Allocator(Buffer.psum, _callback(rule))

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

        return Allocator(Buffer.psum, rule, (banks, par, free))


sbuf: Final = SbufAllocation()
psum: Final = PsumAllocation()


# Directives to the compiler of Beta 1, of which none changes anything here


def _same(func: Any = None, **_: Any) -> Any:
    return _itself if func is None else func


def _itself(func: Any) -> Any:
    return func


def skip_middle_end_transformations(func: Any = None, **options: Any) -> Any:
    """The function itself."""
    return _same(func, **options)


def enable_stack_allocator(func: Any = None, log_level: Any = None, **options: Any) -> Any:
    """The function itself."""
    del log_level
    return _same(func, **options)


def force_auto_alloc(func: Any = None, **options: Any) -> Any:
    """The function itself."""
    return _same(func, **options)


@contextmanager
def multi_buffer(factor: int = 1) -> Generator[None]:
    """Nothing: the compiler decides how many tiles are alive."""
    del factor
    yield


@contextmanager
def allocation_scope(*_: Any, **__: Any) -> Generator[None]:
    """Nothing: tiles live from their first use to their last."""
    yield
