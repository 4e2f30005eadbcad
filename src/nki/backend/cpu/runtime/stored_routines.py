"""Routines in the user's cache of native code, by what they are compiled from.

Object code is found by the digest of its LLVM IR, and to make that IR takes longer than to load the code. So a small
file for each routine tells the object code that holds it. Its name is a digest of everything that the IR is made from:
the signature of the instruction and the aliases of its operands, this build of the package, and the host.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple
from enum import Enum
from typing import Any, cast

import msgpack

from nki.backend.cpu.codegen.routine import EmittedRoutine
from nki.backend.cpu.kernel_ir.partitions import Use
from nki.base.dtype import DType
from nki.base.version import build
from nki.isa.tables.operators import Op
from nki.numerics import object_cache
from nki.numerics.jit import Code, engine

Stored = tuple[str, EmittedRoutine, Code]
"""Name of a routine in its object code, facts about it, and the code."""


def find(keys: Iterable[Any]) -> dict[Any, Stored]:
    """Those of the routines with these keys that are stored, with their code loaded."""
    if not object_cache.is_enabled():
        return {}
    codes: dict[str, Code | None] = {}
    routines: dict[Any, Stored] = {}
    for key in keys:
        file = _file(key)
        data = None if file is None else object_cache.read(file)
        if data is None:
            continue
        try:
            code_key, name, (scratch, partitions, uses, nanoseconds) = msgpack.unpackb(data)  # trusted as the code is
            facts = EmittedRoutine(scratch, partitions, tuple(Use(*use) for use in uses), nanoseconds)
        except (TypeError, ValueError):  # complete, and not what this version writes
            object_cache.remove(file or "")
            continue
        if code_key not in codes:
            codes[code_key] = engine().stored(code_key)
        code = codes[code_key]
        if code is not None and name in code.addresses:
            routines[key] = name, facts, code
    return routines


def keep(key: Any, name: str, facts: EmittedRoutine, code: Code) -> None:
    """Note that ``code`` holds the routine ``name`` for ``key``."""
    file = _file(key) if code.is_portable and object_cache.is_enabled() else None
    if file is not None:
        object_cache.write(file, msgpack.packb((code.key, name, astuple(facts))))


def _file(key: Any) -> str | None:
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
