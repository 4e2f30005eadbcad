"""Eager execution: the kernel's Python runs and every instruction is carried out, in NumPy, as it is reached.

So ``print(tile)`` shows values and a debugger stops between two instructions with everything computed so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.backend.reference import Memory, Reference
from nki.base.convert import to_float32
from nki.frontend.capture import capture
from nki.frontend.check import check
from nki.frontend.specialise import specialise
from nki.ir.inst import Inst
from nki.ir.kernel import Kernel
from nki.ir.psum import Written
from nki.ir.types import Access, Tensor
from nki.language.tensor import showing
from nki.passes import verify
from nki.target.model import Target

Array = NDArray[Any]


def run(
    fn: Callable[..., Any],
    arguments: Mapping[str, Any],
    arrays: list[Array],
    target: Target,
    grid: tuple[int, ...] = (),
) -> tuple[Kernel, list[Array]]:
    """Run ``fn`` on dense ``arrays``, one per TensorSpec in ``arguments``; the kernel that ran, and its outputs."""
    memory = Memory()
    executor = Reference(memory)
    written = Written()
    waiting = iter(arrays)

    def observe(made: Tensor | Inst) -> None:
        if isinstance(made, Tensor):
            if made.role == "input":
                memory.bind(made, next(waiting))
            return
        verify.check_writes(made, fn.__name__)  # now: the input is the caller's own array
        decided = written.resolve(made)
        written.note(decided)
        executor.execute(decided)

    def values(access: Access) -> str:
        array = memory.window(access)
        shown = array if array.dtype.kind in "iub" else to_float32(array, access.dtype)
        return np.array2string(shown, threshold=200, precision=6)

    with showing(values):
        kernel = specialise(check(capture(fn)), arguments, target, grid=grid, observe=observe)
    verify.legal(kernel)
    return kernel, [memory.array(tensor) for tensor in kernel.outputs]
