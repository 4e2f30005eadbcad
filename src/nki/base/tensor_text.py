"""Tensors as text, and what ``nl.device_print`` does with them: standard output, and files if a folder is given."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.base import knobs
from nki.base.dtype_conversion import to_float32
from nki.base.element_types import DType
from nki.base.locks import Lock

_rounds: Counter[tuple[str, int]] = Counter()
_lock = Lock()


class _Running(threading.local):
    core = 0


_running = _Running()


@contextmanager
def running_as(core: int) -> Generator[None]:
    """Attribute to ``core`` all that this thread prints inside."""
    before, _running.core = _running.core, core
    try:
        yield
    finally:
        _running.core = before


def text_of(array: NDArray[Any], dtype: DType) -> str:
    """The elements of ``array``, stored as ``dtype``; of many only the corners."""
    return np.array2string(_numbers(array, dtype), threshold=200, precision=6)


def _numbers(array: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """Plain NumPy numbers: every float that NKI has is exact in float32."""
    return array if array.dtype.kind in "iub" else to_float32(array, dtype)


def device_print(prefix: str, array: NDArray[Any], dtype: DType) -> None:
    """Print ``array`` with its ``prefix``, the core, and how often that pair has printed in this process before.

    With ``NEURON_RT_DEBUG_OUTPUT_DIR`` it is also written to ``<folder>/<prefix>/core_<core>/<iteration>/tensor.npy``,
    floats as float32.
    """
    core = _running.core
    with _lock:
        iteration = _rounds[prefix, core]
        _rounds[prefix, core] += 1
        print(f"{prefix} [core {core}, iteration {iteration}] {dtype}{list(array.shape)}")
        print(text_of(array, dtype), flush=True)
        folder = knobs.debug_output_folder()
        if folder is not None:
            place = folder / _file_name(prefix) / f"core_{core}" / str(iteration)
            place.mkdir(parents=True, exist_ok=True)
            np.save(place / "tensor.npy", _numbers(array, dtype))


def _file_name(prefix: str) -> str:
    """``prefix`` as the name of one folder, whatever is in it."""
    return re.sub(r"[^\w.-]+", "_", prefix).strip(".") or "_"


__all__ = ["device_print", "running_as", "text_of"]
