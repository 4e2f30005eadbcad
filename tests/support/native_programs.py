"""What native code makes of a kernel: the instructions that are left, what they write; and that all bits stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nki
from nki.compilation.executable import lower
from nki.ir.instruction import Inst
from nki.ir.program import Program
from tests.support.both_executors import both
from tests.support.shared_launches import launched


def compiled(kernel: Any, *arguments: Any) -> Program:
    """The program of a kernel, as native code gets it."""
    return (kernel if hasattr(kernel, "compile") else nki.jit(kernel)).compile(*arguments).kernel


def lowered(kernel: Any, *arguments: Any, stop: str | None = None) -> list[Inst]:
    """The instructions of a kernel after the stages of native code; ``stop`` names the last one."""
    return list(lower(compiled(kernel, *arguments), stop).instructions())


def tiles_written(insts: list[Inst]) -> list[str]:
    """The names of the tensors of several columns that instructions write, in order."""
    return [access.name for inst in insts for access in inst.writes() if access.free_elements > 1]


def same_bits(kernel: Any, *arguments: Any, shared: pytest.MonkeyPatch) -> Any:
    """The results of a kernel, which are equal in the simulator and on 1, 2 and 3 threads."""
    with np.errstate(all="ignore"):
        results = both(kernel, *arguments)
    bits = [result.tobytes() for result in (results if isinstance(results, tuple) else (results,))]
    arrays = [argument for argument in arguments if isinstance(argument, np.ndarray)]
    for outputs in launched(compiled(kernel, *arguments), arrays, shared):
        assert outputs == bits
    return results
