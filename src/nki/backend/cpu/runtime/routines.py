"""Compiled routines, one per instruction signature; all kernels of the process share them.

A routine is in memory, or in the user's cache of native code, or it is compiled. Object code is found by the digest of
its LLVM IR, and to make that IR takes longer than to load the code. So a small file for each routine tells the object
code that holds it. Its name is a digest of everything that the IR is made from: the signature of the instruction and
the aliases of its operands, this build of the package, and the host.

Routines that differ in sizes and distances alone share one body, which takes these as arguments. A kernel whose tiles
grow from round to round has a routine for each size. LLVM needs up to 50 ms for one of them, and a fraction of a
millisecond for a function that calls a shared body with the numbers of its size. Every instruction of the body is that
of the routines, so the bits are the same.
"""

from __future__ import annotations

import re
import textwrap
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any, Final, cast
from weakref import WeakValueDictionary

from llvmlite import ir

from nki.backend.cpu.codegen.matmul import kernels_of
from nki.backend.cpu.codegen.routine import EmittedRoutine, emit_routine, routine_ir
from nki.backend.cpu.kernel_ir.accesses import Use, aliases
from nki.backend.cpu.kernel_ir.kernel_printer import show_loops
from nki.backend.cpu.kernel_ir.nodes import Matmul
from nki.backend.cpu.native import library
from nki.backend.cpu.runtime.native_gather_scatter import GatherComputeScatter
from nki.base.element_types import DType
from nki.base.locks import Lock
from nki.base.version import build, version
from nki.ir.indirection.gather_offsets import indirect_operands
from nki.ir.instruction import Inst
from nki.ir.program import Program
from nki.ir.types import Tensor
from nki.isa.tables.operators import Op
from nki.numerics import object_cache
from nki.numerics.llvm import taken
from nki.numerics.llvm_jit import Code, Module, engine

Progress = Callable[[int, int], None]
"""Gets the number of routines compiled so far, and of all routines to compile."""
Turns = Callable[[], None]
"""Called between modules by a compilation that nothing waits for."""
Key = tuple[Any, ...]

_BODIES_PER_MODULE = 4
"""Larger LLVM modules compile faster, by a tenth with 24; smaller ones keep all threads busy and show progress."""
_ROUTINES_PER_MODULE = 64
"""Routines that share bodies."""
_MODULES_PER_TURN = 2
"""Modules that a compilation in turns has at once: 0.1 to 0.3 s, for which other threads wait for LLVM."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Routine:
    """A routine in memory, as long as this object, which holds its ``code``; facts as in :class:`EmittedRoutine`."""

    address: int
    code: Code
    scratch: int
    partitions: int
    uses: tuple[Use, ...]
    nanoseconds: float


_routines: WeakValueDictionary[Key, Routine] = WeakValueDictionary()
_recent: deque[Routine] = deque(maxlen=512)
"""Routines that stay although no kernel may use them: a kernel that is made anew finds them."""
_lock = Lock()


def routine_key(inst: Inst) -> Key:
    """Instructions with equal keys share a routine."""
    return (inst.key(), aliases(inst))


def is_indirect(inst: Inst) -> bool:
    """True if run-time offsets choose the elements of an operand: the parts of ``inst`` have routines, not itself."""
    return inst.form.has_runtime_index and bool(inst.effects.element_indexed and indirect_operands(inst))


class RoutineNumbers:
    """The routines that a program needs, each once, with numbers in the order of their first use."""

    def __init__(self) -> None:
        self.instructions: dict[Key, Inst] = {}
        """The first instruction of each routine."""
        self._numbers: dict[Key, int] = {}
        self._by_form: dict[object, int] = {}
        """Numbers by the form of an instruction, and by :func:`_sharing`: these are cheaper to have than a key."""

    def number(self, inst: Inst) -> int:
        """The number of the routine of ``inst``."""
        form = inst.form, _sharing(inst)
        number = self._by_form.get(form)
        if number is None:
            key = routine_key(inst)
            self.instructions.setdefault(key, inst)
            number = self._by_form[form] = self._numbers.setdefault(key, len(self._numbers))
        return number


def _sharing(inst: Inst) -> tuple[int, ...]:
    """Everything but the form that :func:`~nki.backend.cpu.kernel_ir.accesses.aliases` depends on.

    The first operand on the tensor of each operand, and how many elements this begins behind that one; nothing where no
    two operands are on one tensor.
    """
    accesses = inst.accesses()
    if len({access.tensor for access in accesses}) == len(accesses):
        return ()
    first: dict[Tensor, tuple[int, int]] = {}
    sharing: list[int] = []
    for number, access in enumerate(accesses):
        other, offset = first.setdefault(access.tensor, (number, access.offset))
        sharing += other, access.offset - offset
    return tuple(sharing)


def found_routines(instructions: dict[Key, Inst]) -> dict[Key, Routine]:
    """The routines among these that are in memory or in the user's cache, which are loaded now."""
    with _lock:
        found = {key: routine for key in instructions if (routine := _routines.get(key)) is not None}
    _add(stored_routines([key for key in instructions if key not in found]), found)
    return found


