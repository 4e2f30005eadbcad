"""A specialised kernel: a signature, and a program for each core."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Any, Generic, TypeVar, cast

from nki.base.element_types import DType
from nki.base.errors import SharedTensorError
from nki.base.float_text import exact_text
from nki.base.version import version
from nki.ir.effects import Effects
from nki.ir.floats.runtime_float import FloatSpec
from nki.ir.instruction import Inst
from nki.ir.loop import For, Statement, While, instructions
from nki.ir.types import Buffer, Tensor, TensorSpec, TileAddress

Placement = Mapping[Tensor, TileAddress]
"""The address of each tensor on chip."""
_LOOPS = {For, While}
R = TypeVar("R")


Form = tuple[tuple[int, ...], DType]
"""Shape and element type."""


def own_forms(tensors: Iterable[Tensor]) -> tuple[Form, ...]:
    """The form of each tensor."""
    return tuple((tensor.shape, tensor.dtype) for tensor in tensors)


@dataclass(frozen=True, slots=True)
class Signature:
    """The tensors that a kernel exchanges with its caller; all cores share them.

    ``inputs`` and ``outputs`` are HBM tensors in the caller's order; ``sequence``: the kernel returned a tuple or list.
    An output that is also an input is an input that the kernel changes. The last ``hidden`` outputs are such inputs
    that the kernel does not return: the caller sees the change in what it passed. ``forms`` are the shapes and dtypes
    in which outputs are returned; empty where each is as its tensor. ``floats`` are the parameters that launches pass
    values for.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    sequence: bool
    forms: tuple[Form, ...] = ()
    floats: tuple[FloatSpec, ...] = ()
    hidden: int = 0

    @property
    def returned(self) -> tuple[Tensor, ...]:
        """The outputs that the kernel returns."""
        return self.outputs[: len(self.outputs) - self.hidden]

    def with_hidden(self, tensors: Sequence[Tensor]) -> Signature:
        """The same with further inputs that the kernel changes and does not return."""
        forms = (*self.forms, *own_forms(tensors)) if self.forms else ()
        return replace(self, outputs=(*self.outputs, *tensors), forms=forms, hidden=self.hidden + len(tensors))

    def input_specs(self) -> tuple[TensorSpec, ...]:
        """Name, shape and dtype of each input."""
        return tuple(TensorSpec(t.name, t.shape, t.dtype) for t in self.inputs)

    def output_specs(self) -> tuple[TensorSpec, ...]:
        """Name, shape and dtype of each output, as the caller receives it."""
        forms = self.forms or own_forms(self.outputs)
        return tuple(TensorSpec(t.name, *form) for t, form in zip(self.outputs, forms, strict=True))

    def changed_inputs(self) -> dict[int, int]:
        """The inputs that are outputs, changed or not: position among the inputs by that among the outputs."""
        positions = {tensor: i for i, tensor in enumerate(self.inputs)}
        return {o: positions[tensor] for o, tensor in enumerate(self.outputs) if tensor in positions}


