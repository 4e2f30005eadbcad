"""Base class and registry of instruction declarations, and the decorator that refuses incomplete ones."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

from nki.base.errors import NkiError, ShapeError
from nki.base.source import Where
from nki.base.warning import number_of
from nki.ir import deprecation
from nki.ir import effects as _effects
from nki.ir.algebra import Algebra
from nki.ir.declaration.fields import Field, fields_of
from nki.ir.declaration.methods import (
    accesses_of,
    form_lister,
    form_uses_lister,
    lister_of,
    methods_of,
    share_attributes,
    uses_lister,
)
from nki.ir.deprecation import DeprecatedForms
from nki.ir.effects import Barrier, Collective, Copy, Effects, Exchange, Predicate, Update
from nki.ir.estimate import Estimate
from nki.ir.floats.runtime_float import RuntimeFloat, show
from nki.ir.instruction_handle import NkiInstruction
from nki.ir.types import FORMS_BY_PARTS, Access, Buffer, Form, Role, is_element_indexed, is_row_indexed, new_form
from nki.target.model import Target

NOWHERE = Where(())
_identities = itertools.count()
_new = object.__new__


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rule:
    """One limit of an instruction: ``ok(inst, target)`` must hold on the generations from ``since`` to ``until``.

    ``text`` and ``fix`` are formatted with ``i`` (the instruction), ``t`` (the target) and ``o`` (words for every
    argument, such as ``'a_tile' (128, 512) float32``, and for all operands ``in psum`` and those with an index for each
    row, ``by rows``, or an offset for each element, ``by elements``). ``by_value`` marks rules that look at what is not
    in the signature (immediate values, which tensor it is, where in it a window starts), and so are checked for every
    instruction rather than once per signature; a function of an instruction tells by its signature if the rule does.
    ``unless``: the compiler may choose an engine against the rule where this holds, since it has another instruction
    there that does the same. ``release``: the first release of NKI with the rule, if not all have it.
    """

    code: str
    text: str
    ok: Callable[[Any, Target], bool]
    source: str
    error: type[NkiError] = ShapeError
    fix: str = ""
    since: int = 2
    until: int = 99
    by_value: bool | Callable[[Any], bool] = False
    unless: Callable[[Any], bool] | None = None
    release: str = ""

    def applies_to(self, target: Target, release: str = "") -> bool:
        """True if instructions for ``target`` have to obey the rule in kernels for ``release`` ("": for the newest)."""
        older = self.release and release and number_of(release) < number_of(self.release)
        return self.since <= target.generation <= self.until and not older

    def looks_at_values(self, inst: Inst) -> bool:
        """True if the rule may hold for ``inst`` and not for another instruction of its signature."""
        return self.by_value if isinstance(self.by_value, bool) else self.by_value(inst)

    def broken(self, inst: Inst, target: Target) -> NkiError:
        """The error of ``inst``, which breaks the rule."""
        words = {f.name: _words_of(getattr(inst, f.name)) for f in inst.fields}
        words["in psum"] = ", ".join(_words_of(a) for _, a in inst.operands() if a.buffer is Buffer.psum)
        words["by rows"] = ", ".join(_words_of(a) for _, a in inst.operands() if is_row_indexed(a))
        elements = [f"{f.name} {_words_of(a)}" for f, a in inst.operands() if is_element_indexed(a)]
        words["by elements"] = ", ".join(elements)
        message = f"{inst.mnemonic}: {self.text.format(i=inst, t=target, o=words)}"
        return self.error(message, fix=self.fix.format(i=inst, t=target, o=words), rule=self.code)


def _words_of(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_words_of(item) for item in cast("tuple[Any, ...]", value)) + ")"
    return f"'{value.name}' {value.shape} {value.dtype}" if isinstance(value, Access) else str(value)


_SCHEDULE = ("label", "ordered_after", "queue", "waits")
"""The attributes that say when and where an instruction runs; they are no arguments."""
_DERIVED = ("_form", "_identity", "verified_for", "origin", "requested")
"""The attributes that follow from an instruction's arguments or name others: a copy with other arguments has none."""
_LATE = ("where", "_form", "verified_for", "_identity", "queue", "waits")
"""The attributes that most instructions get after they were made."""


