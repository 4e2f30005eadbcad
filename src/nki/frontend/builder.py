"""Builder: records tensors, instructions and loops of one core program while the kernel's Python runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import attrgetter
from typing import Any, cast

from nki.base import progress
from nki.base.element_types import DType, int32
from nki.base.errors import CollectiveOrderError, DynamicLoopError, LoopScopeError, NkiError, SharedTensorError
from nki.base.progress import RECORDED_AT_ONCE
from nki.base.source import Where, here
from nki.base.warning import warn_at
from nki.frontend.dialect import Dialect, default_dialect
from nki.ir import recorder
from nki.ir.constant import Constant
from nki.ir.instruction import Inst, Rule
from nki.ir.loop import Loop, Statement, VirtualRegister, declared, instructions
from nki.ir.ordering import connect_requested
from nki.ir.program import CoreProgram, Form, Program, Signature, own_forms
from nki.ir.recorder import K
from nki.ir.types import Access, Buffer, Tensor, TensorForm, tensor_form
from nki.ir.verifier import check_tensor, verify
from nki.isa.build import compute_scalar
from nki.target.model import Target


class Observer:
    """Interface of an observer of recording; this one does nothing. The eager simulator executes what it observes."""

    def allocated(self, tensor: Tensor) -> None:
        """``tensor`` was allocated."""

    def emitted(self, inst: Inst) -> None:
        """``inst`` was recorded."""

    def entered(self, loop: Loop) -> None:
        """The body of ``loop`` begins; it has none yet."""

    def left(self, loop: Loop) -> None:
        """The body of ``loop`` is complete."""

    def unrolling(self, where: Where) -> None:
        """A loop begins; the user says that its iterations, recorded one after the other, do not depend on each
        other.
        """

    def iterating(self) -> None:
        """The next iteration of the innermost of these loops begins."""

    def unrolled(self) -> None:
        """The innermost of these loops has ended."""


def share(tensor: Tensor) -> None:
    """Move ``tensor`` from the memory of one core to the memory of all."""
    tensor.buffer = Buffer.shared_hbm
    tensor.form = tensor_form(tensor.shape, tensor.dtype, tensor.buffer)


@dataclass(slots=True)
class CommonTensors:
    """Tensors that the cores of a grid share, by name.

    Some of them they share only if the kernel returns them, which is known when core 0 has ended; ``find`` gives the
    names of these results before.
    """

    by_name: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    unnamed: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    """Those that only variables name."""
    results: set[str] = field(default_factory=set[str])
    find: Callable[[], set[str]] | None = None

    def is_result(self, name: str) -> bool:
        """True if core 0 returns its tensor ``name``."""
        if self.find is not None:
            find, self.find = self.find, None
            self.results |= find()
        return name in self.results


@dataclass(slots=True, eq=False, repr=False)
class _OpenLoop:
    """A loop while its body is recorded, with the statements and tensors of the body around it."""

    loop: Loop
    body: list[Statement]
    tensors: list[Tensor]


@dataclass(slots=True, eq=False, repr=False)
class Builder:
    """Recorder of the tensors, instructions and loops of one core's program.

    ``program`` is the rank of the core, ``common`` holds the tensors that all cores of the grid share so far.
    ``programs`` is the grid of programs that the core runs one after the other, ``index`` the place of the present one.
    ``observer`` sees everything right after it was recorded. ``failed`` is a mistake noticed where nothing can be
    raised; the next call that records raises it. ``dialect`` is the language of the kernel.
    """

    name: str
    target: Target
    grid: tuple[int, ...] = ()
    program: int = 0
    observer: Observer | None = None
    common: CommonTensors = field(default_factory=CommonTensors)
    tensors: list[Tensor] = field(default_factory=list[Tensor])
    body: list[Statement] = field(default_factory=list[Statement])
    failed: NkiError | None = None
    dialect: Dialect = field(default_factory=default_dialect)
    ordered: int = 0
    """Number of open ``nl.no_reorder`` blocks."""
    warned: set[object] = field(default_factory=set[object])
    """Places and texts of warnings that the kernel's own code gives, each once."""
    at: Where | None = None
    """The place at which instructions are recorded; None: the running line."""
    dialect_state: object = None
    """State that functions of the dialect keep for this program, in a class of theirs; None before they need it."""
    prepared: tuple[Inst, Inst, Loop | None] | None = None
    """An exchange of ranks that waits for its trigger: what prepares it, itself, and the loop that both are in."""
    _ordered_from: int = 0
    _declared: dict[str, Where] = field(default_factory=dict[str, Where])
    programs: tuple[int, ...] = ()
    index: tuple[int, ...] = ()
    _names: dict[str, int] = field(default_factory=dict[str, int])
    _asked: dict[str, int] = field(default_factory=dict[str, int])
    _of_programs: dict[tuple[str, int], Tensor] = field(default_factory=dict[tuple[str, int], Tensor])
    _verified: dict[object, Sequence[Rule]] = field(default_factory=dict[object, Sequence[Rule]])
    """The rules of each form that every instruction has to pass."""
    _tensor_forms: dict[object, TensorForm] = field(default_factory=dict[object, TensorForm])
    """The form of the tensors that were checked, by shape, dtype, memory and address."""
    _state: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    _constants: dict[tuple[Any, ...], Tensor] = field(default_factory=dict[tuple[Any, ...], Tensor])
    _open_loops: list[_OpenLoop] = field(default_factory=list[_OpenLoop])
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
        named: bool = True,
    ) -> Tensor:
        """A new tensor. A name that is taken gets ``.1``, ``.2``, … behind it; ``named``: the kernel gives it.

        All programs of a core get the same tensors in ``nl.shared_hbm``, and the same results in ``nl.hbm``.
        """
        if self.failed is not None:
            raise self.failed
        if not self.programs or role or not buffer.is_hbm:
            return self._new(name, shape, dtype, buffer, address, role, where, named)
        count = self._asked[name] = self._asked.get(name, 0) + 1
        existing = self._of_programs.get((name, count))
        if existing is None or existing.buffer is Buffer.hbm:
            existing = self._new(name, shape, dtype, buffer, address, role, where, named)
            self._of_programs[name, count] = existing
        elif (existing.shape, existing.dtype) != (shape, dtype):
            raise SharedTensorError(
                f"program {self.index} makes the shared tensor '{name}' as {shape} {dtype}; "
                f"another program has made it as {existing.shape} {existing.dtype}",
                fix="make what programs share in code that does not depend on nl.program_id, or name tensors apart",
                span=where.span if where else None,
            )
        return existing

    def begin_program(self, index: tuple[int, ...]) -> None:
        """Begin the program at ``index`` of the grid of programs."""
        self.index = index
        self._asked.clear()

    def _new(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: DType,
        buffer: Buffer,
        address: tuple[int, int] | None,
        role: str,
        where: Where | None,
        named: bool,
    ) -> Tensor:
        key = (shape, dtype.name, buffer, address)
        form = self._tensor_forms.get(key)
        if form is None or type(name) is not str:
            check_tensor(name, shape, dtype, buffer, address, self.target)
            form = self._tensor_forms[key] = tensor_form(shape, dtype, buffer)
        span = where.span if where is not None else None
        tensor = Tensor(self._unique(name), shape, dtype, buffer, address, role, span, None, form)
        if where is not None:
            tensor.site = where.frames
        if role or (buffer.is_hbm and self._is_common(tensor, named)):
            tensor = self._shared(tensor)
        self.tensors.append(tensor)
        if self.observer is not None:
            self.observer.allocated(tensor)
        return tensor

    def _is_common(self, tensor: Tensor, named: bool) -> bool:
        """True if all cores have the one tensor in HBM."""
        common = self.common
        if not self.grid or self.grid[0] == 1:
            return tensor.buffer is Buffer.shared_hbm
        if tensor.buffer is Buffer.hbm:
            if common.is_result(tensor.name):
                share(tensor)
        elif not named:
            common.unnamed.setdefault(tensor.name, tensor)
            if self.dialect.release is not None and not common.is_result(tensor.name):
                return self.program == 0  # which does not know yet what it returns; the others make their own
        return tensor.buffer is Buffer.shared_hbm

    def returns(self, tensor: Tensor) -> None:
        """Note that the kernel returns ``tensor``: in ``nl.hbm`` it is one for all cores and programs as well."""
        if self.program == 0:
            self.common.results.add(tensor.name)
            if tensor.buffer is Buffer.hbm and not tensor.role and (self.programs or (self.grid and self.grid[0] > 1)):
                share(tensor)
                self._shared(tensor)
        tensor.role = tensor.role or "output"

    def _shared(self, tensor: Tensor) -> Tensor:
        """``tensor``, or what another core has made under its name."""
        existing = self.common.by_name.setdefault(tensor.name, tensor)
        if (existing.shape, existing.dtype, existing.data) != (tensor.shape, tensor.dtype, tensor.data):
            raise SharedTensorError(
                f"core {self.program} makes the shared tensor '{tensor.name}' as {tensor.shape} {tensor.dtype}; "
                f"another core has made it as {existing.shape} {existing.dtype}",
                fix="make what cores share in code that does not depend on nl.program_id, or name tensors apart",
                span=tensor.span,
            )
        return existing

    def declare(self, name: str, where: Where) -> None:
        """Note that the call at ``where`` gives a tensor this ``name``; warn if another line has given it already."""
        first = self._declared.setdefault(name, where)
        if first is not where and first.frames[:1] != where.frames[:1] and first.span and where.span:
            message = f"name={name!r} is the name of the tensor of line {first.span.line} already: give each its own"
            warn_at(where.span, message)

    def _unique(self, name: str) -> str:
        names = self._names
        unique, count = name, names.get(name)
        if count is not None:
            while unique in names:
                count += 1
                unique = f"{name}.{count}"
            names[name] = count
        names[unique] = 0
        return unique

    def register(
        self, name: str, where: Where, *, frozen: bool = False, kind: type[K] = VirtualRegister, dtype: DType = int32
    ) -> K:
        """A new scalar register, as an object of class ``kind``."""
        return kind(self.tensor(name, (1, 1), dtype, Buffer.register, where=where), frozen)

    def compute(self, op: str, dst: Access, left: int | Access, right: int | Access) -> None:
        """Record ``dst = left op right`` for scalars."""
        self.emit(compute_scalar(dst, op, left, right))

    def emit(self, inst: Inst, where: Where | None = None) -> None:
        """Verify and record ``inst`` at ``where``, the user's current line unless given."""
        inst.where = self.at or where or here(2)  # this function is the toolchain's
        try:
            rules = self._verified.get(inst.form)
        except (AttributeError, TypeError):  # an operand of a wrong kind, which verify refuses
            rules = None
        if rules is None or rules:  # else :func:`verify` has nothing to do
            verify(inst, self.target, self._verified, self.dialect.release or "")
        inst.verified_for = self.target
        if self.failed is not None:
            raise self.failed
        if self._ended:
            self._check_scope([*inst.accesses(), *inst.indexed_by()])
        body = self.body
        body.append(inst)
        if not len(body) % RECORDED_AT_ONCE:
            progress.recorded(len(body))
        if self.observer is not None:
            self.observer.emitted(inst)

    def open(self, loop: Loop) -> None:
        """Begin the body of ``loop``: all that is recorded until :meth:`close`."""
        if self.failed is not None:
            raise self.failed
        self._check_scope([loop.register, *loop.reads()])
        self._open_loops.append(_OpenLoop(loop, self.body, self.tensors))
        self.body, self.tensors = [], []
        if self.observer is not None:
            self.observer.entered(loop)

    def close(self, loop: Loop | None = None) -> Loop:
        """End the body of the innermost open loop and record the loop, which has to be ``loop``."""
        open_loop = self._open_loops[-1]
        if loop is not None and open_loop.loop is not loop:
            if self.failed is None:
                self.failed = _entangled(loop, open_loop.loop)
            raise self.failed
        self._open_loops.pop()
        loop = replace(open_loop.loop, body=tuple(self.body), tensors=tuple(self.tensors))
        self._ended.update(dict.fromkeys(self.tensors, loop))
        self.body, self.tensors = open_loop.body, open_loop.tensors
        self.body.append(loop)
        if self.observer is not None:
            self.observer.left(loop)
        return loop

    def begin_order(self) -> None:
        """Begin an ordered block: its instructions run in the order of the program, until :meth:`end_order`."""
        if not self.ordered:
            self._ordered_from = len(self.body)
        self.ordered += 1

    def end_order(self) -> None:
        """End the innermost ordered block. No loop begins or ends in one, so all of it stands in one body."""
        self.ordered -= 1
        if not self.ordered:
            block = [s for s in self.body[self._ordered_from :] if isinstance(s, Inst)]
            for earlier, later in pairwise(block):
                later.request_edge(earlier, later.where)

    @property
    def open_loop(self) -> Loop | None:
        """The innermost loop with a body that is being recorded."""
        return self._open_loops[-1].loop if self._open_loops else None

    @property
    def in_loop(self) -> bool:
        """True while the body of a loop is being recorded."""
        return bool(self._open_loops)

    def state(self, name: str, dtype: DType, lanes: int, words: int = 1, first: int = 0) -> Access:
        """The engine's own register file ``name`` of ``words`` a lane: ``lanes`` lanes from ``first``."""
        if name not in self._state:
            tensor = Tensor(self._unique(name), (self.target.partitions, words), dtype, Buffer.register)
            self._state[name] = self._outermost(tensor)  # engines outlive loops
        return Access(self._state[name], first * words, (lanes, words), (words, 1), dtype)

    def constant(self, name: str, shape: tuple[int, ...], dtype: DType, data: Constant, where: Where) -> Tensor:
        """A tensor in HBM that holds ``data``; the one that was made before, if there is one."""
        if self.failed is not None:
            raise self.failed
        key = (data, shape, dtype)
        if key not in self._constants:
            check_tensor(name, shape, dtype, Buffer.shared_hbm, None, self.target)
            tensor = Tensor(self._unique(name), shape, dtype, Buffer.shared_hbm, None, "constant", where.span, data)
            self._constants[key] = self._outermost(self._shared(tensor))  # it is there before the kernel runs
        return self._constants[key]

    def _outermost(self, tensor: Tensor) -> Tensor:
        """``tensor``, which belongs to the kernel and not to the loop that is being recorded."""
        (self._open_loops[0].tensors if self._open_loops else self.tensors).append(tensor)
        if self.observer is not None:
            self.observer.allocated(tensor)
        return tensor

    def _check_scope(self, accesses: list[Access]) -> None:
        """Raise unless every tensor still exists: what a loop's body made ends with the loop."""
        for access in accesses:
            loop = self._ended.get(access.tensor)
            if loop is not None:
                raise LoopScopeError(
                    f"'{access.name}' is used after the run-time loop that made it in its body"
                    + (f" (line {loop.where.span.line})" if loop.where.span else "")
                    + ": the loop may never have run",
                    fix="make it before the loop",
                )

    def finish(
        self, inputs: list[Tensor], outputs: list[Tensor], sequence: bool, forms: tuple[Form, ...] = ()
    ) -> Program:
        """The recorded kernel, which returns ``outputs``, in ``forms`` if these are not their own."""
        if self.failed is not None:
            raise self.failed
        if self._open_loops:
            raise _unended(self._open_loops[-1].loop)
        if self.prepared is not None:
            inst = self.prepared[0]
            raise CollectiveOrderError(
                f"{inst.mnemonic}: nothing triggers the exchange that is prepared here",
                fix="pass what the prepare function returned to its trigger function",
            ).at(inst.where.span, inst.where.stack)
        for tensor in outputs:
            self._check_scope([Access.whole(tensor)])
        if any(map(_requested, instructions(self.body))):
            connect_requested(self.body)
        return Program(
            self.name,
            self.target.name,
            self.grid,
            Signature(
                tuple(inputs),
                tuple(outputs),
                sequence,
                forms if forms != own_forms(outputs) else (),
            ),
            (CoreProgram(self.program, tuple(self.body), (*self.tensors, *declared(self.body))),),
            release=self.dialect.release or "",
            propagates_undefined=self.dialect.propagates_undefined,
        )


_requested = attrgetter("requested")


def _entangled(ending: Loop, inner: Loop) -> NkiError:
    """The error of loops that end in another order than they nest, as two generators that hold one each can do."""
    lines = [f" of line {loop.where.span.line}" if loop.where.span else "" for loop in (ending, inner)]
    return DynamicLoopError(
        f"the run-time loop{lines[0]} ends while that{lines[1]}, which began in its body, goes on",
        fix="let one loop end before the other one goes on: run a generator that holds a run-time loop to its end",
        span=inner.where.span,
    )


def _unended(loop: Loop) -> NkiError:
    """The error of a loop with a body that has no end: a generator was left in it, or an exception left it."""
    return DynamicLoopError(
        "the kernel ends inside the body of this run-time loop",
        fix="run the generator that holds the loop to its end, and let no exception leave the loop's body",
        span=loop.where.span,
    )


current = cast(Callable[[str], Builder], recorder.current)
"""The builder of this thread; the argument names the caller in the error when there is none."""