@dataclass(frozen=True, eq=False)
class AnalysisResult(Generic[R]):
    """The key under which a :class:`CoreProgram` keeps the result of an analysis, which has type ``R``.

    ``of_addresses``: the result depends on where tiles lie.
    """

    name: str
    of_addresses: bool = True


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
    placement: Placement = field(default_factory=dict[Tensor, TileAddress])
    _numbered: tuple[Inst, ...] | None = field(default=None, init=False, repr=False)
    _has_edges: bool | None = field(default=None, init=False, repr=False)
    _effects: frozenset[Effects] | None = field(default=None, init=False, repr=False)
    _results: dict[AnalysisResult[Any], Any] = field(
        default_factory=dict[AnalysisResult[Any], Any], init=False, repr=False
    )

    def result(self, key: AnalysisResult[R]) -> R | None:
        """The result of an analysis, if it is known."""
        return self._results.get(key)

    def keep(self, key: AnalysisResult[R], result: R) -> R:
        """``result``, kept from now on; stages that keep what it depends on pass it on."""
        self._results[key] = result
        return result

    @property
    def numbered(self) -> tuple[Inst, ...]:
        """All instructions by their dense number: the position in program order, bodies of loops included."""
        if self._numbered is None:
            straight = _LOOPS.isdisjoint(map(type, self.body))
            self._numbered = cast("tuple[Inst, ...]", self.body) if straight else tuple(instructions(self.body))
        return self._numbered

    @property
    def effects(self) -> frozenset[Effects]:
        """The effects of all instructions."""
        if self._effects is None:
            kinds = cast("set[type[Inst]]", set(map(type, self.numbered)))
            self._effects = frozenset(kind.effects for kind in kinds)
        return self._effects

    @property
    def has_edges(self) -> bool:
        """True if an instruction names others that are complete before it begins (:mod:`nki.ir.ordering`)."""
        if self._has_edges is None:
            self._has_edges = any(map(attrgetter("ordered_after"), self.numbered))
        return self._has_edges

    def with_body(self, body: Sequence[Statement]) -> CoreProgram:
        """The same core with other instructions."""
        return replace(self, body=tuple(body))

    def with_placement(self, placement: Placement) -> CoreProgram:
        """The same core with other addresses."""
        core = replace(self, placement=placement)
        core._numbered, core._has_edges, core._effects = self._numbered, self._has_edges, self._effects
        core._results = {key: result for key, result in self._results.items() if not key.of_addresses}
        return core

    def instructions(self) -> Iterator[Inst]:
        """All instructions in program order, including those in the bodies of loops."""
        return iter(self.numbered)

    def constants(self) -> list[Tensor]:
        """The tensors with contents that are a part of the kernel, in the order of :attr:`tensors`."""
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
    propagates_undefined: bool = False
    """Undefined elements may be read, and are an error only where they reach an output: the dialect says so."""
    release: str = ""
    """The release of NKI for which the kernel is, where rules of newer ones do not hold; "": the newest."""
    spills: bool = True
    """Stage ``allocate`` may spill tiles. No part of the text form: a compiled kernel has its spills."""

    @classmethod
    def of(cls, parts: Sequence[Program]) -> Program:
        """The program with the cores of all ``parts``. Raises unless all of them return the same shared tensors.

        Inputs that a core writes and that are not returned become hidden outputs.
        """
        first, *others = parts
        for other in others:
            one, two = first.signature, other.signature
            if (two.outputs, two.sequence, two.forms) != (one.outputs, one.sequence, one.forms):
                returned = [", ".join(f"'{t.name}' in {t.buffer.value}" for t in s.outputs) for s in (one, two)]
                raise SharedTensorError(
                    f"core 0 of kernel {first.name!r} returns {returned[0]}, core {other.core.rank} returns "
                    f"{returned[1]}: these are not the same tensors",
                    fix="return, on every core, tensors that are allocated under the same names",
                    span=one.outputs[0].span,
                )
        program = first.with_cores(core for part in parts for core in part.cores)
        missing = program.written_inputs().difference(program.outputs)
        if missing:
            program.signature = program.signature.with_hidden([t for t in program.inputs if t in missing])
        return program

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
        """The number of instructions on all cores; loops count once."""
        return sum(len(core.numbered) for core in self.cores)

    @property
    def meets_ranks(self) -> bool:
        """True for a kernel with collectives, or one that asks for its rank."""
        return any(effects.collective is not None for core in self.cores for effects in core.effects)

    def instructions(self) -> Iterator[Inst]:
        """The instructions of all cores, one core after the other."""
        return chain.from_iterable(core.numbered for core in self.cores)

    def written(self) -> set[Tensor]:
        """The tensors that an instruction of some core writes."""
        return {access.tensor for inst in self.instructions() for access in inst.writes()}

    def written_inputs(self) -> set[Tensor]:
        """The inputs that an instruction of some core writes."""
        inputs = set(self.inputs)
        writes_hbm: dict[object, bool] = {}  # by form
        written = set[Tensor]()
        for inst in self.instructions() if inputs else ():
            form = inst.form
            matters = writes_hbm.get(form)
            if matters is None:
                matters = writes_hbm[form] = any(access.buffer.is_hbm for access in inst.writes())
            if matters:
                written.update(access.tensor for access in inst.writes())
        return written & inputs

    def with_cores(self, cores: Iterable[CoreProgram]) -> Program:
        """The same program with other cores."""
        return replace(self, cores=tuple(cores))

    def shared(self) -> list[Tensor]:
        """The internal tensors that more than one core uses, in the order of the first core's tensors."""
        first, *others = self.cores
        if not others:
            return []
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
        floats = [(spec.name, exact_text(spec.value)) for spec in s.floats]  # NaN is NaN
        head = (self.name, self.target, self.grid, self.version, self.propagates_undefined, self.release)
        return (*head, s.sequence, s.forms, s.hidden, floats, names, self.cores)
