"""Single instructions on tiles that stay in cache, against the same maths in PyTorch and NumPy on one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import nki
import nki.isa as nisa
import nki.language as nl
from benchmarks.timing import Row, against, instruction, medians
from nki.backend.cpu.fusion.group import FusionGroup

ROWS, COLUMNS, REPEATS = 128, 512, 20


def _tile(dtype: Any = nl.float32, buffer: Any = nl.sbuf, shape: tuple[int, int] = (ROWS, COLUMNS)) -> Any:
    return nl.ndarray(shape, dtype, buffer=buffer)


def _matmul(a: Any, b: Any, out: Any) -> None:
    psum = _tile(buffer=nl.psum)
    stationary = _tile(shape=(128, 128))
    nisa.dma_copy(stationary, a[:, 0:128])
    nisa.nc_matmul(psum, stationary, b, accumulate=False)


def _transpose(a: Any, b: Any, out: Any) -> None:
    psum = _tile(buffer=nl.psum, shape=(128, 128))
    nisa.nc_transpose(psum, a[:, 0:128])


def _bn_stats(a: Any, b: Any, out: Any) -> None:
    nisa.bn_stats(_tile(shape=(ROWS, 6)), a)


def _sum(a: Any, b: Any, out: Any) -> None:
    nisa.tensor_reduce(_tile(shape=(ROWS, 1)), nl.add, a, axis=1)


def _max(a: Any, b: Any, out: Any) -> None:
    nisa.tensor_reduce(_tile(shape=(ROWS, 1)), nl.maximum, a, axis=1)


def _softmax_exp(a: Any, b: Any, out: Any) -> None:
    nisa.activation_reduce(out, nl.exp, a, nl.add, _tile(shape=(ROWS, 1)), scale=0.125)


# Name, what records the instruction last, and the same in PyTorch on a, b and a preallocated result.
CASES: list[tuple[str, Callable[[Any, Any, Any], None], Callable[[Any, Any, Any], Any]]] = [
    ("nc_matmul 128x128x512", _matmul, lambda a, b, o: torch.matmul(a[:, :128].T, b, out=o)),
    ("nc_transpose 128x128", _transpose, lambda a, b, o: o[:, :128].copy_(a[:, :128].T)),
    (
        "tensor_tensor add",
        lambda a, b, o: nisa.tensor_tensor(o, a, b, nl.add),
        lambda a, b, o: torch.add(a, b, out=o),
    ),
    (
        "tensor_scalar x * 2 + 1",
        lambda a, b, o: nisa.tensor_scalar(o, a, nl.multiply, 2.0, op1=nl.add, operand1=1.0),
        lambda a, b, o: torch.add(1.0, a, alpha=2.0, out=o),
    ),
    (
        "tensor_copy to bfloat16",
        lambda a, b, o: nisa.tensor_copy(_tile(nl.bfloat16), a),
        lambda a, b, o: a.to(torch.bfloat16),
    ),
    (
        "activation exp",
        lambda a, b, o: nisa.activation(o, nl.exp, a),
        lambda a, b, o: torch.exp(a, out=o),
    ),
    (
        "activation gelu",
        lambda a, b, o: nisa.activation(o, nl.gelu, a),
        lambda a, b, o: torch.nn.functional.gelu(a),
    ),
    (
        "activation tanh",
        lambda a, b, o: nisa.activation(o, nl.tanh, a),
        lambda a, b, o: torch.tanh(a, out=o),
    ),
    ("activation_reduce exp + sum", _softmax_exp, lambda a, b, o: torch.exp(a * 0.125, out=o).sum(1)),
    ("tensor_reduce add (sequential)", _sum, lambda a, b, o: a.sum(1)),
    ("tensor_reduce maximum", _max, lambda a, b, o: a.amax(1)),
    ("bn_stats (mean, variance)", _bn_stats, lambda a, b, o: torch.var_mean(a, 1, correction=0)),
    (
        "tensor_copy_predicated",
        lambda a, b, o: nisa.tensor_copy_predicated(o, a, b),
        lambda a, b, o: torch.where(b != 0, a, o),
    ),
]


def _kernel(record: Callable[[Any, Any, Any], None], unsigned: bool) -> Any:
    def one(x: Any, y: Any) -> Any:
        a, b, out = _tile(), _tile(nl.uint32 if unsigned else nl.float32), _tile()
        nisa.dma_copy(a, x)
        nisa.dma_copy(b, y)
        nisa.dma_copy(out, x)
        record(a, b, out)
        result = nl.ndarray((ROWS, COLUMNS), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(result, out)
        return result

    return nki.jit(one)


def rows(runs: int) -> Iterator[Row]:
    """A row per case."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(ROWS, COLUMNS)).astype(np.float32) for _ in range(2))
    result = np.empty_like(x)
    a, b, out = (torch.from_numpy(array.copy()) for array in (x, y, result))
    for name, record, theirs in CASES:
        executable = _kernel(record, "predicated" in name).compile(x, y)
        mnemonic = name.split()[0]
        body = executable.linked.cores[0].body
        names = mnemonic, FusionGroup.mnemonic  # what copies surround may share a loop with them
        index = max(i for i, inst in enumerate(body) if inst.mnemonic in names)
        index += len(executable.linked.cores[0].table) - len(body)  # rows that fill memory come first
        ours = instruction(executable, index, [array.ctypes.data for array in (x, y, result)], REPEATS)

        def other(call: Callable[[Any, Any, Any], Any] = theirs) -> None:
            for _ in range(REPEATS):
                call(a, b, out)

        seconds = medians(runs, ours, other)
        yield against(name, seconds[0] / REPEATS, seconds[1] / REPEATS, "PyTorch")
