"""Copies of kernels, and their pickles: as Python pickles functions, by the name of the kernel's function.

The process that loads a kernel imports the function's module, so the kernel's code is the one there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Self, TypeVar, cast

from nki import target as targets
from nki.compilation import launch_grid
from nki.frontend.dialect import original, registered, under_dialect
from nki.ir.ordering import Pairs
from nki.target.model import Target

K = TypeVar("K", bound="PickledByName")


class PickledByName:
    """A kernel that is copied and pickled as a function is: a copy is the kernel itself, a pickle its name."""

    func: Callable[..., Any]
    grid: tuple[int, ...]
    target: Target | None
    schedule: Pairs
    check: bool
    configs: Any
    _kept: Any
    _executables: Any
    _lock: Any

    def varied(self, **fields: Any) -> Self:
        """A kernel of the same class that differs in ``fields`` of the constructor, and compiles by itself."""
        return self.of_class(type(self), **fields)

    def of_class(self, kind: type[K], **fields: Any) -> K:
        """The same for another class of kernels."""
        own = {name: getattr(self, name) for name in ("func", "grid", "target", "schedule", "check", "configs")}
        return cast("Any", kind)(**own | fields)

    def on_cores(self, count: int) -> Any:
        """The kernel launched on ``count`` cores."""
        return cast("Any", self)[count]

    def beside(self, kernel: Any) -> Self:
        """Keep what this kernel compiles beside what ``kernel`` does, which is the same one on another grid."""
        self._cache, self._executables, self._lock = kernel._cache, kernel._executables, kernel._lock
        return self

    def grid_of(self, grid: Any) -> tuple[int, ...]:
        """The launch grid that a framework gives as ``grid=``: independent programs, or cores that can hold them."""
        return launch_grid.of_programs(grid)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: Any) -> Self:
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        """The name of the function if it means this kernel; else the function or kernel that it means, and options."""
        named = _named(self.func)
        if named is self:
            return self.func.__qualname__
        func, dialect = original(self.func)
        base = named if isinstance(named, PickledByName) and original(named.func)[0] is func else func
        target = self.target and self.target.name
        return _restored, (type(self), base, dialect, self.grid, target, self.schedule, self.check, self.configs)


def _named(func: Callable[..., Any]) -> Any:
    """The object that the qualified name of ``func`` means in its module; None for a function inside a function."""
    found: Any = sys.modules.get(func.__module__)
    for name in getattr(func, "__qualname__", "").split("."):
        found = getattr(found, name, None)
    return found


def _restored(
    kind: Callable[..., Any], base: Any, dialect: str | None, grid: tuple[int, ...], target: str | None, *rest: Any
) -> Any:
    func, own = original(base.func if isinstance(base, PickledByName) else base)
    if dialect is not None:
        func = base.func if dialect == own else under_dialect(func, registered(dialect))
    return kind(func, grid, targets.find(target) if target else None, *rest)
