"""Launches on several cores where the operating system gives too few threads: a clear error, and no hang."""

from __future__ import annotations

import _thread
from collections import deque
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.runtime.resources import RUNTIME
from nki.base import threads
from nki.base.threads import ThreadStartError


@nki.jit
def doubled(x):
    t = nl.load(x)
    nisa.tensor_scalar(t, t, nl.multiply, 2.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    half = x.shape[0] // nl.num_programs()
    first = nl.program_id(0) * half
    nl.store(out[first : first + half], t[first : first + half])
    return out


X = np.ones((4, 8), np.float32)


@pytest.mark.parametrize("how", ["refused", "no memory", "lost"])
@pytest.mark.parametrize("call", [doubled[2], nki.simulate(doubled[2])], ids=["native", "simulator"])
def test_no_thread_for_the_second_core(call: Any, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> int:
        if how == "lost":  # it has no memory for its first frame
            return 0
        raise RuntimeError("can't start new thread") if how == "refused" else MemoryError

    assert (call(X) == 2).all()
    with monkeypatch.context() as patch:
        patch.setattr(RUNTIME, "_idle", deque())
        patch.setattr(threads, "_PATIENCE", 0.05)
        patch.setattr(_thread, "start_new_thread", refused)
        with pytest.raises(ThreadStartError, match="a thread for each core"):
            call(X)
        assert (doubled(X) == 2).all(), "one core needs no thread"
    assert (call(X) == 2).all()
