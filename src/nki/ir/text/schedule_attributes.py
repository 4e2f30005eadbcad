"""The part of an instruction's text that says how stages have put it into an order: label, edges, queue and waits."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

from nki.ir.instruction import Inst

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_PLAIN = re.compile(r"[^\W\d][\w.]*")
_LABEL = rf"(?:{_QUOTED}|[^\W\d][\w.]*)"
QUEUE = re.compile(r"[a-z]+(?:\.\d{1,9})?")
_WAIT = rf"{QUEUE.pattern}>=\d{{1,9}}"
_WAITS = re.compile(rf"({QUEUE.pattern})>=(\d+)")
_PARTS = re.compile(
    rf"(?:label ({_LABEL})(?: |$))?(?:after ({_LABEL}(?:, {_LABEL})*)(?: |$))?"
    rf"(?:on ({QUEUE.pattern})(?: |$))?(?:wait ({_WAIT}(?:, {_WAIT})*)(?: |$))?"
)


def word(name: str) -> str:
    """A name as text: quoted unless it is a plain word."""
    return name if _PLAIN.fullmatch(name) else json.dumps(name)


def shown(inst: Inst) -> Iterator[str]:
    """The parts that ``inst`` has."""
    if inst.label:
        yield f"label {word(inst.label)}"
    if inst.ordered_after:
        yield f"after {', '.join(map(word, inst.ordered_after))}"
    if inst.queue:
        yield f"on {inst.queue}"
    if inst.waits:
        yield f"wait {', '.join(f'{queue}>={count}' for queue, count in inst.waits)}"


def read(line: str, at: int) -> tuple[dict[str, Any], int]:
    """The attributes that stand at ``at`` in ``line``, and where they end; none if nothing can be read."""
    match = _PARTS.match(line, at)
    if match is None:
        return {}, at
    label, after, queue, waits = match.groups()
    values: dict[str, Any] = {}
    try:
        if label:
            values["label"] = _name(label)
        if after:
            values["ordered_after"] = tuple(_name(label) for label in re.findall(_LABEL, after))
    except ValueError:  # an escape that JSON does not have
        return {}, at
    if queue:
        values["queue"] = sys.intern(queue)
    if waits:
        values["waits"] = tuple([(sys.intern(other), int(count)) for other, count in _WAITS.findall(waits)])
    return values, match.end()


def _name(written: str) -> str:
    return str(json.loads(written)) if written.startswith('"') else written
