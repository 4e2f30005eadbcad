"""Another layout of memory on chip is one class: the corpus gives the same bits in it."""

from __future__ import annotations

import numpy as np
import pytest

from nki.backend.cpu.runtime.frame import ARENA
from nki.backend.cpu.runtime.storage import Storage
from nki.backend.numpy import executor
from nki.backend.numpy.memory import Memory
from nki.base.dtype import bfloat16, float32
from nki.compiler.executable import Executable
from nki.ir.layout import DENSE, PaddedPartitions
from nki.ir.program import CoreProgram, Signature
from nki.ir.types import Access, Buffer, Tensor
from nki.isa.instructions.tensor_copy import TensorCopy
from nki.target import ENVIRONMENT
from tests.kernels import test_corpus  # noqa: F401  # enters the kernels into the corpus
from tests.kernels.case import CASES

PADDED = PaddedPartitions(96)


def launched(executable: Executable, arrays: list[np.ndarray]) -> list[bytes]:
    outputs = [np.empty(spec.shape, spec.dtype.dtype) for spec in executable.outputs]
    executable.launch([a.ctypes.data for a in (*arrays, *outputs)])
    return [output.tobytes() for output in outputs]


@pytest.mark.parametrize("name", CASES)
def test_padded_partitions_give_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    monkeypatch.setenv(ENVIRONMENT, case.targets[-1])
    arguments = case.arguments()
    arrays = [np.ascontiguousarray(a) for a in arguments if isinstance(a, np.ndarray)]
    program = case.kernel.compile(*arguments).kernel
    dense, padded = Executable(program), Executable(program, layout=PADDED)
    assert launched(padded, arrays) == launched(dense, arrays)
    results = executor.run(program, [a.copy() for a in arrays], layout=PADDED)
    assert [result.tobytes() for result in results] == launched(dense, arrays)


def test_an_address_is_a_base_an_offset_and_steps_in_bytes() -> None:
    tile = Tensor("tile", (4, 10), float32, Buffer.sbuf)
    other = Tensor("other", (4, 10), float32, Buffer.sbuf)
    access = Access(tile, 13, (2, 3), (10, 2), float32)
    halves = Access(tile, 26, (2, 3), (20, -1), bfloat16)
    copy = TensorCopy(Access.whole(other), Access.whole(tile))
    core, signature = CoreProgram(0, (copy,), (tile, other)), Signature((), (), False)
    for layout, pitch in ((DENSE, 40), (PADDED, 96)):
        storage, memory = Storage(core, signature, (), layout), Memory(layout)
        base = storage.base(tile)[1]
        assert storage.address(access) == (ARENA, base + pitch + 12, (pitch, 8))
        assert storage.address(halves) == (ARENA, base + pitch + 12, (pitch, -2))
        assert memory.address(access)[1:] == (pitch + 12, (pitch, 8))
        assert len(memory.address(access).base) == 4 * pitch
