"""A specialised kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nki.base.errors import SharedTensorError
from nki.base.version import version
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, instructions
from nki.ir.types import Buffer, Tensor, TensorSpec


@dataclass(slots=True)
class Program:
    """A program over tensors for one target: instructions, and loops that run on the device.

    ``inputs`` and ``outputs`` are HBM tensors in the caller's order; ``sequence`` says that the kernel returned a tuple
    or list. An output that is also an input is an input that the kernel changes. ``shapes`` are those in which outputs
    are returned, where that is not the shape of each tensor. ``tensors`` holds every tensor, inputs first, in the order
    in which they were made; those of loops last.
    ``places`` says where each tensor on chip lies: ``(first partition, byte offset in the partition)``. It is empty
    until stage ``allocate``, and leaves out what no instruction touches.

    On a grid of two this is the program of core 0; ``others`` are those of the other cores. Inputs, outputs, constants
    and what several cores made under one name in ``nl.shared_hbm`` are then the same :class:`Tensor` in each of them.
    """

    name: str
    target: str
    grid: tuple[int, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    sequence: bool
    tensors: tuple[Tensor, ...]
    body: tuple[Statement, ...]
    version: str = field(default_factory=version)
    places: Mapping[Tensor, tuple[int, int]] = field(default_factory=dict[Tensor, tuple[int, int]])
    core: int = 0
    others: tuple[Program, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()

    @property
    def cores(self) -> tuple[Program, ...]:
        """The programs of all cores, this one first."""
        return (self, *self.others)

    def shared(self) -> list[Tensor]:
        """The internal tensors that more than one core has, in the order of :attr:`tensors`."""
        elsewhere = {tensor for other in self.others for tensor in other.tensors}
        return [t for t in self.tensors if t.buffer is Buffer.shared_hbm and not t.role and t in elsewhere]

    def with_body(self, body: Sequence[Statement]) -> Program:
        """The same kernel with other instructions."""
        return replace(self, body=tuple(body))

    @property
    def size(self) -> int:
        """How many instructions it has on all cores, those of loops counted once."""
        return sum(1 for core in self.cores for _ in core.instructions())

    def instructions(self) -> Iterator[Inst]:
        """All instructions of this core, those of loops where they stand."""
        return instructions(self.body)

    def constants(self) -> list[Tensor]:
        """The tensors whose contents are a part of the kernel, in the order of :attr:`tensors`."""
        return [tensor for tensor in self.tensors if tensor.data is not None]

    def input_specs(self) -> tuple[TensorSpec, ...]:
        return tuple(TensorSpec(t.name, t.shape, t.dtype) for t in self.inputs)

    def output_specs(self) -> tuple[TensorSpec, ...]:
        shapes = self.shapes or tuple(t.shape for t in self.outputs)
        return tuple(TensorSpec(t.name, shape, t.dtype) for t, shape in zip(self.outputs, shapes, strict=True))

    def changed_inputs(self) -> dict[int, int]:
        """The inputs that the kernel returns, changed or not: position among the inputs by that among the outputs."""
        places = {tensor: i for i, tensor in enumerate(self.inputs)}
        return {o: places[tensor] for o, tensor in enumerate(self.outputs) if tensor in places}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program):
            return NotImplemented
        return self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]

    def _content(self) -> tuple[Any, ...]:
        tensors = [(t.name, t.shape, t.dtype.name, t.buffer, t.address, t.role, t.data) for t in self.tensors]
        inputs, outputs = [t.name for t in self.inputs], [t.name for t in self.outputs]
        about = (self.name, self.target, self.grid, self.sequence, self.shapes, self.version, self.core, self.others)
        places = {t.name: place for t, place in self.places.items()}
        return (*about, inputs, outputs, tensors, places, self.body)


def joined(cores: Sequence[Program]) -> Program:
    """The kernel whose cores run these programs. Raises unless all of them return the same shared tensors."""
    first, *others = cores
    for other in others:
        if (other.outputs, other.sequence, other.shapes) != (first.outputs, first.sequence, first.shapes):
            theirs = [", ".join(f"'{t.name}' in {t.buffer.value}" for t in core.outputs) for core in (first, other)]
            raise SharedTensorError(
                f"core 0 of kernel {first.name!r} returns {theirs[0]}, core {other.core} returns {theirs[1]}: these "
                "are not the same tensors",
                fix="return, on every core, tensors that are allocated with buffer=nl.shared_hbm",
                span=first.outputs[0].span,
            )
    return replace(first, others=tuple(others)) if others else first
