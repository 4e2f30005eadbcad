"""A kernel returns an output as another dtype: the caller receives the bytes so, in every framework."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import NkiError, ReturnError, WidenedViewError
from nki.ir.text import parser, printer

X = np.array([[1, 2, 3, 2**32 - 1], [5, 6, 2**31, 7]], np.uint32)


def seen(x):
    """Each kind of view of a whole output, and one output as it is."""
    same = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    narrow = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    wide = nl.ndarray((2, 8), dtype=nl.int16, buffer=nl.shared_hbm)
    plain = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for out in (same, narrow, plain):
        nisa.dma_copy(dst=out, src=tile)
    nisa.dma_copy(dst=wide, src=tile.view(nl.int16))
    return same.view(nl.int32), narrow.reshape((8,)).view(nl.int16), wide.view(nl.float32).reshape((4, 2)), plain


WANT = (X.view(np.int32), X.reshape(-1).view(np.int16), X.view(np.float32).reshape(4, 2), X)


def _compiled(kernel: Any) -> Any:
    compiled = torch.compile(lambda x: kernel(x), fullgraph=True, backend="aot_eager")
    return lambda x: compiled(torch.from_numpy(x))


RUNS = {
    "native": lambda kernel: nki.jit(kernel),
    "simulate": lambda kernel: nki.simulate(kernel),
    "torch": lambda kernel: lambda x: nki.jit(kernel)(torch.from_numpy(x)),
    "torch.compile": lambda kernel: _compiled(nki.jit(kernel)),
    "jax": lambda kernel: lambda x: nki.jit(kernel)(jnp.asarray(x)),
    "jax.jit": lambda kernel: lambda x: jax.jit(nki.jit(kernel))(jnp.asarray(x)),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_the_caller_receives_the_bytes_as_the_dtype(run: Any) -> None:
    for got, want in zip(run(seen)(X), WANT, strict=True):
        array = np.asarray(got)
        assert array.shape == want.shape and array.dtype == want.dtype
        assert array.tobytes() == want.tobytes()


def test_text_holds_the_dtypes_of_results() -> None:
    program = nki.jit(seen).compile(X).kernel
    text = printer.show(program)
    assert "return (same[2,4 as int32], narrow[16 as int16], wide[4,2 as float32], plain)" in text
    assert parser.parse(text) == program
    with pytest.raises(NkiError, match="unknown dtype int33"):
        parser.parse(text.replace("as int32", "as int33"))


@pytest.mark.parametrize("run", [nki.jit, nki.simulate])
def test_two_cores_return_one_tensor_as_another_dtype(run: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        mine = nl.ds(nl.program_id(0), 1)
        nl.store(out[mine], nl.load(x[mine]))
        return out.view(nl.int32)

    assert np.array_equal((kernel[2] if run is nki.jit else nki.simulate(kernel[2]))(X), X.view(np.int32))


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (lambda x, out: out[0:1].view(nl.int32), r"a view \(1, 4\)"),
        (lambda x, out: out.permute((1, 0)).view(nl.int32), "with steps.* as int32"),
        (lambda x, out: (out, out.view(nl.int32)), "'out' twice"),
        (lambda x, out: x.view(nl.int32), r"of 'x' \(2, 4\)"),
    ],
    ids=["part", "other order", "twice", "argument"],
)
def test_what_is_no_whole_output_is_refused(returned: Any, text: str) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return returned(x, out)

    with pytest.raises(ReturnError, match=text):
        kernel.compile(X)


def test_a_widened_output_has_other_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x, dtype=nl.bfloat16))
        return out.view(nl.int16)

    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    with pytest.raises(WidenedViewError, match="'out' is bfloat16 and looked at as int16"):
        kernel(np.ones((2, 4), np.float32))
