"""Arguments that the compiler takes one by one: those in ``*args`` and ``**kwargs``, and tensors in containers."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Final, cast

_STARRED: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
STARS: Final = -2
"""The number of positional parameters of a signature that has ``*args`` or ``**kwargs``."""
_MARK: Final = "\0tensor:"
"""Begins the string that stands for a tensor in a container, in front of the name of the tensor's argument."""
_CONTAINERS: Final = frozenset((list, tuple, dict))
_DEEPEST: Final = 8


def by_position(signature: inspect.Signature) -> int:
    """The number of parameters if a call may pass all of them by position; -1 if not, :data:`STARS` with stars."""
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if kinds.intersection(_STARRED):
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


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, type)


def separated(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """``arguments`` with ``cache_0``, ``cache_1``, … for the tensors in a container ``cache``, which holds their names
    instead.
    """
    if _CONTAINERS.isdisjoint(map(type, arguments.values())):
        return dict(arguments)
    result: dict[str, Any] = {}
    for name, value in arguments.items():
        own: dict[str, Any] = {}
        result[name] = _without_tensors(value, name, own, arguments, 0)
        result |= own
    return result


def _without_tensors(value: Any, name: str, own: dict[str, Any], names: Container[str], depth: int) -> Any:
    if type(value) not in _CONTAINERS or depth > _DEEPEST:
        if depth == 0 or not _is_tensor(value) or getattr(value, "ndim", 1) == 0:
            return value
        while name in own or name in names:
            name += "_"
        own[name] = value
        return _MARK + name
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {key: _without_tensors(item, f"{name}_{key}", own, names, depth + 1) for key, item in items}
    parts = cast("list[Any]", value)
    return type(parts)(_without_tensors(item, f"{name}_{i}", own, names, depth + 1) for i, item in enumerate(parts))


def joined(values: dict[str, Any]) -> dict[str, Any]:
    """``values`` with each tensor back in its container."""
    taken: set[str] = set()
    result = {name: _with_tensors(value, values, taken) for name, value in values.items()}
    return {name: value for name, value in result.items() if name not in taken} if taken else values


def _with_tensors(value: Any, values: Mapping[str, Any], taken: set[str]) -> Any:
    if type(value) is str and value.startswith(_MARK):
        name = value.removeprefix(_MARK)
        taken.add(name)
        return values[name]
    if type(value) not in _CONTAINERS:
        return value
    if isinstance(value, dict):
        return {key: _with_tensors(item, values, taken) for key, item in cast("dict[Any, Any]", value).items()}
    parts = cast("list[Any]", value)
    return type(parts)(_with_tensors(item, values, taken) for item in parts)


def leaves(values: Iterable[Any], depth: int = 0) -> Iterator[Any]:
    """``values``, and those in lists, tuples and dictionaries among them instead of these."""
    for value in values:
        if type(value) not in _CONTAINERS or depth > _DEEPEST:
            yield value
        else:
            inner = cast("dict[Any, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
            yield from leaves(inner, depth + 1)


__all__ = ["STARS", "by_position", "gathered", "joined", "leaves", "separated", "spread"]
