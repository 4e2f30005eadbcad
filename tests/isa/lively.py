"""Contents that give searches something to find: random bits are rarely an index, and rarely equal to each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nki.ir.instruction import Inst

Array = np.ndarray[Any, Any]
Random = np.random.Generator


def _indices(inst: Any, rng: Random) -> Array:
    """Mostly elements that ``data`` has, and some beyond."""
    data, index = (inst.data, inst.indices) if hasattr(inst, "data") else (inst.src_buffer, inst.index)
    count = data.free_elements + rng.choice((0, 3))
    return rng.integers(0, count, index.shape).astype(index.dtype.dtype)


def _runs(inst: Any, rng: Random) -> Array:
    """Neighbours that are equal, zeros among them."""
    ids = inst.segment_ids
    return (np.cumsum(rng.random(ids.size) < 0.3) % 4).astype(ids.dtype.dtype).reshape(ids.shape)


def _sparse(inst: Any, rng: Random) -> Array:
    kept = rng.random(inst.src.shape) < rng.choice((0.0, 0.1, 0.5, 1.0))
    return np.where(kept, rng.integers(-9, 9, inst.src.shape), 0).astype(inst.src.dtype.dtype)


def _ties(inst: Any, rng: Random) -> Array:
    numbers = rng.choice((1.0, -2.0, 0.0, -0.0, np.nan, 3.0, np.inf, 0.5), inst.src.shape)
    return numbers.astype(np.float32).astype(inst.src.dtype.dtype)


LIVELY: dict[str, tuple[str, Callable[[Inst, Random], Array]]] = {
    "local_gather": ("index", _indices),
    "nc_n_gather": ("indices", _indices),
    "nonzero_with_count": ("src", _sparse),
    "sequence_bounds": ("segment_ids", _runs),
    "topk": ("src", _ties),
}
"""For each instruction, one of its operands and what it should hold, three times of four."""
