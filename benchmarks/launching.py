"""What a call costs beyond the native run, once the kernel is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import torch

import nki
import nki.isa as nisa
import nki.language as nl
from benchmarks.timing import Row, medians, micro


@nki.jit
def tiny(a: Any, b: Any) -> Any:
    """The least that a kernel with two inputs can do."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    one, two = nl.load(a), nl.load(b)
    nisa.tensor_tensor(dst=one, data1=one, data2=two, op=nl.add)
    nisa.dma_copy(dst=out, src=one)
    return out


def rows(runs: int) -> Iterator[Row]:
    """NumPy, PyTorch and JAX calls against a bare launch and the framework's own addition."""
    a = np.ones((16, 16), np.float32)
    out = np.empty_like(a)
    executable = tiny.compile(a, a)
    pointers = [a.ctypes.data, a.ctypes.data, out.ctypes.data]
    t = torch.from_numpy(a)
    j = jax.numpy.asarray(a)
    jitted, added = jax.jit(tiny), jax.jit(lambda x, y: x + y)
    pairs: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
        ("NumPy call", lambda: tiny(a, a), lambda: a + a),
        ("PyTorch call", lambda: tiny(t, t), lambda: t + t),
        ("JAX call, jitted", lambda: jitted(j, j).block_until_ready(), lambda: added(j, j).block_until_ready()),
    ]
    for name, ours, theirs in pairs:
        launch, call, other = medians(runs * 20, lambda: executable.launch(pointers), ours, theirs)
        yield Row(f"{name} beyond launch", micro(call - launch), f"{micro(other)} own add", f"launch {micro(launch)}")