def compile_routines(
    instructions: dict[Key, Inst], found: dict[Key, Routine], progress: Progress | None, turns: Turns | None = None
) -> list[Routine]:
    """The routine of each key, in order; those that :func:`found_routines` has not ``found`` are compiled.

    The caller holds them as long as their addresses are in use. With ``turns`` the modules are compiled a few at a
    time, and ``turns`` is called before each time: other threads come to LLVM meanwhile, and what ``turns`` raises ends
    the compilation. What was compiled by then is kept.
    """
    compiled = dict(found)
    missing = {key: inst for key, inst in instructions.items() if key not in compiled}
    if progress is not None and missing:
        progress(0, len(missing))
    batches = _batches(_in_order(list(missing.items())))
    if turns is None:
        with _matmuls_ahead(list(missing.values())):
            _compile(batches, compiled, progress, len(missing))
    else:
        turns()
        while group := list(islice(batches, _MODULES_PER_TURN)):
            _compile(iter(group), compiled, progress, len(missing))
            turns()
    return [compiled[key] for key in instructions]


def _compile(batches: Iterator[_Batch], compiled: dict[Key, Routine], progress: Progress | None, count: int) -> None:
    """Compile ``batches`` while they are made, add their routines to ``compiled``, and keep them for other processes.

    ``progress`` is told how many of ``count`` there are.
    """
    begun: list[_Batch] = []

    def modules() -> Iterator[str]:
        for batch in batches:
            begun.append(batch)
            yield batch.text()
            if len(begun) == 1:
                library.entry("run")  # which every launch needs: compiled while other threads compile routines

    def note(done: int) -> None:
        if progress is not None:
            progress(sum(len(batch.emitted) for batch in begun[:done]), count)

    for batch, code in zip(begun, engine().load_all(modules(), note), strict=True):
        made = {key: Routine(code.addresses[name], code, *facts) for key, (name, facts) in batch.emitted.items()}
        _add(made, compiled)
        for key, (name, facts) in batch.emitted.items():
            _store(key, name, facts, code)


def _add(routines: dict[Key, Routine], compiled: dict[Key, Routine]) -> None:
    """Add ``routines`` to the routines of this process and to ``compiled``."""
    with _lock:
        for key, routine in routines.items():
            compiled[key] = _routines[key] = routine
            _recent.append(routine)


# The user's cache


def _unpacked(code: str, name: str, facts: Sequence[Any]) -> tuple[str, str, EmittedRoutine]:
    """The contents of the file of a routine: the key of its object code, its name there, and facts."""
    return code, name, EmittedRoutine(*facts)


def stored_routines(keys: Iterable[Key]) -> dict[Key, Routine]:
    """The routines with these keys that are in the user's cache, with their code loaded."""
    routines: dict[Key, Routine] = {}
    codes: dict[str, Code | None] = {}
    for key in keys if object_cache.is_enabled() else ():
        file = _file(key)
        stored = None if file is None else object_cache.load(file, _unpacked)
        if stored is None:
            continue
        code_key, name, facts = stored
        if code_key not in codes:
            codes[code_key] = engine().stored(code_key)
        code = codes[code_key]
        if code is not None and name in code.addresses:
            routines[key] = Routine(code.addresses[name], code, *facts)
    return routines


def _store(key: Key, name: str, facts: EmittedRoutine, code: Code) -> None:
    """Note that ``code`` holds the routine ``name`` for ``key``."""
    file = _file(key) if code.is_portable and object_cache.is_enabled() else None
    if file is not None:
        object_cache.store(file, (code.key, name, facts))