class Inst(NkiInstruction):
    """Base of all instruction declarations; see :func:`instruction`."""

    mnemonic: ClassVar[str]
    engines: ClassVar[tuple[Any, ...]]
    fields: ClassVar[tuple[Field, ...]]
    rules: ClassVar[tuple[Rule, ...]]
    public: ClassVar[bool] = True
    effects: ClassVar[Effects] = _effects.NONE
    deprecated: ClassVar[DeprecatedForms] = deprecation.NONE
    on_tensor_engine: ClassVar[bool] = False
    """The Tensor engine is the one that the instruction prefers."""
    on_rings: ClassVar[bool] = False
    """DMA engines run the instruction."""
    by_workload: ClassVar[bool] = False
    """If the caller names no engine, the work of the engines decides; of others, the instruction alone."""
    where: Where = NOWHERE
    # Label that edges name, labels of what has to be complete first, queue and its waits (ir.text.schedule_attributes).
    label: str = ""
    ordered_after: tuple[str, ...] = ()
    queue: str = ""
    waits: tuple[tuple[str, int], ...] = ()
    operand_fields: ClassVar[tuple[Field, ...]]
    operand_names: ClassVar[tuple[str, ...]]
    has_simple_operands: ClassVar[bool] = False
    """Each operand is one tile, in every instruction."""
    read_names: ClassVar[tuple[str, ...]]
    write_names: ClassVar[tuple[str, ...]]
    order_names: ClassVar[tuple[str, ...]]
    changed_names: ClassVar[tuple[str, ...]]
    """The operands that are written or only ordered: what touched them before is complete before."""
    immediate_names: ClassVar[tuple[str, ...]]
    _identity: int | None = None
    _form: Form | None = None
    origin: Inst | None = None
    """The user's instruction that a transform lowered to this one, among others."""
    verified_for: Target | None = None
    """The target for which the instruction was checked against the rules as it was recorded."""

    def semantics(self, m: Algebra[Any]) -> None:
        """The semantics, in primitives of ``m``."""
        raise NotImplementedError

    def choices(self) -> tuple[Any, ...]:
        """The engines with the same semantics, from which the compiler picks one if the caller does not."""
        return self.engines

    def cost(self, target: Target) -> Estimate:
        """Predicted time on ``target``."""
        raise NotImplementedError

    def cost_on_scalar(self, target: Target) -> Estimate | None:  # noqa: ARG002  # for overrides
        """Predicted time on the Scalar engine, if documents of Beta 1 let its compiler choose that engine although this
        compiler prefers another one; None: they do not.
        """
        return None

    @classmethod
    def sample(cls, draw: Any) -> Inst:
        """A legal instruction with random operands."""
        raise NotImplementedError

    def signature(self) -> tuple[Any, ...]:
        """Everything that rules and generated code depend on; equal signatures share one compiled routine."""
        raise NotImplementedError

    def form_parts(self) -> tuple[Any, ...]:
        """:meth:`signature` with forms of accesses in place of their signatures: the quick way to :meth:`form`."""
        raise NotImplementedError

    def operands(self) -> list[tuple[Field, Access]]:
        """The tensor operands that are present, in field order."""
        form = self._form
        if form is None or form.fields is None:
            return self._note_operands(form)
        return list(zip(form.fields, self.accesses(), strict=True))

    def _note_operands(self, form: Form | None) -> list[tuple[Field, Access]]:
        values = self.__dict__
        present: list[tuple[Field, Access]] = []
        for f in self.operand_fields:
            value = values[f.name]
            if isinstance(value, Access):
                present.append((f, value))
            elif f.several:
                present.extend((f, tile) for tile in value)
        if form is not None:
            form.fields = tuple([f for f, _ in present])
        return present

    def accesses(self) -> list[Access]:
        """The tensor operands that are present, in field order, without their fields."""
        form = self._form
        if form is None:
            return accesses_of(self, self.operand_names)
        if form.accesses is None:
            form.accesses = form_lister(self, self.operand_names, Access)
        return form.accesses(self)

    def reads(self) -> list[Access]:
        """The accesses that the instruction reads, run-time indices of operands included."""
        reads = self.read_operands()
        return reads + indices if (indices := self.indexed_by()) else reads

    def uses(self) -> Sequence[tuple[Access, bool, bool]]:
        """The accesses in field order, each with whether the instruction reads it and writes it."""
        form = self.form
        if form.uses is None:
            form.uses = form_uses_lister(self, self.operand_names, self.read_names, self.write_names)
        return form.uses(self)

    def read_operands(self) -> list[Access]:
        """The operands that the instruction reads, without run-time indices."""
        form = self._form
        if form is None:
            return accesses_of(self, self.read_names)
        if form.reads is None:
            form.reads = form_lister(self, self.read_names, Access)
        return form.reads(self)

    def writes(self) -> list[Access]:
        """The accesses that the instruction writes."""
        return accesses_of(self, self.write_names)

    def changes(self) -> list[Access]:
        """The accesses that the instruction writes, and those that are only ordered."""
        return accesses_of(self, self.changed_names)

    def may_leave_unwritten(self) -> bool:
        """True if places of the outputs may keep their old contents: rows out of bounds, partitions left out."""
        effects = self.effects
        if effects.partial is not None and effects.partial(self):
            return True
        return bool(effects.skips is not None and self.indexed_by() and effects.skips(self))

    def has_supported_layout(self) -> bool:
        """True if the semantics can address the operands in the layout that they have."""
        layout = self.effects.layout
        return layout is None or layout(self)

    @property
    def skips_out_of_bounds(self) -> bool:
        """True if a row with a run-time index out of bounds is skipped; otherwise it is an error."""
        skips = self.effects.skips
        return skips is not None and skips(self)

    @property
    def engine_choice(self) -> Any:
        """The engine that the caller asked for; None where the instruction has no such argument."""
        return self.__dict__.get("engine")

    @property
    def user_name(self) -> str | None:
        """The name that the user gave to the instruction."""
        return self.__dict__.get("name")

    @property
    def accumulates(self) -> bool | None:
        """True if the instruction adds to the contents of PSUM; None: not decided yet; False where it never does."""
        accumulation = self.effects.accumulation
        return False if accumulation is None else self.__dict__[accumulation.flag]

    def with_accumulation(self, adds: bool) -> Inst:
        """A copy that adds to the contents of PSUM, or overwrites them."""
        assert self.effects.accumulation is not None
        fresh, forms = self.replace(**{self.effects.accumulation.flag: adds}), self.form.with_accumulation
        if adds in forms:
            fresh._form = forms[adds]
        else:
            forms[adds] = fresh.form
        return fresh

    def as_barrier(self) -> Barrier | None:
        """The barrier that the instruction is."""
        return None if self.effects.barrier is None else self.effects.barrier(self)

    def as_exchange(self) -> Exchange | None:
        """The exchange with another core that the instruction is."""
        return None if self.effects.exchange is None else self.effects.exchange(self)

    def as_collective(self) -> Collective | None:
        """The meeting of ranks that the instruction is."""
        return None if self.effects.collective is None else self.effects.collective(self)

    def write_predicate(self) -> Predicate | None:
        """The predicate under which the instruction writes."""
        return None if self.effects.predicate is None else self.effects.predicate(self)

    def as_copy(self) -> Copy | None:
        """The copy that the instruction is."""
        return None if self.effects.copy is None else self.effects.copy(self)

    def as_transpose(self) -> Copy | None:
        """The transposition that the instruction is: ``dst`` is ``src`` with partitions and elements exchanged."""
        return None if self.effects.transpose is None else self.effects.transpose(self)

    def update_chains(self) -> tuple[Update, ...]:
        """The declared chains of operators from operands to the result."""
        return () if self.effects.updates is None else self.effects.updates(self)

    def orders(self) -> list[Access]:
        """Operands that are only ordered: their other accesses stay before or after the instruction."""
        return accesses_of(self, self.order_names)

    def indexed_by(self) -> list[Access]:
        """The accesses that hold the run-time indices of the operands, in operand order."""
        form = self._form
        if form is not None and not form.has_runtime_index:
            return []
        return [a.dynamic.source for a in self.accesses() if a.dynamic is not None]

    def immediates(self) -> list[float | int]:
        """The run-time numbers, in field order."""
        form = self.form
        if form.immediates is None:
            form.immediates = form_lister(self, self.immediate_names, (int, float))
        return form.immediates(self)

    def key(self) -> tuple[Any, ...]:
        """The signature, computed once: operands never change after an instruction was recorded."""
        return self.form.signature

    @property
    def form(self) -> Form:
        """The object that only instructions of equal signature share, as good as all of them.

        A table by form may hold a signature twice.
        """
        form = self._form
        if form is None:
            parts = self.form_parts()
            form = FORMS_BY_PARTS.get(parts)
            if form is None:
                form = new_form(parts, self.signature(), bool(self.indexed_by()))
            self._form = form
        return form

    def share_form(self, other: Inst) -> None:
        """Take the form of ``other``, which has the same arguments but for the tensors, all of them of equal forms."""
        self._form = other.form

    def share_identity(self, other: Inst) -> None:
        """Take the identity of ``other``, which the instruction replaces."""
        self._identity = other.identity()

    def identity(self) -> int:
        """A number that the instruction shares with its copies of another schedule, and with no other instruction."""
        identity = self._identity
        if identity is None:
            identity = self._identity = next(_identities)
        return identity

    def replace(self, **changes: Any) -> Inst:
        """A copy at the same source position, with the same schedule, and with some fields changed."""
        values = self.__dict__ | changes
        for name in _DERIVED:
            values.pop(name, None)
        fresh = _new(self.__class__)
        fresh.__dict__ = values
        return fresh

    def with_schedule(self, **changes: Any) -> Inst:
        """A copy with the same arguments and :meth:`identity`, and another label, edges, queue or waits."""
        self.identity()
        fresh = _new(self.__class__)
        fresh.__dict__ = self.__dict__ | changes
        return fresh

    def with_operands(self, changes: Mapping[int, Access]) -> Inst:
        """A copy with the operands of these numbers in :meth:`accesses` replaced."""
        if self.has_simple_operands:
            names = self.operand_names
            return self.replace(**{names[number]: access for number, access in changes.items()})
        return self.replace(**self._fields_with(changes))

    def _fields_with(self, changes: Mapping[int, Access]) -> dict[str, Any]:
        """The fields with the operands of these numbers, replaced."""
        fresh: dict[str, Any] = {}
        values, number = self.__dict__, 0
        for name in self.operand_names:
            value = values[name]
            if isinstance(value, Access):
                if number in changes:
                    fresh[name] = changes[number]
                number += 1
            elif isinstance(value, tuple):
                tiles = cast("tuple[Access, ...]", value)
                fresh[name] = tuple(changes.get(number + i, tile) for i, tile in enumerate(tiles))
                number += len(tiles)
        return fresh

    def __repr__(self) -> str:
        operands = ", ".join(f"{a.name}{list(a.shape)}" for a in self.accesses())
        return f"<{self.mnemonic} {operands}>"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        if any(getattr(self, name) != getattr(other, name) for name in _SCHEDULE):
            return False
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in self.fields)

    __hash__ = None  # type: ignore[assignment]


