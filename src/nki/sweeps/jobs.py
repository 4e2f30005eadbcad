"""Jobs of a sweep: one program at some draws, as what travels to a worker.

A worker that can read the user's file gets a :class:`Job`, plain texts, and specialises the kernel itself. Any other
gets bytes (:func:`packed`): the specialised program as an artifact, the seed and the filling of each input, and the
right results as arrays. Both are data; no function of the user is pickled.
"""

from __future__ import annotations

import atexit
import contextlib
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from nki import target as targets
from nki.base import element_types as dtypes
from nki.base.sweep_errors import BadReferenceError
from nki.base.warning import collecting
from nki.compilation.pipeline import SPECIALISE
from nki.ir.program import Program
from nki.ir.text import artifact
from nki.jit import Kernel
from nki.numerics.llvm_library import Workers as LlvmWorkers
from nki.sweeps import comparison
from nki.sweeps.comparison import Function, ReferenceName
from nki.sweeps.evaluation import Draw, Steps, evaluate
from nki.sweeps.record import Outcome, failed, outcome
from nki.sweeps.space import Tolerance
from nki.workload import load_kernel
from nki.workload.arguments import TensorArgument, filled
from nki.workload.job import Work, bound, released

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Job:
    """A kernel by the name of its file, its arguments as texts, and the draws: other fillings and seeds of them.

    ``name`` is the kernel's name in ``file``; it is empty, and so is ``file``, for a kernel that no file has by a name.
    """

    file: str
    name: str
    target: str
    release: str | None
    cores: int | None
    draws: tuple[tuple[tuple[str, ...], int], ...]
    reference: ReferenceName | None
    steps: Steps

    def split(self) -> list[Job]:
        """A job for each draw."""
        return [self.of_draws(slice(n, n + 1)) for n in range(len(self.draws))]

    def of_draws(self, chosen: slice) -> Job:
        """The job with ``chosen`` draws only."""
        return replace(self, draws=self.draws[chosen])

    def works(self, kernel: Kernel) -> list[Work]:
        """The kernel bound to the arguments of each draw."""
        target = targets.find(self.target)
        return [bound(kernel, self.file or kernel.func.__name__, texts, target, self.cores) for texts, _ in self.draws]


def run(job: Job) -> list[Outcome]:
    """The outcomes of ``job`` on a worker that has the user's file."""
    try:
        kernel, module = _opened(job.file, job.name)
        function = job.reference.found(module) if job.reference is not None else None
    except Exception as error:
        return [failed(outcome(), error)] * len(job.draws)
    return here(job, kernel, function)


def here(job: Job, kernel: Kernel, function: Function | None) -> list[Outcome]:
    """The outcomes of ``job`` in this process."""
    works = job.works(kernel)
    draws = [
        Draw(partial(work.arrays, seed), partial(_expected, function, work))
        for work, (_, seed) in zip(works, job.draws, strict=True)
    ]
    with released(job.release):
        return evaluate(partial(works[0].compile, SPECIALISE), draws, job.steps)


def _expected(function: Function | None, work: Work, arrays: Sequence[Array]) -> list[Array] | None:
    if function is None:
        return None
    tensors = [name for name, value in work.arguments.items() if isinstance(value, TensorArgument)]
    return comparison.expected(function, work.arguments, arrays, tensors)


_kernels: dict[tuple[str, str], tuple[Kernel, Any]] = {}
_files = contextlib.ExitStack()
atexit.register(_files.close)
"""Files of users stay imported as long as the worker lives."""


def _opened(file: str, name: str) -> tuple[Kernel, Any]:
    """The kernel and its module, imported once in this process."""
    if (file, name) not in _kernels:
        module = _files.enter_context(load_kernel.imported(Path(file)))
        _kernels[file, name] = load_kernel.find(module, name, Path(file)), module
    return _kernels[file, name]


def packed(job: Job, kernel: Kernel, function: Function | None) -> bytes | list[Outcome]:
    """``job`` for a worker without the user's file; its outcomes if the kernel cannot be specialised."""
    works = job.works(kernel)
    try:
        with released(job.release), collecting(aside=True) as warned:
            program = works[0].compile(SPECIALISE)
    except Exception as error:
        return [failed(outcome(), error)] * len(job.draws)
    draws: list[dict[str, Any]] = []
    for work, (_, seed) in zip(works, job.draws, strict=True):
        draw: dict[str, Any] = {"seed": seed, "inputs": [_packed_input(tensor, seed) for tensor in work.tensors]}
        if function is not None:
            try:
                draw["expected"] = [_packed_array(each) for each in _expected(function, work, work.arrays(seed)) or ()]
            except BadReferenceError as error:
                draw["raises"] = [error.message, error.fix]
        draws.append(draw)
    steps = asdict(job.steps)
    fields = {"kernel": artifact.dumps(program), "warnings": len(warned), "draws": draws, "steps": steps}
    return msgpack.packb(fields)


def run_packed(data: bytes) -> list[Outcome]:
    """The outcomes of a packed job, on a worker that has nothing but this package."""
    fields: dict[str, Any] = msgpack.unpackb(data)
    given = fields["steps"]
    steps = Steps(given["runs"], Tolerance(**given["tolerance"]), given["draws"])
    draws = [Draw(partial(_inputs, draw), partial(_unpacked_results, draw)) for draw in fields["draws"]]

    def specialised() -> Program:
        return artifact.loads(fields["kernel"], "the program of a sweep")

    found = evaluate(specialised, draws, steps)
    return [{**each, "warnings": each["warnings"] + fields["warnings"]} for each in found]


def _packed_input(tensor: TensorArgument, seed: int) -> dict[str, Any]:
    """The shape, dtype and filling of an input, or the array that a file had."""
    if not tensor.fill:
        return {"array": _packed_array(tensor.array(seed, 0)), "dtype": tensor.dtype.name}
    return {"shape": list(tensor.shape), "dtype": tensor.dtype.name, "fill": tensor.fill}


def _inputs(draw: dict[str, Any]) -> list[Array]:
    arrays: list[Array] = []
    for index, each in enumerate(draw["inputs"]):
        dtype = dtypes.of(each["dtype"])
        if "array" in each:
            shape, _, data = each["array"]
            arrays.append(np.frombuffer(data, dtype.dtype).reshape(shape))
        else:
            arrays.append(filled(tuple(each["shape"]), dtype, each["fill"]).array(draw["seed"], index))
    return arrays


def _unpacked_results(draw: dict[str, Any], _arrays: list[Array]) -> list[Array] | None:
    if "raises" in draw:
        message, fix = draw["raises"]
        raise BadReferenceError(message, fix=fix)
    if "expected" not in draw:
        return None
    return [np.frombuffer(data, np.dtype(name)).reshape(shape) for shape, name, data in draw["expected"]]


def _packed_array(array: Array) -> list[Any]:
    name = array.dtype.name if array.dtype.kind == "V" else array.dtype.str
    return [list(array.shape), name, np.ascontiguousarray(array).tobytes()]


def prepare_worker(alone: bool) -> None:
    """Make a process a worker: Ctrl-C is the parent's affair; beside others (not ``alone``) it compiles in one thread.

    The parent's environment holds kernels and libraries to one thread, which the latter read as they are loaded.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not alone:
        LlvmWorkers.most = 0


__all__ = ["Job", "here", "packed", "prepare_worker", "run", "run_packed"]
