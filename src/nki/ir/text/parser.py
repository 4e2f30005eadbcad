"""Parser of the text form, which :mod:`nki.ir.text.printer` describes.

Parsing never evaluates anything, and proves nothing but the form: stage ``verify`` decides if the program is legal.
"""

from __future__ import annotations

import base64
import functools
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from nki.base import gc_pause
from nki.base.element_types import BY_NAME, DType
from nki.base.errors import TextError
from nki.base.float_text import from_text
from nki.base.source import Noted, Span, Where, note_file
from nki.ir.constant import Constant, constant
from nki.ir.floats.runtime_float import LARGEST, FloatSpec, RuntimeFloat, evaluate, operators
from nki.ir.instruction import NOWHERE, REGISTRY, Field, Inst
from nki.ir.loop import For, Loop, Statement, While, declared
from nki.ir.program import CoreProgram, Program, Signature
from nki.ir.text import grammar, schedule_attributes
from nki.ir.text.formula import parse_formula
from nki.ir.types import Access, Buffer, Dynamic, IndexKind, Tensor

_DIGITS = 20
"""Characters of the longest whole number."""
_WORD = range(-(1 << 63), 1 << 63)
"""Whole numbers: more than 64 bits have no meaning anywhere."""
MOST_DATA = 1 << 29
"""Bytes of all constants: a few edited letters must not fill the memory."""
_BUFFERS = dict(Buffer.__members__)  # a lookup in the enumeration itself takes several times as long
_NESTED = 32
"""Loops within loops."""
_DEPTH = 8
"""Parentheses within parentheses: no argument has more than two."""


def parse(text: str, origin: str = "") -> Program:
    """The kernel that ``text`` describes. Raises :class:`TextError` naming the line that cannot be read.

    ``origin`` is the file of a text that a user may have edited: later errors then point at its lines. Without it
    they point at the source lines that the text names.
    """
    with gc_pause.paused():
        return _Parser(text, origin).kernel()


