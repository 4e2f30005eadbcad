"""Compiled routines, one per instruction signature; all kernels of the process share them."""

from __future__ import annotations

import textwrap
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from llvmlite import ir

from nki.backend.cpu.codegen.routine import EmittedRoutine, emit_routine
from nki.backend.cpu.fusion.lowering import lower_any
from nki.backend.cpu.loop_ir.aliases import aliases
from nki.backend.cpu.loop_ir.partitions import Use
from nki.backend.cpu.loop_ir.printer import show_loops
from nki.backend.cpu.runtime import stored_routines
from nki.base.locks import Lock
from nki.ir.indirection.runtime_index import split_rows
from nki.ir.instruction import Inst
from nki.numerics.jit import Code, engine

Progress = Callable[[int, int], None]
"""Gets the number of routines compiled so far, and of all routines to compile."""
Key = tuple[Any, ...]

_ROUTINES_PER_MODULE = 8
"""Larger LLVM modules compile faster, by a tenth with 24; smaller ones keep all threads busy and show progress."""


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
    batches = [
        list(batch) for batch in _batches(_in_order([item for item in missing.items() if item[0] not in stored]))
    ]
    emitted: list[list[EmittedRoutine]] = []

    def modules() -> Iterator[ir.Module]:
        for batch in batches:
            module = ir.Module("nki_kernel")
            emitted.append([_emit(module, _name(n, inst), inst) for n, (_, inst) in enumerate(batch)])
            yield module

    def note(done: int) -> None:
        if progress is not None:
            progress(len(stored) + sum(map(len, batches[:done])), len(missing))

    codes = engine().load_all(modules(), note)
    for batch, facts, code in zip(batches, emitted, codes, strict=True):
        made = {key: (_name(n, inst), facts[n], code) for n, (key, inst) in enumerate(batch)}
        _add({key: _routine(*each) for key, each in made.items()}, compiled)
        for key, each in made.items():
            stored_routines.keep(key, *each)
    return [compiled[key] for key in instructions]


def _routine(name: str, facts: EmittedRoutine, code: Code) -> Routine:
    return Routine(code.addresses[name], facts.scratch, facts.partitions, facts.uses, facts.nanoseconds, code)


def _add(routines: dict[Key, Routine], compiled: dict[Key, Routine]) -> None:
    """Add ``routines`` to those of this process and to ``compiled``."""
    with _lock:
        for key, routine in routines.items():
            compiled[key] = _routines[key] = routine
            _recent.append(routine)


def _in_order(items: list[tuple[Key, Inst]]) -> list[tuple[Key, Inst]]:
    """``items`` with products and transpositions behind the others, which keep their order.

    They call functions that are compiled when their IR is made, for up to 0.3 s: meanwhile other threads compile what
    came before.
    """
    return sorted(
        items, key=lambda item: item[1].effects.accumulation is not None or item[1].effects.transpose is not None
    )


def _batches(items: list[tuple[Key, Inst]]) -> Iterator[list[tuple[Key, Inst]]]:
    for first in range(0, len(items), _ROUTINES_PER_MODULE):
        yield items[first : first + _ROUTINES_PER_MODULE]


def _name(number: int, inst: Inst) -> str:
    return f"r{number}_{inst.mnemonic}"


def listing(instructions: Iterable[Inst], assembly: bool) -> str:
    """The optimised LLVM IR, or the host's assembly, of every routine that ``instructions`` use, each once."""
    module = ir.Module("nki_kernel")
    unique: dict[Key, Inst] = {}
    for inst in instructions:
        unique.setdefault(routine_key(inst), inst)
    for number, inst in enumerate(unique.values()):
        _emit(module, f"r{number}_{inst.mnemonic}", inst)
    return engine().assembly(module) if assembly else engine().optimised_ir(module)


def loops(instructions: Iterable[Inst]) -> str:
    """The loop IR of every routine that ``instructions`` use, each once, below the first instruction that uses it."""
    unique: dict[Key, Inst] = {}
    for inst in instructions:
        unique.setdefault(routine_key(inst), inst)
    texts: list[str] = []
    for number, inst in enumerate(unique.values()):
        statements = show_loops(lower_any(next(split_rows(inst)), aliases(inst)))
        operands = ", ".join(f"%{n} {access.name}" for n, access in enumerate(inst.accesses()))
        texts.append(f"r{number}_{inst.mnemonic}  # {operands}\n{textwrap.indent(statements, '  ')}")
    return "\n".join(texts)


def _emit(module: ir.Module, name: str, inst: Inst) -> EmittedRoutine:
    """Emit the routine of ``inst`` into ``module``."""
    return emit_routine(module, name, inst, aliases(inst), engine().vector_width)
