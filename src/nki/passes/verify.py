"""Stage ``verify``: every instruction obeys its rules, and the kernel as a whole can be called.

Instructions were verified as they were recorded; a kernel that came as text or from an artifact is verified here.
"""

from __future__ import annotations

from typing import Any

from nki.base.errors import InputWrittenError, NkiError, OutputUnwrittenError
from nki.ir.inst import verify
from nki.ir.kernel import Kernel, check_tensor
from nki.target.model import Target


def run(kernel: Kernel, target: Target) -> Kernel:
    """``kernel`` itself. Raises the error of the first rule that is broken, at the user's line."""
    for tensor in kernel.tensors:
        check_tensor(tensor.name, tensor.shape, tensor.dtype, tensor.buffer, target)
    known: dict[tuple[Any, ...], bool] = {}
    for inst in kernel.body:
        try:
            verify(inst, target, known)
        except NkiError as error:
            raise error.at(inst.where.span, inst.where.stack) from None
    legal(kernel)
    return kernel


def legal(kernel: Kernel) -> None:
    """Inputs are only read; every output is written somewhere."""
    inputs = set(kernel.inputs)
    written = set()
    for inst in kernel.body:
        for access in inst.writes():
            if access.tensor in inputs:
                raise InputWrittenError(
                    f"{inst.mnemonic} writes to '{access.name}', an input of kernel {kernel.name!r}",
                    fix="allocate an output with nl.ndarray(…, buffer=nl.shared_hbm), write that and return it",
                ).at(inst.where.span, inst.where.stack)
            written.add(access.tensor)
    for tensor in kernel.outputs:
        if tensor not in written:
            raise OutputUnwrittenError(
                f"kernel {kernel.name!r} returns '{tensor.name}' and never writes to it",
                fix="copy the result into it with nisa.dma_copy",
                span=tensor.span,
            )
