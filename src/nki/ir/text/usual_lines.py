"""Reader of the lines as the printer writes most of them: tensors like others before, instructions on plain operands.

Unrolled loops say the same again and again, so what has been read is looked up by its text, and a line is split at its
marks. A line that is anything else, or wrong, is left to :mod:`nki.ir.text.parser`, which says what is wrong.
"""

from __future__ import annotations

import functools
import re
from abc import ABC, abstractmethod
from typing import Any

from nki.base.errors import TextError
from nki.base.source import Noted, Span, Where
from nki.ir.instruction import REGISTRY, Field, Inst
from nki.ir.text import grammar, schedule_attributes
from nki.ir.types import Access, AccessForm, Tensor, TensorForm

_SHORT = 19
"""Digits of a whole number from which on it may have more than 64 bits."""
_UNKNOWN: Any = object()
_PLAIN = re.compile(grammar.PLAIN).fullmatch


class UsualLines(ABC):
    """Reader of usual lines, with all that has been read of a text.

    Its methods return None, or False, and change nothing, where a line is not usual.
    """

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.number: int = 0
        """The number of the line that was read last."""
        self.tensors: dict[str, Tensor] = {}
        """Those that can be named here, in the order in which they were declared."""
        self.names: set[str] = set()
        self.placement: dict[Tensor, tuple[int, int]] = {}  # where tensors lie
        # Unrolled loops say the same again and again; what has been read is looked up by its text.
        self.windows: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self.forms: dict[tuple[str, TensorForm, int], AccessForm] = {}
        """Of windows of tensors of a form, by the partition in which they start."""
        self.values: dict[str, Any] = {}
        self.words: dict[type[Inst], dict[tuple[str, str], Any]] = {}
        """Of other values, which mean what their field makes of them: by instruction, field and text."""
        self.queues: dict[str, str] = {}
        self.places: dict[str, Noted] = {}
        self.sorts: dict[str, Tensor] = {}
        """A tensor by the text of its memory, element type and shape."""

    @abstractmethod
    def value(self, line: str, at: int, f: Field, depth: int = 0) -> tuple[Any, int]:
        """The value of field ``f`` that starts at ``at``, and where it ends. Raises :class:`TextError`."""

    @abstractmethod
    def place(self, line: str, at: int) -> Where:
        """The position in the user's file that the comment at ``at`` names."""

    def usual_tensor(self, line: str) -> bool:
        """Declare a tensor of a sort that was declared before, if ``line`` does no more than that and is right."""
        name, _, text = line.removeprefix("tensor ").partition(" : ")
        sort, is_placed, place = text.partition(" place=(")
        like = self.sorts.get(sort)
        if like is None or name in self.names or not _PLAIN(name):
            return False
        span = Span(self.origin, self.number) if self.origin else None
        tensor = Tensor(name, like.shape, like.dtype, like.buffer, None, "", span, None, like.form)
        if is_placed:
            row, _, column = place.partition(", ")
            if column[-1:] != ")" or not (_is_short(row) and _is_short(column := column[:-1])):
                return False
            self.placement[tensor] = int(row), int(column)
        self.names.add(name)
        self.tensors[name] = tensor
        return True

    def usual_instruction(self, line: str) -> Inst | None:
        """The instruction of a line as the printer writes most of them; None of other lines, and of wrong ones."""
        text, _, comment = line.partition("  #")
        arguments, _, schedule = text.partition(" on ")
        first, *parts = arguments.split("=")
        mnemonic, _, name = first.partition(" ")
        if '"' in text or not parts or (cls := REGISTRY.get(mnemonic)) is None:
            return None
        words = self.words.get(cls)
        if words is None:
            words = self.words[cls] = {}
        values: dict[str, Any] = {}
        known, rest = self.values, len(parts)
        for part in parts:
            rest -= 1
            written, _, following = part.rpartition(" ") if rest else (part, "", "")
            value = known.get(written)
            if value is None and (value := words.get((name, written), _UNKNOWN)) is _UNKNOWN:
                value = self.first_value(cls, name, written, words)
                if value is _UNKNOWN:
                    return None
            values[name], name = value, following
        try:
            inst = cls(**values)
        except TypeError:
            return None
        if len(values) < len(parts) or (schedule and not self.usual_schedule(inst, schedule)):
            return None
        if self.origin:
            inst.where = Noted(Span(self.origin, self.number))
        elif comment:
            inst.where = self.places.get(comment) or self.place(line, len(text) + 2)
        return inst

    def first_value(self, cls: type[Inst], name: str, written: str, words: dict[tuple[str, str], Any]) -> Any:
        """The value of an argument with text that was not read before; it is kept unless it has quotes or
        parentheses.
        """
        value: Any = self.usual_operand(written) if written[-1:] == "]" else None
        if value is None:
            f = fields_by_name(cls).get(name)
            if f is None or not grammar.USUAL_VALUE.fullmatch(written):
                return _UNKNOWN
            try:
                value, end = self.value(written, 0, f)
            except TextError:
                return _UNKNOWN
            if end < len(written):
                return _UNKNOWN
        if isinstance(value, Access | int | float) and not isinstance(value, bool):
            self.values[written] = value
        else:
            words[name, written] = value
        return value

    def usual_operand(self, written: str) -> Access | None:
        """The access that a text describes; None if it has a run-time index or a dtype, or is wrong."""
        name, _, rest = written.partition("[")
        offset, _, pattern = rest.partition(" | ")
        pattern = pattern[:-1]
        window, tensor = self.windows.get(pattern), self.tensors.get(name)
        if window is None or tensor is None or not _is_short(offset):
            return None
        access = Access(tensor, start := int(offset), *window, tensor.dtype)
        self.note_form(access, pattern, start)
        return access

    def usual_schedule(self, inst: Inst, text: str) -> bool:
        """Put an instruction on the queue that ``text`` begins with, behind what it waits for; False if it is wrong."""
        queues = self.queues
        name, has_waits, waits = text.partition(" wait ")
        queue = queues.get(name)
        if queue is None:
            if not schedule_attributes.QUEUE.fullmatch(name):
                return False
            queue = queues[name] = name
        inst.queue = queue
        if has_waits:
            counts: list[tuple[str, int]] = []
            for wait in waits.split(", "):
                other, _, count = wait.partition(">=")
                if not ((other := queues.get(other, "")) and _is_short(count) and len(count) < 10):
                    return False
                counts.append((other, int(count)))
            inst.waits = tuple(counts)
        return True

    def note_form(self, access: Access, pattern: str, offset: int) -> None:
        """Give the form that all accesses share with the same text of counts and steps to one in its tensor's dtype."""
        tensor = access.tensor
        start = offset // (tensor.free_size or 1) if tensor.buffer.on_chip else 0
        key = pattern, tensor.form, start
        form = access.known_form = self.forms.get(key)
        if form is None:
            self.forms[key] = access.form


@functools.cache
def fields_by_name(cls: type[Inst]) -> dict[str, Field]:
    """The fields of an instruction."""
    return {f.name: f for f in cls.fields}


def _is_short(digits: str) -> bool:
    """True of the digits of a whole number that certainly has no more than 64 bits."""
    return digits.isdecimal() and len(digits) < _SHORT
