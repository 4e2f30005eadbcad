"""From a Python function to a verified kernel, to native code, or to a run in the simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nki.base.locks import imported

if TYPE_CHECKING:
    from nki.compilation import config, eager, executable

__all__ = ["config", "eager", "executable"]


def __getattr__(name: str) -> Any:
    # The executors bring LLVM along, a third of what `import nki` would cost: who first asks for them loads it.
    if name in __all__:
        return imported(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
