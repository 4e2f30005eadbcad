"""Arguments of a kernel that its signature tells: annotations with shapes, and defaults."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from typing import Any, Final

from nki.base import element_types as dtypes
from nki.base.element_types import DType
from nki.frontend.capture import Captured
from nki.ir.types import TensorSpec

_WORDS: Final = re.compile(r"(\d+(?:x\d+)*):(\w+)")
_SIZES: Final = re.compile(r"\d+(?: \d+)*")
_ASSUMED: Final = (dtypes.float32, dtypes.bfloat16)
"""Dtypes that are tried where an annotation names none; what is wrong with each of them is wrong."""


def parameters(captured: Captured) -> dict[str, list[Any]]:
    """For each parameter the arguments to try: a TensorSpec for each possible dtype, or none if nothing is known.

    A parameter with a default has no entry.
    """
    args = captured.node.args
    positional = [*args.posonlyargs, *args.args]
    required = positional[: len(positional) - len(args.defaults)]
    required += [a for a, default in zip(args.kwonlyargs, args.kw_defaults, strict=True) if default is None]
    return {a.arg: list(_specs(a.arg, a.annotation)) for a in required}


def combinations(known: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Arguments for the parameters, the same choice of dtype for all."""
    rounds = max((len(values) for values in known.values()), default=1)
    return [{name: values[min(n, len(values) - 1)] for name, values in known.items()} for n in range(rounds)]


def _specs(name: str, annotation: ast.expr | None) -> Iterator[TensorSpec]:
    """``"128x512:float32"``, also in ``Annotated``; ``nt.tensor[128, 512]``; ``Float32[Array, "128 512"]``."""
    match annotation:
        case ast.Constant(value=str(text)):
            if written := _WORDS.fullmatch(text.strip()):
                yield from _spec(name, map(int, written[1].split("x")), [written[2]])
            else:
                try:
                    inner = ast.parse(text, mode="eval").body
                except SyntaxError:
                    return
                if not isinstance(inner, ast.Constant):
                    yield from _specs(name, inner)
        case ast.Subscript(value=ast.Name(id=kind) | ast.Attribute(attr=kind), slice=inside):
            parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
            values = [part.value for part in parts if isinstance(part, ast.Constant)]
            sizes = [value for value in values if type(value) is int]
            text = values[-1] if values and isinstance(values[-1], str) else ""
            if kind in ("tensor", "mutable_tensor") and len(sizes) == len(parts):
                yield from _spec(name, sizes, [dtype.name for dtype in _ASSUMED])
            elif kind == "Annotated" and _WORDS.fullmatch(text):
                yield from _specs(name, ast.Constant(text))
            elif kind.lower() in dtypes.BY_NAME and _SIZES.fullmatch(text):
                yield from _spec(name, map(int, text.split()), [kind.lower()])
        case _:
            pass


def _spec(name: str, sizes: Any, types: list[str]) -> Iterator[TensorSpec]:
    shape = tuple(sizes)
    known: list[DType] = [dtypes.BY_NAME[each] for each in types if each in dtypes.BY_NAME]
    if shape and all(shape):
        yield from itertools.starmap(TensorSpec, ((name, shape, dtype) for dtype in known))


__all__ = ["combinations", "parameters"]
