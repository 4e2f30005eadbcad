"""The origin of a profile: file, arguments and what-if changes, which tell it from others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a profile: the ``file`` of the kernel, its ``arguments`` by name, and what-if ``changes``."""

    file: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
    changes: tuple[tuple[str, float], ...] = ()

    def changed(self, changes: Mapping[str, float]) -> Origin:
        """The same with further what-if changes."""
        return replace(self, changes=(*self.changes, *changes.items()))


UNKNOWN: Final = Origin()
"""The origin of a program that no file and no call is known of."""


def arguments_of(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Arguments as short texts: shape and dtype of what has them, else the value."""
    return tuple((name, _shown(value)) for name, value in values.items())


def _shown(value: Any) -> str:
    shape: Any = getattr(value, "shape", None)
    dtype: Any = getattr(value, "dtype", None)
    if isinstance(shape, Sequence) and dtype is not None:
        sizes = cast("Sequence[int]", shape)
        names = (getattr(dtype, name, "") for name in ("name", "__name__"))
        return f"{'x'.join(map(str, sizes))}:{next(filter(None, names), str(dtype).rpartition('.')[2])}"
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"
