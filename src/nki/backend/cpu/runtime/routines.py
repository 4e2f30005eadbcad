"""Compiled routines, one per instruction signature; all kernels of the process share them."""

from __future__ import annotations

import textwrap
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from llvmlite import ir

from nki.backend.cpu.codegen.matmul import calls_float32
from nki.backend.cpu.codegen.routine import EmittedRoutine, emit_routine
from nki.backend.cpu.fusion.group import lower_any
from nki.backend.cpu.kernel_ir.accesses import aliases
from nki.backend.cpu.kernel_ir.nodes import Matmul
from nki.backend.cpu.kernel_ir.partitions import Use
from nki.backend.cpu.kernel_ir.printer import show_loops
from nki.backend.cpu.native import library
from nki.backend.cpu.runtime import shared_bodies, stored_routines
from nki.backend.cpu.runtime.shared_bodies import RoutineText
from nki.base.locks import Lock
from nki.ir.indirection.runtime_index import split_rows
from nki.ir.instruction import Inst
from nki.numerics.jit import Code, engine
from nki.numerics.llvm import taken
from nki.numerics.matmul.units import float32_unit

Progress = Callable[[int, int], None]
"""Gets the number of routines compiled so far, and of all routines to compile."""
Key = tuple[Any, ...]

_BODIES_PER_MODULE = 4
"""Larger LLVM modules compile faster, by a tenth with 24; smaller ones keep all threads busy and show progress."""
_ROUTINES_PER_MODULE = 64
"""Routines that share bodies."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Routine:
    """A routine in memory: its address, the scratch bytes that it needs, and the partitions that it may be split over.

    It is in memory as long as this object, which holds its ``code``. ``partitions`` is 0 if the routine must run whole;
    see :class:`~nki.backend.cpu.codegen.routine.EmittedRoutine` for this and for ``uses`` and ``nanoseconds``.
    """

    address: int
    scratch: int
    partitions: int
    uses: tuple[Use, ...]
    nanoseconds: float
    code: Code


_routines: WeakValueDictionary[Key, Routine] = WeakValueDictionary()
_recent: deque[Routine] = deque(maxlen=512)
"""Routines that stay although no kernel may use them: a kernel that is made anew finds them."""
_lock = Lock()


def routine_key(inst: Inst) -> Key:
    """Instructions with equal keys share a routine."""
    return (inst.key(), aliases(inst))


def compile_routines(instructions: dict[Key, Inst], progress: Progress | None) -> list[Routine]:
    """The routine of each key; those that are not in memory are compiled.

    The caller holds them as long as their addresses are in use.
    """
    with _lock:
        compiled = {key: routine for key in instructions if (routine := _routines.get(key)) is not None}
    missing = {key: inst for key, inst in instructions.items() if key not in compiled}
    if progress is not None and missing:
        progress(0, len(missing))
    stored = stored_routines.find(missing)
    _add({key: _routine(*found) for key, found in stored.items()}, compiled)
    batches: list[_Batch] = []

    def modules() -> Iterator[str]:
        for batch in _batches(_in_order([item for item in missing.items() if item[0] not in stored])):
            batches.append(batch)
            yield batch.text()
            if len(batches) == 1:
                library.entry("run")  # which every launch needs: compiled while other threads compile routines

    def note(done: int) -> None:
        if progress is not None:
            progress(len(stored) + sum(len(batch.emitted) for batch in batches[:done]), len(missing))

    with _product_ahead([inst for key, inst in missing.items() if key not in stored]):
        codes = engine().load_all(modules(), note)
    for batch, code in zip(batches, codes, strict=True):
        _add({key: _routine(*each, code) for key, each in batch.emitted.items()}, compiled)
        for key, each in batch.emitted.items():
            stored_routines.keep(key, *each, code)
    return [compiled[key] for key in instructions]


def _routine(name: str, facts: EmittedRoutine, code: Code) -> Routine:
    return Routine(code.addresses[name], facts.scratch, facts.partitions, facts.uses, facts.nanoseconds, code)


def _add(routines: dict[Key, Routine], compiled: dict[Key, Routine]) -> None:
    """Add ``routines`` to those of this process and to ``compiled``."""
    with _lock:
        for key, routine in routines.items():
            compiled[key] = _routines[key] = routine
            _recent.append(routine)


def _product_ahead(instructions: list[Inst]) -> AbstractContextManager[None]:
    """Compile the product of float32 numbers meanwhile if ``instructions`` call it: it takes 0.3 s."""
    for inst in instructions:
        if inst.effects.accumulation is None:
            continue
        for statement in lower_any(next(split_rows(inst)), aliases(inst)).statements:
            if isinstance(statement, Matmul) and calls_float32(statement):
                return float32_unit(statement.by_groups).compiled_ahead()
    return nullcontext()


def _in_order(items: list[tuple[Key, Inst]]) -> list[tuple[Key, Inst]]:
    """``items`` by mnemonic, in the order in which these come; products and transpositions behind the others.

    Routines of one mnemonic may share a body. Products and transpositions call functions that are compiled when their
    IR is made, for up to 0.3 s: meanwhile other threads compile what came before.
    """
    mnemonics: dict[str, int] = {}
    for _, inst in items:
        mnemonics.setdefault(inst.mnemonic, len(mnemonics))

    def rank(item: tuple[Key, Inst]) -> tuple[bool, int]:
        effects = item[1].effects
        is_late = effects.accumulation is not None or effects.transpose is not None
        return is_late, mnemonics[item[1].mnemonic]

    return sorted(items, key=rank)


class _Batch:
    """Routines that become one LLVM module."""

    def __init__(self) -> None:
        self.emitted: dict[Key, tuple[str, EmittedRoutine]] = {}
        """By key: the name of a routine, and facts about it."""
        self._module = ir.Module("nki_kernel")
        self._texts: list[RoutineText] = []
        self._bodies: set[tuple[str, ...]] = set()

    def add(self, key: Key, inst: Inst) -> None:
        """Emit the routine of ``inst``."""
        name = f"r{len(self.emitted)}_{inst.mnemonic}"
        self.emitted[key] = name, _emit(self._module, name, inst)
        text = RoutineText.of(taken(self._module.globals.pop(name)))
        self._texts.append(text)
        self._bodies.add(text.pieces)

    @property
    def is_full(self) -> bool:
        """True if another routine belongs into another module."""
        return len(self._bodies) >= _BODIES_PER_MODULE or len(self.emitted) >= _ROUTINES_PER_MODULE

    def text(self) -> str:
        """The module's LLVM IR."""
        return "\n".join([str(self._module), *shared_bodies.definitions(self._texts)])


