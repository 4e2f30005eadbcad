"""Unusual arrays of every framework: right results or a refusal by name, natively and in the simulator alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import DTypeError, KernelArgumentError, NkiError, UnknownDTypeError
from nki.base.framework_errors import (
    ByteOrderError,
    EmptyTensorError,
    NotDifferentiableError,
    ScalarTensorError,
    TensorLayoutError,
)
from tests.support.kernel_parts import returned


@nki.jit
def weighted(a, b):
    """2 * a + b, exact for small whole numbers."""
    left, right = nl.load(a), nl.load(b)
    nisa.scalar_tensor_tensor(left, left, nl.multiply, 2.0, nl.add, right)
    return returned(left)


@pytest.fixture(params=["0", "1"], ids=["native", "eager"], autouse=True)
def executor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("NKI_SIMULATOR", request.param)
    return request.param


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return (np.arange(np.prod(shape)) % 41).reshape(shape).astype(dtype)


def unaligned(array: Any) -> Any:
    """The same elements, starting one byte behind an element's place."""
    memory = np.zeros(array.nbytes + 1, np.uint8)
    view = memory[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    assert array.itemsize == 1 or not view.flags.aligned
    return view


def read_only(array: Any) -> Any:
    array = array.copy()
    array.flags.writeable = False
    return array


class Sub(np.ndarray):
    """A subclass that refuses to be calculated with."""

    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("calculated with")


NUMPY: dict[str, Callable[[], Any]] = {
    "transposed": lambda: numbers(9, 6).T,
    "fortran": lambda: np.asfortranarray(numbers(6, 9)),
    "backwards": lambda: numbers(6, 9)[::-1, ::-1],
    "every-other": lambda: numbers(12, 18)[::2, 1::2],
    "offset": lambda: numbers(7, 10)[1:, 1:],
    "broadcast": lambda: np.broadcast_to(numbers(9), (6, 9)),
    "column": lambda: np.broadcast_to(numbers(6, 1), (6, 9)),
    "read-only": lambda: read_only(numbers(6, 9)),
    "unaligned": lambda: unaligned(numbers(6, 9)),
    "unaligned-strided": lambda: unaligned(numbers(6, 18))[:, ::2],
    "bytes": lambda: np.frombuffer(numbers(6, 9).tobytes(), np.float32).reshape(6, 9),
    "bytes-unaligned": lambda: np.frombuffer(b"x" + numbers(6, 9).tobytes(), np.float32, offset=1).reshape(6, 9),
    "one-row": lambda: numbers(6, 9)[2:3],
    "one-column": lambda: numbers(6, 9)[:, 3:4],
    "one-element": lambda: numbers(1, 1),
    "subclass": lambda: numbers(6, 9).view(Sub),
    "matrix": lambda: np.asmatrix(numbers(6, 9)),
    "float16": lambda: numbers(6, 9, dtype=np.float16).T,
    "bfloat16": lambda: unaligned(numbers(6, 9, dtype=ml_dtypes.bfloat16)),
    "float8": lambda: np.minimum(numbers(6, 9), 4).astype(ml_dtypes.float8_e5m2)[::-1],
    "int8": lambda: numbers(6, 9, dtype=np.int8)[:, ::-1],
    "uint32": lambda: unaligned(numbers(6, 9, dtype=np.uint32)),
    "bool": lambda: (numbers(6, 9) > 20).T,
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("name", NUMPY)
def test_numpy(name: str) -> None:
    a = NUMPY[name]()
    plain = np.array(a, subok=False)
    before = plain.tobytes()
    for b in (a, plain):
        got = weighted(a, b)
        wanted = (2 * plain.astype(np.float32) + plain.astype(np.float32)).astype(plain.dtype)
        assert type(got) is np.ndarray
        assert got.dtype == plain.dtype and np.asarray(got).tobytes() == wanted.tobytes()
    assert np.array(a, subok=False).tobytes() == before


ORDER = r"another machine(.|\n)*pass a\.astype\(a\.dtype\.newbyteorder\('='\)\)"
NOTHING = r"no elements(.|\n)*leave the call out"
RANK_0 = r"rank 0(.|\n)*reshape it to \(1,\)"
REFUSED: dict[str, tuple[Callable[[], Any], type[NkiError], str]] = {
    "big-endian": (lambda: numbers(6, 9, dtype=">f4"), ByteOrderError, ORDER),
    "big-endian-int": (lambda: numbers(6, 9, dtype=">i2"), ByteOrderError, ORDER),
    "big-endian-float64": (lambda: numbers(6, 9, dtype=">f8"), ByteOrderError, ORDER),
    "float64": (lambda: numbers(6, 9, dtype=np.float64), UnknownDTypeError, r"float64(.|\n)*np\.float32"),
    "int64": (lambda: numbers(6, 9, dtype=np.int64), DTypeError, "is int64, which no compute instruction takes"),
    "uint64": (lambda: numbers(6, 9, dtype=np.uint64), DTypeError, "is uint64, which no compute instruction takes"),
    "longdouble": (lambda: numbers(6, 9, dtype=np.longdouble), UnknownDTypeError, "longdouble|float128|float64"),
    "complex": (lambda: numbers(6, 9, dtype=np.complex64), UnknownDTypeError, "complex64"),
    "datetime": (lambda: numbers(6, 9, dtype="M8[s]"), UnknownDTypeError, r"datetime64\[s\]"),
    "strings": (lambda: np.array([["a", "b"]]), UnknownDTypeError, "<U1"),
    "objects": (lambda: np.array([[None, 1]]), UnknownDTypeError, "object"),
    "structured": (lambda: np.zeros((6, 9), [("x", "f4")]), UnknownDTypeError, "'x'"),
    "masked": (lambda: np.ma.masked_less(numbers(6, 9), 3), TensorLayoutError, "filled"),
    "rank-0": (lambda: np.zeros((), np.float32), ScalarTensorError, RANK_0),
    "no-elements": (lambda: numbers(0, 9), EmptyTensorError, NOTHING),
    "no-columns": (lambda: numbers(6, 0), EmptyTensorError, NOTHING),
    "no-row": (lambda: numbers(0), EmptyTensorError, NOTHING),
    "torch-complex": (lambda: torch.zeros(6, 9, dtype=torch.complex64), UnknownDTypeError, "torch.complex64"),
    "torch-conjugate": (lambda: torch.zeros(6, 9, dtype=torch.complex64).conj(), UnknownDTypeError, "complex64"),
    "torch-float64": (lambda: torch.zeros(6, 9).double(), UnknownDTypeError, r"torch.float64(.|\n)*torch.float32"),
    "torch-int64": (lambda: torch.arange(54).reshape(6, 9), DTypeError, "is int64"),
    "torch-sparse": (lambda: torch.eye(6).to_sparse(), TensorLayoutError, "torch.sparse_coo"),
    "torch-nested": (
        lambda: torch.nested.nested_tensor([torch.ones(4, 6), torch.ones(2, 6)]), TensorLayoutError,
        r"rows of several lengths\n.*to_padded_tensor",
    ),
    "torch-quantized": (
        lambda: torch.quantize_per_tensor(torch.ones(6, 9), 0.1, 0, torch.qint8), UnknownDTypeError, "torch.qint8"
    ),
    "torch-rank-0": (lambda: torch.tensor(1.0), ScalarTensorError, RANK_0),
    "torch-no-elements": (lambda: torch.zeros(6, 0), EmptyTensorError, NOTHING),
    "jax-rank-0": (lambda: jnp.float32(1.0) + 0, ScalarTensorError, RANK_0),
    "jax-no-elements": (lambda: jnp.zeros((0, 9)), EmptyTensorError, NOTHING),
    "jax-complex": (lambda: jnp.zeros((6, 9), jnp.complex64), UnknownDTypeError, "complex64"),
    "jax-key": (lambda: jax.random.split(jax.random.key(0)), UnknownDTypeError, "key<fry>"),
    "jax-int4": (lambda: jnp.zeros((2, 2), jnp.int4), UnknownDTypeError, "int4"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    make, error, message = REFUSED[name]
    with pytest.raises(error, match=message) as caught:
        weighted(make(), make())
    assert caught.value.fix
    assert isinstance(caught.value, DTypeError) or "argument 'a' of kernel 'weighted'" in str(caught.value)


def test_numpy_arrays_beside_jax_arrays_are_refused_by_name() -> None:
    with pytest.raises(UnknownDTypeError, match=r"float64(.|\n)*float32"):
        weighted(numbers(6, 9, dtype=np.float64), jnp.ones((6, 9)))


TORCH: dict[str, Callable[[], torch.Tensor]] = {
    "transposed": lambda: torch.from_numpy(numbers(9, 6)).t(),
    "every-other": lambda: torch.from_numpy(numbers(12, 18))[::2, 1::2],
    "offset": lambda: torch.from_numpy(numbers(7, 10))[1:, 1:],
    "expanded": lambda: torch.from_numpy(numbers(1, 9)).expand(6, 9),
    "channels-last": lambda: torch.from_numpy(numbers(4, 3, 2, 2)).contiguous(memory_format=torch.channels_last),
    "negative": lambda: torch._neg_view(torch.from_numpy(numbers(6, 9))),
    "imaginary": lambda: torch.complex(torch.zeros(6, 9), torch.from_numpy(numbers(6, 9))).conj().imag,
    "unaligned": lambda: torch.frombuffer(bytearray(b"x" + numbers(6, 9).tobytes()), dtype=torch.float32, offset=1)
    .reshape(6, 9),
    "parameter": lambda: torch.nn.Parameter(torch.from_numpy(numbers(6, 9)), requires_grad=False),
    "bfloat16": lambda: torch.from_numpy(numbers(9, 6)).to(torch.bfloat16).t(),
    "int8": lambda: torch.from_numpy(numbers(6, 9, dtype=np.int8)),
    "bool": lambda: torch.from_numpy(numbers(6, 9)) > 20,
}  # fmt: skip


@pytest.mark.parametrize("name", TORCH)
def test_torch(name: str) -> None:
    a = TORCH[name]()
    got = weighted(a, a)
    assert type(got) is torch.Tensor
    assert got.dtype is a.dtype
    assert torch.equal(got, (2 * a.to(torch.float32) + a.to(torch.float32)).to(a.dtype))


def test_torch_without_a_derivative() -> None:
    a = torch.from_numpy(numbers(6, 9)).requires_grad_()
    with torch.no_grad():
        assert torch.equal(weighted(a, a), 3 * a)
    assert torch.equal(weighted(a.detach(), a.detach()), 3 * a.detach())
    with pytest.raises(NotDifferentiableError):
        weighted(a, a).sum().backward()


@pytest.mark.parametrize(
    "make",
    [
        lambda: jnp.asarray(numbers(9, 6)).T,
        lambda: jnp.asarray(numbers(12, 18))[::2, 1::2],
        lambda: jnp.asarray(numbers(6, 9), jnp.bfloat16),
        lambda: jnp.asarray(numbers(6, 9), jnp.int8),
        lambda: jnp.asarray(numbers(6, 9)) > 20,
    ],
    ids=["transposed", "every-other", "bfloat16", "int8", "bool"],
)
def test_jax(make: Callable[[], jax.Array]) -> None:
    a = make()
    got = weighted(a, a)
    assert isinstance(got, jax.Array)
    assert got.dtype == a.dtype
    wanted = (2 * a.astype(jnp.float32) + a.astype(jnp.float32)).astype(a.dtype)
    assert np.array_equal(np.asarray(got).astype(np.float32), np.asarray(wanted).astype(np.float32))


def test_jax_takes_numpy_arrays_too() -> None:
    got = weighted(jnp.asarray(numbers(6, 9)), numbers(6, 9))
    assert isinstance(got, jax.Array)
    assert np.array_equal(np.asarray(got), 3 * numbers(6, 9))


@pytest.mark.parametrize(
    "arguments",
    [
        lambda: (torch.ones(6, 9), numbers(6, 9)),
        lambda: (numbers(6, 9), torch.ones(6, 9)),
        lambda: (torch.ones(6, 9), jnp.ones((6, 9))),
        lambda: (jnp.ones((6, 9)), torch.ones(6, 9)),
        lambda: ([torch.ones(6, 9)], torch.ones(6, 9)),
        lambda: ({"a": numbers(6, 9)}, numbers(6, 9)),
        lambda: ((jnp.ones((6, 9)),), jnp.ones((6, 9))),
    ],
    ids=["torch-numpy", "numpy-torch", "torch-jax", "jax-torch", "torch-list", "numpy-dict", "jax-tuple"],
)
def test_mixed_and_nested_tensors_are_refused(arguments: Callable[[], tuple[Any, Any]]) -> None:
    with pytest.raises(KernelArgumentError, match="all of one framework"):
        weighted(*arguments())


def test_shared_memory_between_arguments() -> None:
    memory = numbers(7, 9)
    assert np.array_equal(weighted(memory[:-1], memory[1:]), 2 * memory[:-1] + memory[1:])


def test_printing_shows_values_only_while_they_exist(executor: str, capsys: pytest.CaptureFixture[str]) -> None:
    @nki.jit
    def prints(a):
        tile = nl.load(a)
        print("loaded:", tile[0:1, 0:2])
        return returned(tile)

    prints(np.array([[1.5, 2.25, 3]], np.float32))
    shown = capsys.readouterr().out
    assert shown.startswith("loaded: NkiTensor tile float32[1, 2] in sbuf")
    assert ("[[1.5  2.25]]" in shown) is (executor == "1")