def _file(key: Key) -> str | None:
    """The name of the file of a routine; None if its key holds what has no name in another process."""
    try:
        text = _text(key)
    except TypeError:
        return None
    return engine().key_of(f"{build()}\n{text}") + ".routine"


def _text(value: Any) -> str:
    """A part of a key as text, a text of its own for each value. Raises ``TypeError`` for what has none."""
    kind = cast("type[Any]", type(value))
    if kind is tuple:
        return f"({','.join(map(_text, value))})"
    if value is None or kind in (bool, int, float, str, bytes):
        return f"{kind.__name__} {value!r}"
    if isinstance(value, Enum):
        return f"{kind.__qualname__}.{value.name}"
    if kind in (Op, DType):
        return f"{kind.__name__} {value.name}"
    if kind is type:
        return f"type {value.__module__}.{value.__qualname__}"
    raise TypeError(kind)


# Compilation


def _matmuls_ahead(instructions: list[Inst]) -> AbstractContextManager[None]:
    """Compile meanwhile the micro-kernels of float32 numbers that ``instructions`` call: they take up to 0.2 s."""
    modules: dict[str, Module] = {}
    for inst in instructions:
        if inst.effects.accumulation is not None:
            for statement in routine_ir(inst, aliases(inst)).statements:
                if isinstance(statement, Matmul):
                    modules |= {module[0]: module for module in kernels_of(statement)}
    return engine().ahead(list(modules.values())) if modules else nullcontext()


def _in_order(items: list[tuple[Key, Inst]]) -> list[tuple[Key, Inst]]:
    """``items`` by mnemonic, in the order in which these come; matmuls and transpositions behind the others.

    Routines of one mnemonic may share a body. Matmuls and transpositions call functions that are compiled when their
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
        self.emitted[key] = name, emit_routine(self._module, name, inst, aliases(inst), engine().vector_width)
        text = RoutineText.of(taken(self._module.globals.pop(name)))
        self._texts.append(text)
        self._bodies.add(text.pieces)

    @property
    def is_full(self) -> bool:
        """True if another routine belongs into another module."""
        return len(self._bodies) >= _BODIES_PER_MODULE or len(self.emitted) >= _ROUTINES_PER_MODULE

    def text(self) -> str:
        """The module's LLVM IR."""
        return "\n".join([str(self._module), *definitions(self._texts)])


def _batches(items: list[tuple[Key, Inst]]) -> Iterator[_Batch]:
    batch = _Batch()
    for item in items:
        batch.add(*item)
        if batch.is_full:
            yield batch
            batch = _Batch()
    if batch.emitted:
        yield batch


# Routines that share a body


_LINE: Final = re.compile(
    r'^  (?:%"[^"]*" = (?:add i64 %"[^"]*", |getelementptr i8, ptr %"[^"]*", i64 )(?P<offset>-?\d+)'
    r'|%"[^"]*" = (?:mul|icmp \w+) i64 %"[^"]*", (?P<size>-?\d+)'
    r'|(?P<call>call void @"(?!llvm)[^"]*"\(.*\)))$',
    re.MULTILINE,
)
"""A line of LLVM IR with integers that may be values of any kind: its last operand, or arguments of a call."""
_SHORT: Final = 128
"""Bounds of loops and distances below this one stay in a body. LLVM unrolls short loops if it knows how often they run:
scans, sums in groups and copies of short rows would be 4 to 17 % slower.
"""
_ARGUMENT: Final = re.compile(r"(?<=[(\s])i64 (-?\d+)(?=[,)])")
_HEAD: Final = re.compile(r'define void @"(?P<name>[^"]*)"\((?P<arguments>[^\n]*)\)\n')
FEWEST: Final = 3
"""Routines that are worth a body that knows no sizes."""


