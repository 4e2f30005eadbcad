"""A specialised kernel: a signature and a program for each core; and the builder that records one."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from nki.base.dtype import DType, int32
from nki.base.errors import (
    ArgumentError,
    CapacityError,
    LoopScopeError,
    NkiError,
    OutsideKernelError,
    PartitionError,
    PsumError,
    ShapeError,
    SharedTensorError,
)
from nki.base.source import Where, here
from nki.base.version import version
from nki.ir.constant import Constant
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement, declared, instructions
from nki.ir.ordering import connect_wanted
from nki.ir.register import VirtualRegister
from nki.ir.rng_state import VECTOR_WORDS
from nki.ir.types import Access, Buffer, Tensor, TensorSpec
from nki.ir.verifier import verify
from nki.target.model import Target

REGISTER_BYTES = 4 * VECTOR_WORDS
"""The largest state that a lane of an engine keeps: random number generators."""
MAX_DIMS = 5
"""Dimensions that an access pattern can have on chip (NKI access-pattern guide)."""


Placement = Mapping[Tensor, tuple[int, int]]
"""Where tensors on chip lie: ``(first partition, byte offset in the partition)``."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The tensors that a kernel exchanges with its caller; all cores share them.

    ``inputs`` and ``outputs`` are HBM tensors in the caller's order; ``sequence``: the kernel returned a tuple or list.
    An output that is also an input is an input that the kernel changes. ``shapes`` are the shapes in which outputs are
    returned; empty where each is the shape of its tensor.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    sequence: bool
    shapes: tuple[tuple[int, ...], ...] = ()

    def input_specs(self) -> tuple[TensorSpec, ...]:
        """Name, shape and dtype of each input."""
        return tuple(TensorSpec(t.name, t.shape, t.dtype) for t in self.inputs)

    def output_specs(self) -> tuple[TensorSpec, ...]:
        """Name, shape and dtype of each output, as the caller receives it."""
        shapes = self.shapes or tuple(t.shape for t in self.outputs)
        return tuple(TensorSpec(t.name, shape, t.dtype) for t, shape in zip(self.outputs, shapes, strict=True))

    def changed_inputs(self) -> dict[int, int]:
        """The inputs that the kernel returns, changed or not: position among the inputs by that among the outputs."""
        positions = {tensor: i for i, tensor in enumerate(self.inputs)}
        return {o: positions[tensor] for o, tensor in enumerate(self.outputs) if tensor in positions}


@dataclass(slots=True)
class CoreProgram:
    """The program of one core: instructions, and loops that run on the device.

    ``rank`` is the number of the core in the grid. ``tensors`` holds every tensor that the core uses, inputs first, in
    the order of their creation; tensors of loops last. ``placement`` says where each tensor on chip lies; it is empty
    until stage ``allocate``, and leaves out tensors that no instruction touches.
    """

    rank: int
    body: tuple[Statement, ...]
    tensors: tuple[Tensor, ...]
    placement: Placement = field(default_factory=dict[Tensor, tuple[int, int]])

    def with_body(self, body: Sequence[Statement]) -> CoreProgram:
        """The same core with other instructions."""
        return replace(self, body=tuple(body))

    def instructions(self) -> Iterator[Inst]:
        """All instructions in program order, including those in the bodies of loops."""
        return instructions(self.body)

    def constants(self) -> list[Tensor]:
        """The tensors whose contents are a part of the kernel, in the order of :attr:`tensors`."""
        return [tensor for tensor in self.tensors if tensor.data is not None]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CoreProgram):
            return NotImplemented
        return self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]

    def _content(self) -> tuple[Any, ...]:
        tensors = [(t.name, t.shape, t.dtype.name, t.buffer, t.address, t.role, t.data) for t in self.tensors]
        return (self.rank, tensors, {t.name: place for t, place in self.placement.items()}, self.body)


