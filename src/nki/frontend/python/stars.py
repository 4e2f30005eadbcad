"""``*args`` and ``**kwargs`` of a kernel: each of their values is an argument of its own to the compiler."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from typing import Any, Final

_KINDS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


STARS: Final = -2
"""The number of positional parameters of a signature that has ``*args`` or ``**kwargs``."""


def by_position(signature: inspect.Signature) -> int:
    """The number of parameters if a call may pass all of them by position; -1 if not, :data:`STARS` with stars."""
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if kinds.intersection(_KINDS):
        return STARS
    return -1 if inspect.Parameter.KEYWORD_ONLY in kinds else len(signature.parameters)


def spread(signature: inspect.Signature, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Bound ``arguments`` with ``args_0``, ``args_1``, … in place of ``args``, and the entries of ``kwargs`` in place
    of it.
    """
    result: dict[str, Any] = {}
    for name, value in arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            result |= {f"{name}_{index}": item for index, item in enumerate(value)}
        elif kind is inspect.Parameter.VAR_KEYWORD:
            result |= value
        else:
            result[name] = value
    return result


def gathered(parameters: ast.arguments, values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The positional and the named arguments of a call with the spread ``values``."""
    rest = dict(values)
    positional = [rest.pop(arg.arg) for arg in parameters.posonlyargs if arg.arg in rest]
    if parameters.vararg is None:
        return positional, rest
    positional += [rest.pop(arg.arg) for arg in parameters.args if arg.arg in rest]
    by_name = {arg.arg for arg in parameters.kwonlyargs}
    for index in range(len(rest)):
        name = f"{parameters.vararg.arg}_{index}"
        if name not in rest or name in by_name:
            break
        positional.append(rest.pop(name))
    if parameters.kwarg is None:  # a decorator that takes positional arguments alone
        positional += [rest.pop(name) for name in tuple(rest) if name not in by_name]
    return positional, rest


__all__ = ["STARS", "by_position", "gathered", "spread"]
