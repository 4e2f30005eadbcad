"""Stage ``accumulate``: each matmul either overwrites PSUM or adds to it.

``accumulate=None`` leaves the choice to the compiler. In program order, a place that nobody has written since its
tensor was made is overwritten; a place that has been written is added to. After this stage no ``None`` is left.
"""

from __future__ import annotations

from nki.ir.inst import Inst
from nki.ir.kernel import Kernel
from nki.ir.psum import Written
from nki.target.model import Target


def run(kernel: Kernel, _target: Target) -> Kernel:
    """``kernel`` with every matmul's ``accumulate`` decided. Raises PsumError where half a destination was written."""
    written = Written()
    body: list[Inst] = []
    for inst in kernel.body:
        decided = written.resolve(inst)
        written.note(decided)
        body.append(decided)
    return kernel.with_body(body)


def legal(kernel: Kernel) -> None:
    """No matmul is undecided."""
    undecided = [inst for inst in kernel.body if getattr(inst, "accumulate", False) is None]
    assert not undecided, f"accumulate left {len(undecided)} matmuls undecided"
