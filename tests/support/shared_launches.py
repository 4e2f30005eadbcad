"""Native code with shared regions of any size, so that tests of small kernels run in several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from nki.backend.cpu.runtime import launch, regions
from nki.compilation.executable import Executable
from nki.ir.program import Program

THREADS = (1, 2, 3)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Every region of more than one granule is worth a pool; :func:`launched` then sets the number of threads."""
    monkeypatch.setattr(regions, "WORTHWHILE", 0.0)
    monkeypatch.setattr(launch, "WORTH_A_POOL", 0.0)
    monkeypatch.setattr(launch, "WORTH_OPENMP", 0.0)
    return monkeypatch


def at_once(work: Callable[[int], None], threads: int = 5) -> None:
    """Run ``work`` with each number below ``threads``, each in a Python thread of its own, and wait for all."""
    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def outputs_of(executable: Executable, *arrays: Any, **options: Any) -> list[Any]:
    """The outputs of a launch on these arrays."""
    outputs = [np.empty(spec.shape, spec.dtype.dtype) for spec in executable.outputs]
    executable.launch([array.ctypes.data for array in (*arrays, *outputs)], **options)
    return outputs


def launched(
    program: Program, arrays: Sequence[Any], shared: pytest.MonkeyPatch, numbers: Sequence[int] = THREADS
) -> Iterator[list[bytes]]:
    """The bytes of the outputs of ``program`` on each of these numbers of threads."""
    executable = Executable(program)
    for threads in numbers:
        shared.setenv("NKI_NUM_THREADS", str(threads))
        inputs = [np.ascontiguousarray(array).copy() for array in arrays]
        yield [output.tobytes() for output in outputs_of(executable, *inputs)]