@dataclass(frozen=True, slots=True)
class RoutineText:
    """The LLVM IR of a routine, cut at the integers that may differ between routines with the same body."""

    name: str
    arguments: str
    pieces: tuple[str, ...]
    numbers: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> RoutineText:
        """The routine with the definition ``text``."""
        head = _HEAD.search(text)
        assert head is not None, "a routine is a function without attributes"
        pieces: list[str] = []
        numbers: list[str] = []
        at = head.end()
        for line in _LINE.finditer(text, at):
            spans = [line.span(line.lastgroup or "")]
            if line["call"] is not None:
                spans = [found.span(1) for found in _ARGUMENT.finditer(text, *line.span("call"))]
            elif line["size"] is not None and abs(int(line["size"])) < _SHORT:
                continue
            for start, end in spans:
                pieces.append(text[at:start])
                numbers.append(text[start:end])
                at = end
        return cls(head["name"], head["arguments"], (*pieces, text[at:]), tuple(numbers))

    def with_numbers(self, name: str, arguments: str, numbers: Sequence[str], attributes: str = "") -> str:
        """A function with this body and other numbers, or names of arguments in their place."""
        parts = [part for pair in zip(self.pieces, numbers, strict=False) for part in pair]
        return f'define void @"{name}"({arguments}){attributes}\n{"".join(parts)}{self.pieces[-1]}'

    def __str__(self) -> str:
        return self.with_numbers(self.name, self.arguments, self.numbers)


def definitions(routines: Sequence[RoutineText]) -> list[str]:
    """The functions that define ``routines``, with shared bodies."""
    groups: dict[tuple[str, ...], list[RoutineText]] = {}
    for routine in routines:
        groups.setdefault(routine.pieces, []).append(routine)
    functions: list[str] = []
    for group in groups.values():
        if len(group) < FEWEST:
            functions += map(str, group)
        else:
            functions += _shared(group)
    return functions


def _shared(group: Sequence[RoutineText]) -> list[str]:
    """One body for ``group``, and a function for each routine that calls it."""
    first = group[0]
    columns = list(zip(*(routine.numbers for routine in group), strict=True))
    names: dict[tuple[str, ...], str] = {}
    numbers: list[str] = []
    for column in columns:  # numbers that differ alike are one argument
        same = len(set(column)) == 1
        numbers.append(column[0] if same else names.setdefault(column, f'%"size.{len(names)}"'))
    body = f"{first.name}_body"
    arguments = ", ".join([first.arguments, *(f"i64 {name}" for name in names.values())])
    functions = [first.with_numbers(body, arguments, numbers, " noinline")]
    for index, routine in enumerate(group):
        values = ", ".join([routine.arguments, *(f"i64 {column[index]}" for column in names)])
        functions.append(
            f'define void @"{routine.name}"({routine.arguments})\n'
            f'{{\n  tail call void @"{body}"({values})\n  ret void\n}}\n'
        )
    return functions


# Listings


def loop_listing(program: Program) -> str:
    """The kernel IR of every routine that ``program`` uses, each once, below the first instruction that uses it.

    Routines of equal text, such as for other start partitions, are shown once.
    """
    numbers: dict[tuple[str, str, str], list[int]] = {}
    for number, inst in enumerate(_instructions(program)):
        statements = show_loops(routine_ir(inst, aliases(inst)))
        operands = ", ".join(f"%{n} {access.name}" for n, access in enumerate(inst.accesses()))
        numbers.setdefault((inst.mnemonic, operands, textwrap.indent(statements, "  ")), []).append(number)
    texts: list[str] = []
    for (mnemonic, operands, statements), same in numbers.items():
        others = f"; and {len(same) - 1} more" if len(same) > 1 else ""
        texts.append(f"r{same[0]}_{mnemonic}  # {operands}{others}\n{statements}")
    return "\n".join(texts)


def listing(program: Program, assembly: bool) -> str:
    """The optimised LLVM IR, or the host's assembly, of every routine that ``program`` uses, each once."""
    module = ir.Module("nki_kernel")
    for number, inst in enumerate(_instructions(program)):
        emit_routine(module, f"r{number}_{inst.mnemonic}", inst, aliases(inst), engine().vector_width)
    heading = f"{'#' if assembly else ';'} open-nki {version()}, kernel {program.name}\n"
    return heading + engine().listing(module, assembly)


def _instructions(program: Program) -> list[Inst]:
    """The first instruction of each routine that ``program`` needs. Collectives have none: native code calls Python."""
    needed = RoutineNumbers()
    for inst in program.instructions():
        if inst.effects.collective is not None:
            continue
        for part in GatherComputeScatter(inst).parts if is_indirect(inst) else (inst,):
            needed.number(part)
    return list(needed.instructions.values())