@dataclass(slots=True)
class Program:
    """A kernel that is specialised for one target: a signature, and a program for each core of the grid.

    Inputs, outputs, constants and the tensors that several cores create under one name in ``nl.shared_hbm`` are the
    same :class:`Tensor` in the program of every core.
    """

    name: str
    target: str
    grid: tuple[int, ...]
    signature: Signature
    cores: tuple[CoreProgram, ...]
    version: str = field(default_factory=version)

    @classmethod
    def of(cls, parts: Sequence[Program]) -> Program:
        """The program whose cores are those of ``parts``. Raises unless all of them return the same shared tensors."""
        first, *others = parts
        for other in others:
            one, two = first.signature, other.signature
            if (two.outputs, two.sequence, two.shapes) != (one.outputs, one.sequence, one.shapes):
                returned = [", ".join(f"'{t.name}' in {t.buffer.value}" for t in s.outputs) for s in (one, two)]
                raise SharedTensorError(
                    f"core 0 of kernel {first.name!r} returns {returned[0]}, core {other.core.rank} returns "
                    f"{returned[1]}: these are not the same tensors",
                    fix="return, on every core, tensors that are allocated with buffer=nl.shared_hbm",
                    span=one.outputs[0].span,
                )
        return first.with_cores(core for part in parts for core in part.cores)

    @property
    def core(self) -> CoreProgram:
        """The only core of a program that has one."""
        (core,) = self.cores
        return core

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.signature.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self.signature.outputs

    @property
    def size(self) -> int:
        """The number of instructions on all cores, those of loops counted once."""
        return sum(1 for _ in self.instructions())

    def instructions(self) -> Iterator[Inst]:
        """The instructions of all cores, one core after the other."""
        return (inst for core in self.cores for inst in core.instructions())

    def with_cores(self, cores: Iterable[CoreProgram]) -> Program:
        """The same program with other cores."""
        return replace(self, cores=tuple(cores))

    def shared(self) -> list[Tensor]:
        """The internal tensors that more than one core uses, in the order of the first core's tensors."""
        first, *others = self.cores
        elsewhere = {tensor for other in others for tensor in other.tensors}
        return [t for t in first.tensors if t.buffer is Buffer.shared_hbm and not t.role and t in elsewhere]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program):
            return NotImplemented
        return self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]

    def _content(self) -> tuple[Any, ...]:
        s = self.signature
        names = [t.name for t in s.inputs], [t.name for t in s.outputs]
        return (self.name, self.target, self.grid, self.version, s.sequence, s.shapes, names, self.cores)


class Observer:
    """What watches a kernel being recorded; this one does nothing. The eager simulator runs what it sees."""

    def made(self, tensor: Tensor) -> None:
        """``tensor`` was allocated."""

    def emitted(self, inst: Inst) -> None:
        """``inst`` was recorded."""

    def entered(self, loop: Loop) -> None:
        """The body of ``loop`` begins; it has none yet."""

    def left(self, loop: Loop) -> None:
        """The body of ``loop`` is complete."""

    def unrolling(self, where: Where) -> None:
        """A loop begins whose iterations, recorded one after the other, are said not to depend on each other."""

    def iterating(self) -> None:
        """The next iteration of the innermost of these loops begins."""

    def unrolled(self) -> None:
        """The innermost of these loops has ended."""


@dataclass(slots=True)
class _Around:
    """What the builder goes back to when a loop's body ends."""

    loop: Loop
    body: list[Statement]
    tensors: list[Tensor]