def _same(left: Any, right: Any) -> bool:
    kind: Any = left.__class__
    if isinstance(left, Access):
        return isinstance(right, Access) and left.equals(right)
    if kind is RuntimeFloat:
        return type(right) is RuntimeFloat and show(left.formula) == show(right.formula)  # -0.0 is not 0.0
    if kind is not right.__class__:
        return False
    if kind is tuple:
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right) or (left != left and right != right)  # NaN is NaN


REGISTRY: dict[str, type[Inst]] = {}
"""Every declared instruction by mnemonic, in the order of declaration."""

C = TypeVar("C", bound=Inst)


@dataclass_transform(eq_default=False)
def instruction(
    *,
    engines: tuple[Any, ...],
    public: bool = True,
    effects: Effects = _effects.NONE,
    deprecated: DeprecatedForms = deprecation.NONE,
    by_workload: bool = False,
) -> Callable[[type[C]], type[C]]:
    """Register an instruction declaration: its annotations are its fields, which the constructor that it gets takes.

    A class that lacks a docstring, outputs or an external effect, ``rules``, ``semantics``, ``cost`` or ``sample`` is
    refused at import.
    """

    def declare(cls: type[C]) -> type[C]:
        missing = [part for part in ("rules", "semantics", "cost", "sample") if part not in cls.__dict__]
        if not (cls.__doc__ or "").strip() and sys.flags.optimize < 2:  # python -OO drops docstrings
            missing.append("docstring")
        if not engines:
            missing.append("engines")
        if missing:
            raise TypeError(f"instruction {cls.__name__} lacks: {', '.join(missing)}")
        cls.mnemonic = "".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("_")
        cls.engines, cls.public, cls.effects, cls.deprecated = engines, public, effects, deprecated
        cls.on_tensor_engine = engines[0].name == "tensor"
        cls.on_rings = any(engine.name == "dma" for engine in engines)
        cls.by_workload = by_workload
        cls.fields = fields_of(cls)
        cls.operand_fields = tuple(f for f in cls.fields if f.role is not None)
        cls.operand_names = tuple(f.name for f in cls.operand_fields)
        cls.read_names = tuple(f.name for f in cls.fields if f.role in (Role.IN, Role.INOUT))
        cls.write_names = tuple(f.name for f in cls.fields if f.role in (Role.OUT, Role.INOUT))
        cls.order_names = tuple(f.name for f in cls.fields if f.role is Role.ORDER)
        cls.changed_names = cls.write_names + cls.order_names
        cls.immediate_names = tuple(f.name for f in cls.fields if f.immediate)
        if not cls.write_names and not effects.external:
            raise TypeError(f"instruction {cls.__name__} writes nothing: no Out operand")
        for method in methods_of(cls):
            setattr(cls, method.__name__, method)
        names = {"accesses": cls.operand_names, "read_operands": cls.read_names, "writes": cls.write_names}
        names["changes"] = cls.changed_names
        for name, operands in names.items():
            if (lister := lister_of(cls.fields, operands)) is not None:
                setattr(cls, name, lister)
        cls.has_simple_operands = "accesses" in cls.__dict__
        if cls.has_simple_operands:
            setattr(cls, "uses", uses_lister(cls.operand_names, cls.read_names, cls.write_names))  # noqa: B010
        share_attributes(cls, _LATE)
        if cls.mnemonic in REGISTRY:
            raise TypeError(f"instruction {cls.mnemonic} is declared twice")
        REGISTRY[cls.mnemonic] = cls
        return cls

    return declare
