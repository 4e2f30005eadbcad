"""From a Python function to a verified kernel, to native code, or to a run in the simulator.

NKI has a package of this name, too. Its options, ``CompileConfig`` and its companions, are in ``config``; its modules
``driver``, ``frontend`` and ``ncc_driver`` are entry points of harnesses, which belong to the layer ``harness``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nki.base.locks import imported

if TYPE_CHECKING:
    from nki.compiler import config, eager, executable
    from nki.compiler.config import AddressRotation, CompileConfig, SpecializationConfig

__all__ = ["AddressRotation", "CompileConfig", "SpecializationConfig", "config", "eager", "executable"]


def __getattr__(name: str) -> Any:
    # The executors bring LLVM along, a third of what `import nki` would cost: who first asks for them loads it.
    if name in ("config", "eager", "executable"):
        return imported(f"{__name__}.{name}")
    if name in __all__:
        return getattr(imported(f"{__name__}.config"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
