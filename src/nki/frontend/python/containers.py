"""Tensors in lists, tuples and dictionaries of a kernel's arguments: each is an argument of its own to the compiler."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Final, cast

_MARK: Final = "\0tensor:"
"""Begins the string that stands for a tensor in a container, in front of the name of the tensor's argument."""
_KINDS: Final = frozenset((list, tuple, dict))
_DEEPEST: Final = 8


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, type)


def separated(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """``arguments`` with ``cache_0``, ``cache_1``, … for the tensors in a container ``cache``, which holds their names
    instead.
    """
    if _KINDS.isdisjoint(map(type, arguments.values())):
        return dict(arguments)
    result: dict[str, Any] = {}
    for name, value in arguments.items():
        own: dict[str, Any] = {}
        result[name] = _without_tensors(value, name, own, arguments, 0)
        result |= own
    return result


def _without_tensors(value: Any, name: str, own: dict[str, Any], names: Container[str], depth: int) -> Any:
    if type(value) not in _KINDS or depth > _DEEPEST:
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
    if type(value) not in _KINDS:
        return value
    if isinstance(value, dict):
        return {key: _with_tensors(item, values, taken) for key, item in cast("dict[Any, Any]", value).items()}
    parts = cast("list[Any]", value)
    return type(parts)(_with_tensors(item, values, taken) for item in parts)


def leaves(values: Iterable[Any], depth: int = 0) -> Iterator[Any]:
    """``values``, and those in lists, tuples and dictionaries among them instead of these."""
    for value in values:
        if type(value) not in _KINDS or depth > _DEEPEST:
            yield value
        else:
            inner = cast("dict[Any, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
            yield from leaves(inner, depth + 1)


__all__ = ["joined", "leaves", "separated"]
