"""Stage ``accumulate``: each matmul either overwrites PSUM or adds to it.

``accumulate=None`` leaves the choice to the compiler. In program order, a place that nobody has written since its
tensor was made is overwritten; a place that has been written is added to. After this stage no ``None`` is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nki.ir.inst import Inst
from nki.ir.kernel import Kernel
from nki.ir.loop import Statement
from nki.ir.psum import Written
from nki.target.model import Target


def run(kernel: Kernel, _target: Target) -> Kernel:
    """``kernel`` with every matmul's ``accumulate`` decided. Raises PsumError where that is not known."""
    return kernel.with_body(_decided(kernel.body, Written()))


def _decided(body: Sequence[Statement], written: Written) -> tuple[Statement, ...]:
    result: list[Statement] = []
    for statement in body:
        if isinstance(statement, Inst):
            decided = written.resolve(statement)
            written.note(decided)
            result.append(decided)
        else:
            written.enter()
            for tensor in statement.tensors:
                written.made(tensor)
            result.append(replace(statement, body=_decided(statement.body, written)))
            written.leave(statement)
    return tuple(result)


def legal(kernel: Kernel) -> None:
    """No matmul is undecided."""
    undecided = [inst for inst in kernel.instructions() if getattr(inst, "accumulate", False) is None]
    assert not undecided, f"accumulate left {len(undecided)} matmuls undecided"
