"""Pickles of kernels: as Python pickles functions, by the name of the kernel's function.

The process that loads a kernel imports the function's module, so the kernel's code is the one there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Self

from nki import target as targets
from nki.frontend.dialect import original, release, under_dialect
from nki.ir.ordering import Pairs
from nki.target.model import Target


class PickledByName:
    """A kernel that is copied and pickled as a function is: a copy is the kernel itself, a pickle its name."""

    func: Callable[..., Any]
    grid: tuple[int, ...]
    target: Target | None
    schedule: Pairs
    check: bool
    configs: Any

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: Any) -> Self:
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        """The name of the function if it means this kernel; else the function or kernel that it means, and options."""
        named = _named(self.func)
        if named is self:
            return self.func.__qualname__
        func, version = original(self.func)
        base = named if isinstance(named, PickledByName) and original(named.func)[0] is func else func
        target = self.target and self.target.name
        return _restored, (type(self), base, version, self.grid, target, self.schedule, self.check, self.configs)


def _named(func: Callable[..., Any]) -> Any:
    """The object that the qualified name of ``func`` means in its module; None for a function inside a function."""
    found: Any = sys.modules.get(func.__module__)
    for name in getattr(func, "__qualname__", "").split("."):
        found = getattr(found, name, None)
    return found


def _restored(
    kind: Callable[..., Any], base: Any, version: str | None, grid: tuple[int, ...], target: str | None, *rest: Any
) -> Any:
    func, own = original(base.func if isinstance(base, PickledByName) else base)
    if version is not None:
        func = base.func if version == own else under_dialect(func, release(version))
    return kind(func, grid, targets.find(target) if target else None, *rest)