def _batches(items: list[tuple[Key, Inst]]) -> Iterator[_Batch]:
    batch = _Batch()
    for item in items:
        batch.add(*item)
        if batch.is_full:
            yield batch
            batch = _Batch()
    if batch.emitted:
        yield batch


def listing(instructions: Iterable[Inst], assembly: bool) -> str:
    """The optimised LLVM IR, or the host's assembly, of every routine that ``instructions`` use, each once."""
    module = ir.Module("nki_kernel")
    unique: dict[Key, Inst] = {}
    for inst in instructions:
        unique.setdefault(routine_key(inst), inst)
    for number, inst in enumerate(unique.values()):
        _emit(module, f"r{number}_{inst.mnemonic}", inst)
    return engine().listing(module, assembly)


def loops(instructions: Iterable[Inst]) -> str:
    """The kernel IR of every routine that ``instructions`` use, each once, below the first instruction that uses it.

    Routines of equal text, such as those of other start partitions, are shown once.
    """
    unique: dict[Key, Inst] = {}
    for inst in instructions:
        unique.setdefault(routine_key(inst), inst)
    numbers: dict[tuple[str, str, str], list[int]] = {}
    for number, inst in enumerate(unique.values()):
        statements = show_loops(lower_any(next(split_rows(inst)), aliases(inst)))
        operands = ", ".join(f"%{n} {access.name}" for n, access in enumerate(inst.accesses()))
        numbers.setdefault((inst.mnemonic, operands, textwrap.indent(statements, "  ")), []).append(number)
    texts: list[str] = []
    for (mnemonic, operands, statements), same in numbers.items():
        others = f"; and {len(same) - 1} more" if len(same) > 1 else ""
        texts.append(f"r{same[0]}_{mnemonic}  # {operands}{others}\n{statements}")
    return "\n".join(texts)


def _emit(module: ir.Module, name: str, inst: Inst) -> EmittedRoutine:
    """Emit the routine of ``inst`` into ``module``."""
    return emit_routine(module, name, inst, aliases(inst), engine().vector_width)