@dataclass(slots=True)
class Builder:
    """Records tensors, instructions and loops of one kernel as they are made.

    ``program`` is the number of the core, ``common`` what all cores of the grid share so far, by name. ``observer``
    sees everything right after it was recorded. ``failed`` is a mistake that was noticed where nothing
    can be raised; the next thing that is recorded raises it.
    """

    name: str
    target: Target
    grid: tuple[int, ...] = ()
    program: int = 0
    observer: Observer | None = None
    common: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    tensors: list[Tensor] = field(default_factory=list[Tensor])
    body: list[Statement] = field(default_factory=list[Statement])
    failed: NkiError | None = None
    ordered: int = 0
    """How many ``nl.no_reorder`` blocks are open."""
    _ordered_from: int = 0
    _names: dict[str, int] = field(default_factory=dict[str, int])
    _known: dict[tuple[Any, ...], bool] = field(default_factory=dict[tuple[Any, ...], bool])
    _state: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    _constants: dict[tuple[Any, ...], Tensor] = field(default_factory=dict[tuple[Any, ...], Tensor])
    _around: list[_Around] = field(default_factory=list[_Around])
    _ended: dict[Tensor, Loop] = field(default_factory=dict[Tensor, Loop])

    def tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: DType,
        buffer: Buffer,
        *,
        address: tuple[int, int] | None = None,
        role: str = "",
        where: Where | None = None,
    ) -> Tensor:
        """A new tensor. A name that is taken gets ``.1``, ``.2``, … behind it."""
        if self.failed is not None:
            raise self.failed
        check_tensor(name, shape, dtype, buffer, address, self.target)
        made = Tensor(self._unique(name), shape, dtype, buffer, address, role, where.span if where else None)
        if buffer is Buffer.shared_hbm or role:
            made = self._shared(made)
        self.tensors.append(made)
        if self.observer is not None:
            self.observer.made(made)
        return made

    def _shared(self, made: Tensor) -> Tensor:
        """``made``, or what another core has made under its name."""
        found = self.common.setdefault(made.name, made)
        if (found.shape, found.dtype, found.data) != (made.shape, made.dtype, made.data):
            raise SharedTensorError(
                f"core {self.program} makes the shared tensor '{made.name}' as {made.shape} {made.dtype}; another core "
                f"has made it as {found.shape} {found.dtype}",
                fix="make what cores share in code that does not depend on nl.program_id, or name tensors apart",
                span=made.span,
            )
        return found

    def _unique(self, name: str) -> str:
        unique = name
        while unique in self._names:
            self._names[name] += 1
            unique = f"{name}.{self._names[name]}"
        self._names[unique] = 0
        return unique

    def register(self, name: str, where: Where, *, frozen: bool = False) -> VirtualRegister:
        """A new scalar register."""
        return VirtualRegister(self.tensor(name, (1, 1), int32, Buffer.register, where=where), frozen)

    def emit(self, inst: Inst) -> None:
        """Verify and record ``inst`` at the user's current line."""
        inst.where = here("specialise.py")
        verify(inst, self.target, self._known)
        if self.failed is not None:
            raise self.failed
        if self._ended:
            self._check_scope([*inst.accesses(), *inst.indexed_by()])
        self.body.append(inst)
        if self.observer is not None:
            self.observer.emitted(inst)

    def open(self, loop: Loop) -> None:
        """What is recorded from now on is the body of ``loop``, until :meth:`close`."""
        if self.failed is not None:
            raise self.failed
        self._check_scope([loop.register, *loop.reads()])
        self._around.append(_Around(loop, self.body, self.tensors))
        self.body, self.tensors = [], []
        if self.observer is not None:
            self.observer.entered(loop)

    def close(self) -> Loop:
        """End the body of the innermost open loop and record the loop."""
        around = self._around.pop()
        loop = replace(around.loop, body=tuple(self.body), tensors=tuple(self.tensors))
        self._ended.update(dict.fromkeys(self.tensors, loop))
        self.body, self.tensors = around.body, around.tensors
        self.body.append(loop)
        if self.observer is not None:
            self.observer.left(loop)
        return loop

    def begin_order(self) -> None:
        """What is recorded from now on runs in the order of the program, until :meth:`end_order`."""
        if not self.ordered:
            self._ordered_from = len(self.body)
        self.ordered += 1

    def end_order(self) -> None:
        """End the innermost ordered block. No loop begins or ends in one, so all of it stands in one body."""
        self.ordered -= 1
        if not self.ordered:
            block = [s for s in self.body[self._ordered_from :] if isinstance(s, Inst)]
            for earlier, later in pairwise(block):
                later.wants(earlier, later.where)

    @property
    def in_loop(self) -> bool:
        """Whether the body of a loop is being recorded."""
        return bool(self._around)

    def state(self, name: str, dtype: DType, lanes: int, words: int = 1, first: int = 0) -> Access:
        """The engine's own register file ``name`` of ``words`` a lane: ``lanes`` lanes from ``first``."""
        if name not in self._state:
            made = Tensor(self._unique(name), (self.target.partitions, words), dtype, Buffer.register)
            self._state[name] = self._outermost(made)  # engines outlive loops
        return Access(self._state[name], first * words, (lanes, words), (words, 1), dtype)

    def constant(self, name: str, shape: tuple[int, ...], dtype: DType, data: Constant, where: Where) -> Tensor:
        """A tensor in HBM that holds ``data``; the one that was made before, if there is one."""
        if self.failed is not None:
            raise self.failed
        key = (data, shape, dtype)
        if key not in self._constants:
            check_tensor(name, shape, dtype, Buffer.shared_hbm, None, self.target)
            made = Tensor(self._unique(name), shape, dtype, Buffer.shared_hbm, None, "constant", where.span, data)
            self._constants[key] = self._outermost(self._shared(made))  # it is there before the kernel runs
        return self._constants[key]

    def _outermost(self, made: Tensor) -> Tensor:
        """``made``, which belongs to the kernel and not to the loop whose body is being recorded."""
        (self._around[0].tensors if self._around else self.tensors).append(made)
        if self.observer is not None:
            self.observer.made(made)
        return made

    def _check_scope(self, accesses: list[Access]) -> None:
        """Raise unless every tensor still exists: what a loop's body made ends with the loop."""
        for access in accesses:
            loop = self._ended.get(access.tensor)
            if loop is not None:
                raise LoopScopeError(
                    f"'{access.name}' is used after the run-time loop in whose body it was made"
                    + (f" (line {loop.where.span.line})" if loop.where.span else "")
                    + ": the loop may never have run",
                    fix="make it before the loop",
                )

    def finish(
        self, inputs: list[Tensor], outputs: list[Tensor], sequence: bool, shapes: tuple[tuple[int, ...], ...] = ()
    ) -> Program:
        """The recorded kernel, which returns ``outputs``, in ``shapes`` if these are not their own."""
        if self.failed is not None:
            raise self.failed
        for tensor in outputs:
            self._check_scope([Access.whole(tensor)])
        if any(inst.wanted for inst in instructions(self.body)):
            connect_wanted(self.body)
        return Program(
            self.name,
            self.target.name,
            self.grid,
            Signature(
                tuple(inputs),
                tuple(outputs),
                sequence,
                shapes if shapes != tuple(tensor.shape for tensor in outputs) else (),
            ),
            (CoreProgram(self.program, tuple(self.body), (*self.tensors, *declared(self.body))),),
        )