class _Parser:
    def __init__(self, text: str, origin: str) -> None:
        self.origin = origin
        self.lines = [line.strip() for line in text.splitlines()]
        self.number: int = 0
        """The number of the line that was read last."""
        self.tensors: dict[str, Tensor] = {}
        """Those that can be named here, in the order in which they were declared."""
        self.names: set[str] = set()
        self.placement: dict[Tensor, tuple[int, int]] = {}
        # Unrolled loops say the same again and again; what has been read is looked up by its text.
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.windows: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self.values: dict[object, Any] = {}
        """Operands and numbers by their text, other values by their field and text."""
        self.places: dict[str, Noted] = {}
        self.data_bytes = 0
        self.floats: dict[str, FloatSpec] = {}
        if origin:
            note_file(origin)

    def fail(self, why: str) -> TextError:
        line = self.lines[self.number - 1] if 0 < self.number <= len(self.lines) else "the end of the text"
        span = Span(self.origin, self.number) if self.origin else None
        fix = "compare with the output of `nki dump`"
        return TextError(f"line {self.number}: {why}: {line[:160]}", fix=fix, span=span)

    def next(self) -> str:
        line = self.after()
        if line is None:
            self.number += 1
            raise self.fail("the kernel is not closed")
        return line

    def kernel(self) -> Program:
        head = grammar.HEAD.match(self.next())
        if head is None:
            raise self.fail('expected kernel "name" target=… grid=… version=… {')
        body, line = self.body("return ")
        returned = grammar.OUTPUTS.match(line)
        if returned is None:
            raise self.fail("expected return tensor, or return (tensor, …), and maybe changes input, …")
        sequence = returned[8] is None
        results = re.findall(grammar.RETURNED, (returned[1] or "") if sequence else returned[8])
        outputs = [self.tensor(name) for name, *_ in results]
        forms = [
            (tuple(self.whole(n) for n in shape.split(",") if n) if shape else tensor.shape, self.dtype(kind, tensor))
            for tensor, (_, shape, kind) in zip(outputs, results, strict=True)
        ]
        changed = [self.tensor(name) for name in re.findall(grammar.NAME, returned["changes"] or "")]
        if any(tensor.role != "input" for tensor in changed):
            raise self.fail("a kernel changes its inputs, which the caller passes")
        if self.next() != "}":
            raise self.fail("expected } after return")
        inputs = tuple(t for t in self.tensors.values() if t.role == "input")
        forms = tuple(forms) if any(shape for _, shape, _ in results) else ()
        signature = Signature(inputs, tuple(outputs), sequence, forms, tuple(self.floats.values()))
        return Program(
            self.string(head[1]),
            head[2],
            tuple(self.whole(n) for n in re.findall(r"\d+", head[3])),
            signature.with_hidden(changed),
            (self.core(0, body), *self.others()),
            self.string(head[4]),
            release=head[5] or "",
            propagates_undefined=head[6] is not None,
        )

    def core(self, rank: int, body: list[Statement]) -> CoreProgram:
        return CoreProgram(rank, tuple(body), (*self.tensors.values(), *declared(body)), self.placement)

    def others(self) -> Iterator[CoreProgram]:
        """The programs of further cores, up to the end of the text, where nothing but comments may follow."""
        common, number = self.tensors, 1
        while (line := self.after()) is not None:
            if line != f"core {number} {{":
                raise self.fail(f"expected core {number} {{, or the end of the text")
            self.tensors, self.names, self.placement = {}, set(), {}
            self.values.clear()
            body, _ = self.body("}", common=common)
            yield self.core(number, body)
            number += 1

    def after(self) -> str | None:
        """The next line behind a program, if there is one."""
        while self.number < len(self.lines):
            line = self.lines[self.number]
            self.number += 1
            if line and line[0] != "#":
                return line
        return None

    def body(self, end: str, depth: int = 0, common: Mapping[str, Tensor] | None = None) -> tuple[list[Statement], str]:
        """Statements up to a line that begins with ``end``; and that line. ``common``: what can be named as shared."""
        body: list[Statement] = []
        while not (line := self.next()).startswith(end):
            if line.partition(" ")[0] in REGISTRY:
                body.append(self.instruction(line))
            elif line.startswith(("input ", "output ", "tensor ", "constant ", "spill ")):
                self.declare(line)
            elif (match := grammar.FLOAT.match(line)) and common is None and not depth:
                name = self.name(match[1])
                if name in self.floats:
                    raise self.fail(f"float {name} is declared twice")
                self.floats[name] = FloatSpec(name, from_text(match[2]))
            elif common is not None and line.startswith("shared "):
                self.share(line, common)
            elif match := grammar.FOR.match(line):
                start, stop = (self.bound(match[i], match[i + 1]) for i in (2, 4))
                loop = For(self.register(match[1]), start, stop, self.whole(match[6]), where=self.where(line, match))
                body.append(self.looping(loop, depth))
            elif match := grammar.WHILE.match(line):
                body.append(self.looping(While(self.register(match[1]), where=self.where(line, match)), depth))
            else:
                body.append(self.instruction(line))
        return body, line

    def looping(self, loop: Loop, depth: int) -> Loop:
        """``loop`` with the body that follows. Declarations of the body are local to the body."""
        if depth >= _NESTED:
            raise self.fail(f"more than {_NESTED} loops in one another")
        outside = set(self.tensors)
        body, _ = self.body("}", depth + 1)
        tensors = tuple(self.tensors.pop(name) for name in list(self.tensors) if name not in outside)
        if tensors:
            self.values.clear()  # among them are windows of these
        return replace(loop, body=tuple(body), tensors=tensors)

    def bound(self, number: str | None, name: str | None) -> int | Access:
        return self.whole(number) if number else self.register(name or "")

    def register(self, name: str) -> Access:
        return Access.whole(self.tensor(name))

    def where(self, line: str, match: re.Match[str]) -> Where:
        if self.origin:
            return Noted(Span(self.origin, self.number))
        source = grammar.SOURCE.search(line, match.end())
        return Noted(Span(self.string(source[1]), int(source[2]))) if source else NOWHERE

    def string(self, quoted: str) -> str:
        try:
            return str(json.loads(quoted))
        except ValueError:
            raise self.fail("cannot read a quoted string") from None

    def whole(self, digits: str) -> int:
        if len(digits) > _DIGITS:
            raise self.fail("a number has too many digits")
        number = int(digits)
        if number not in _WORD:
            raise self.fail(f"the number {number} has more than 64 bits")
        return number

    def declare(self, line: str) -> None:
        match = grammar.DECLARE.match(line)
        buffer, dtype = (_BUFFERS.get(match[3]), BY_NAME.get(match[4])) if match else (None, None)
        if match is None or buffer is None or dtype is None:
            raise self.fail("not a tensor declaration")
        name = self.name(match[2])
        if name in self.names:
            raise self.fail(f"tensor {name} is declared twice")
        self.names.add(name)
        shape = self.shapes.get(match[5])
        if shape is None:
            shape = self.shapes[match[5]] = tuple(self.whole(n) for n in match[5].split(",") if n)
        address = (self.whole(match[6]), self.whole(match[7])) if match[6] else None
        role = "" if match[1] == "tensor" else match[1]
        span = Span(self.origin, self.number) if self.origin else None
        tensor = self.tensors[name] = Tensor(name, shape, dtype, buffer, address, role, span)
        if match[8]:
            self.placement[tensor] = (self.whole(match[8]), self.whole(match[9]))
        if match[10]:
            tensor.data = self.data(match[10], match[11], tensor.nbytes)

    def share(self, line: str, common: Mapping[str, Tensor]) -> None:
        match = grammar.SHARED.match(line)
        name = self.name(match[1]) if match else ""
        if name not in common or name in self.names:
            raise self.fail("no tensor of core 0, or one that is declared already")
        self.names.add(name)
        self.tensors[name] = common[name]

    def data(self, digest: str, packed: str, size: int) -> Constant:
        """A constant's bytes. However many the text holds, no more are unpacked than the tensor has."""
        self.data_bytes += size
        if self.data_bytes > MOST_DATA:
            raise self.fail(f"the constants have more than {MOST_DATA} bytes")
        unpacker = zlib.decompressobj()
        try:
            data = unpacker.decompress(base64.b64decode(packed, validate=True), size) if size else b""
        except (zlib.error, ValueError, OverflowError):
            raise self.fail("the data of a constant cannot be unpacked") from None
        value = constant(data)
        if len(data) != size or value.digest != digest:
            raise self.fail("the data of a constant are damaged, or not as many as it needs")
        return value

    def name(self, written: str) -> str:
        return self.string(written) if written.startswith('"') else written

    def tensor(self, written: str) -> Tensor:
        name = self.name(written)
        if name not in self.tensors:
            raise self.fail(f"unknown tensor {name}")
        return self.tensors[name]

    def instruction(self, line: str) -> Inst:
        head = grammar.INSTRUCTION.match(line)
        cls = REGISTRY.get(head[1]) if head else None
        if head is None or cls is None:
            raise self.fail("unknown instruction")
        fields, known = _fields_by_name(cls), self.values
        values: dict[str, Any] = {}
        at = head.end(1)
        for name, written in grammar.ARGUMENT.findall(head[2]):
            if name in values or name not in fields:
                break
            at += len(name) + 2
            value = known.get(written)
            values[name] = self.brief(line, at, written, fields[name]) if value is None else value
            at += len(written)
        placed: dict[str, Any] = {}
        while (at := _skip(line, at)) < len(line) and line[at] != "#":
            word = grammar.WORD.match(line, at)
            if word is not None and not placed and line[word.end() : word.end() + 1] == " ":
                placed, at = schedule_attributes.read(line, at)
                if not placed:
                    raise self.fail(f"unknown argument of {cls.mnemonic}")
                continue
            if word is None or word[0] not in fields or line[word.end() : word.end() + 1] != "=":
                raise self.fail(f"unknown argument of {cls.mnemonic}")
            if word[0] in values:
                raise self.fail(f"{word[0]} is given twice")
            values[word[0]], at = self.value(line, word.end() + 1, fields[word[0]])
        try:
            inst = cls(**values)
        except TypeError as error:
            raise self.fail(str(error)) from None
        inst.__dict__.update(placed)
        if self.origin:
            inst.where = Noted(Span(self.origin, self.number))
        elif at < len(line):
            inst.where = self.places.get(line[at + 1 :]) or self.place(line, at)
        return inst

    def place(self, line: str, at: int) -> Where:
        """The position in the user's file that the comment at ``at`` names."""
        source = grammar.SOURCE.match(line, at)
        if source is None:
            return NOWHERE
        position = self.places[line[at + 1 :]] = Noted(Span(self.string(source[1]), int(source[2])))
        return position

    def brief(self, line: str, at: int, written: str, f: Field) -> Any:
        """The value ``written`` at ``at``, of an argument that :data:`grammar.ARGUMENT` reads."""
        value = self.values.get((f, written))
        if value is None:
            value, end = self.value(line, at, f)
            if end != at + len(written):
                raise self.fail(f"cannot read the value at column {at + 1}")
            alike = isinstance(value, Access | int | float) and not isinstance(value, bool)  # for every field
            self.values[written if alike else (f, written)] = value
        return value

    def value(self, line: str, at: int, f: Field, depth: int = 0) -> tuple[Any, int]:
        """The value that starts at ``at``, and where it ends."""
        if line.startswith("(", at) and depth < _DEPTH:
            return self.sequence(line, at, f, depth + 1)
        if match := grammar.OPERAND.match(line, at):
            return self.operand(line, match, depth)
        if match := grammar.STRING.match(line, at):
            return self.string(match[0]), match.end()
        if match := grammar.NUMBER.match(line, at):
            text = match[0]
            return (self.whole(text) if re.fullmatch(r"-?\d+", text) else from_text(text)), match.end()
        if match := grammar.WORD.match(line, at):
            return self.word(match[0], f), match.end()
        if line.startswith("@", at):
            return self.runtime_float(line, at + 1, f)
        raise self.fail(f"cannot read the value at column {at + 1}")

    def runtime_float(self, line: str, at: int, f: Field) -> tuple[RuntimeFloat, int]:
        """The run-time float of the formula that starts at ``at``. Only immediates that are floats may be one."""
        if not f.immediate or float not in f.types:
            raise self.fail(f"{f.name} is no number that a launch may pass")
        try:
            formula, end = parse_formula(line, at)
            value = evaluate(formula, {spec.name: spec.value for spec in self.floats.values()})
        except KeyError as name:
            raise self.fail(f"unknown float {name}") from None
        except (ValueError, ArithmeticError) as error:
            raise self.fail(str(error)) from None
        if operators(formula) > LARGEST:
            raise self.fail(f"a formula has more than {LARGEST} operators")
        return RuntimeFloat.of(value, formula, None), end

    def sequence(self, line: str, at: int, f: Field, depth: int) -> tuple[tuple[Any, ...], int]:
        items: list[Any] = []
        at += 1
        while not line.startswith(")", at := _skip(line, at)):
            item, at = self.value(line, at, f, depth)
            items.append(item)
            at = _skip(line, at)
            if line.startswith(",", at):
                at += 1
            elif not line.startswith(")", at):
                raise self.fail("expected , or )")
        return tuple(items), at + 1

    def dtype(self, name: str | None, tensor: Tensor) -> DType:
        """The dtype ``name``, by default the dtype of ``tensor``."""
        if not name:
            return tensor.dtype
        if name not in BY_NAME:
            raise self.fail(f"unknown dtype {name}")
        return BY_NAME[name]

    def operand(self, line: str, match: re.Match[str], depth: int) -> tuple[Access, int]:
        counts, steps = self.windows.get(match[3]) or self.window(match[3])
        tensor = self.tensor(match[1])
        dtype = self.dtype(match[4], tensor)
        at, dynamic = match.end(), None
        if line[at - 1] != "]":
            dynamic, at = self.index(line, at, depth)
        return Access(tensor, self.whole(match[2]), counts, steps, dtype, dynamic), at

    def index(self, line: str, at: int, depth: int) -> tuple[Dynamic, int]:
        """The run-time index of an operand, up to and with the operand's closing bracket."""
        head = grammar.INDEX.match(line, at)
        source = grammar.OPERAND.match(line, head.end()) if head is not None and depth < _DEPTH else None
        if head is None or source is None:
            raise self.fail("a run-time index reads at, rows or elements step*tensor[…]")
        access, at = self.operand(line, source, depth + 1)
        if not line.startswith("]", at):
            raise self.fail("expected ] after a run-time index")
        return Dynamic(access, self.whole(head[2]), IndexKind(head[1])), at + 1

    def window(self, written: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Counts and steps of ``step x count, …``."""
        parts = [grammar.STEP.fullmatch(part) for part in written.split(", ")]
        window = [(self.whole(part[1]), self.whole(part[2])) for part in parts if part is not None]
        if len(window) < len(parts):
            raise self.fail("an operand reads tensor[offset | step x count, …]")
        access_pattern = self.windows[written] = tuple(count for _, count in window), tuple(step for step, _ in window)
        return access_pattern

    def word(self, word: str, f: Field) -> Any:
        if word in ("True", "False", "None"):
            return {"True": True, "False": False, "None": None}[word]
        if word in ("inf", "nan"):
            return float(word)
        symbol = f.symbol
        if symbol is not None:
            member = symbol.__members__.get(word) if issubclass(symbol, Enum) else symbol.named(word)
            if member is not None:
                return member
        raise self.fail(f"unknown word {word}")


@functools.cache
def _fields_by_name(cls: type[Inst]) -> dict[str, Field]:
    return {f.name: f for f in cls.fields}


def _skip(line: str, at: int) -> int:
    while at < len(line) and line[at] == " ":
        at += 1
    return at