def check_tensor(
    name: str,
    shape: tuple[int, ...],
    dtype: DType,
    buffer: Buffer,
    address: tuple[int, int] | None,
    target: Target,
) -> None:
    """Raise unless a tensor of this shape can exist in ``buffer`` of ``target``, at ``address`` if there is one."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # users write it
        raise ArgumentError(f"the name of a tensor is {name!r}, which is no string", fix="pass a string, or nothing")
    if not shape or any(size < 1 for size in shape):
        raise ShapeError(
            f"tensor '{name}' has shape {shape}: every dimension must be at least 1",
            fix="skip the work for an empty piece with an if",
        )
    if not buffer.on_chip:
        if math.prod(shape) * dtype.itemsize > target.hbm_bytes:
            raise CapacityError(
                f"tensor '{name}' of shape {shape} {dtype} takes {math.prod(shape) * dtype.itemsize} bytes of HBM; a "
                f"chip of {target.name} has {target.hbm_bytes}",
                fix="process the data in pieces",
            )
        return
    if len(shape) < 2:
        raise ShapeError(
            f"tensor '{name}' of shape {shape} in {buffer.value} needs at least 2 dimensions: (partitions, free…)",
            fix=f"make it ({', '.join(map(str, shape))}, 1)",
        )
    if shape[0] > target.partitions:
        raise PartitionError(
            f"tensor '{name}' of shape {shape} in {buffer.value} has {shape[0]} partitions; "
            f"{target.name} has {target.partitions}",
            fix=f"tile dimension 0 by {target.partitions}, or put what exceeds it into the free dimensions",
        )
    if buffer is Buffer.register:
        limit = REGISTER_BYTES
    else:
        limit = target.sbuf_partition_bytes if buffer is Buffer.sbuf else target.psum_partition_bytes
    size = dtype.itemsize
    for n in shape[1:]:
        size *= n
    if size > limit:
        raise CapacityError(
            f"tensor '{name}' of shape {shape} {dtype} takes {size} bytes per partition of {buffer.value}; "
            f"{target.name} has {limit}",
            fix="split the free dimension into smaller tiles",
        )
    if address is not None:
        _check_address(name, shape, size, limit, address, target)
        if buffer is Buffer.psum and address[1] % target.psum_bank_bytes:
            raise PsumError(
                f"address={address!r} of tensor '{name}' {shape} is no beginning of a PSUM bank: the offset "
                f"must be a multiple of {target.psum_bank_bytes} bytes",
                fix=f"place it at ({address[0]}, {address[1] // target.psum_bank_bytes * target.psum_bank_bytes}), or "
                "leave address out",
            )


def _check_address(
    name: str, shape: tuple[int, ...], size: int, limit: int, address: tuple[int, int], target: Target
) -> None:
    """``address`` is (first partition, byte offset) and leaves room for ``size`` bytes of ``limit`` per partition."""
    whole = isinstance(address, tuple) and len(address) == 2 and all(type(n) is int and n >= 0 for n in address)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not whole or address[0] + shape[0] > target.partitions or address[1] + size > limit:
        raise ArgumentError(
            f"address={address!r} of tensor '{name}' {shape} is not (first partition, byte offset) of a place with "
            f"{shape[0]} partitions and {size} free bytes; {target.name} has {target.partitions} and {limit}",
            fix="leave address out, or choose one that lies inside the memory",
        )


class _Current(threading.local):
    def __init__(self) -> None:
        self.stack: list[Builder] = []


_current = _Current()


def current(what: str) -> Builder:
    """The builder that records now; ``what`` names the caller in the error when there is none."""
    if not _current.stack:
        raise OutsideKernelError(
            f"{what} was called outside a kernel",
            fix="call it in a function decorated with @nki.jit, and call that function",
        )
    return _current.stack[-1]


class recording:  # noqa: N801  # reads as a word: with recording(builder)
    """Context manager: makes ``builder`` the current one of this thread."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    def __enter__(self) -> Builder:
        _current.stack.append(self.builder)
        return self.builder

    def __exit__(self, *exc: object) -> None:
        _current.stack.pop()


def is_recording() -> bool:
    """Whether a kernel is being specialised in this thread."""
    return bool(_current.stack)
