"""Functions of other libraries that users and their tools expect in NKI: the error says what to write."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import NkiError
from nki.language.advice.other_libraries import KEYWORDS, OTHERS
from nki.language.nki_tensor import NkiTensor
from tests.support.kernel_parts import returned

X = np.zeros((4, 8), np.float32)


@pytest.mark.parametrize(
    ("kernel", "fix"),
    [
        (lambda x: nl.cast(x, nl.bfloat16), "write `nl.copy(x, dtype=…)`"),
        (lambda x: nisa.concat([x, x]), "`nisa.tensor_copy(dst=whole[:, 0:n], src=part)`"),
        (lambda x: nl.topk(x, 8), "use `nisa.topk`: the greatest of the numbers in each group of 16 partitions"),
        (lambda x: nl.topk(x, 8), "of rows, use `nisa.max8`"),
        (lambda x: nl.sigmiod(x), "did you mean `nl.sigmoid`"),
    ],
)
def test_the_fix_names_what_nki_has(kernel: Any, fix: str) -> None:
    with pytest.raises(NkiError, match=re.escape(fix)):
        nki.jit(kernel)(X)


def test_other_modules_get_no_advice_about_nki() -> None:
    with pytest.raises(Exception, match="cast") as caught:
        nki.jit(lambda x: np.cast(x))(X)  # noqa: NPY201
    assert "nl.copy" not in str(caught.value)


OWNERS = {"nl": nl, "nisa": nisa, "t": NkiTensor, "x": NkiTensor, "math": math}


@pytest.mark.parametrize("name", OTHERS)
def test_nki_lacks_the_name_and_has_what_the_text_proposes(name: str) -> None:
    module, _, function = name.rpartition(".")
    owners = {"nki.isa": [nisa], "nki.language": [nl], "": [nl]}
    assert not any(hasattr(owner, function) for owner in owners.get(module, []))
    proposed = re.findall(r"\b(nl|nisa|t|x|math)\.(\w+)", OTHERS[name])
    assert proposed or re.search(r"`[^`]+`|^leave ", OTHERS[name]), "the text names a function, or what Python has"
    for module, member in proposed:
        assert hasattr(OWNERS[module], member), member


SNIPPETS: dict[str, Callable[[Any], Any]] = {
    "cosh": np.cosh,
    "count_nonzero": lambda x: np.count_nonzero(x, axis=1)[:, None],
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "isinf": lambda x: np.isinf(x),
    "isnan": lambda x: np.isnan(x),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "log_softmax": lambda x: x - np.log(np.exp(x).sum(1, keepdims=True)),
    "logsigmoid": lambda x: -np.log1p(np.exp(-x)),
    "mul": lambda x: x * x,
    "ones_like": np.ones_like,
    "round": np.rint,
    "sinh": np.sinh,
    "sub": lambda x: x - x,
    "swish": lambda x: x / (1 + np.exp(-x)),
    "nki.isa.tensor_sub": lambda x: x - x,
    "nki.isa.sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "nki.isa.max": lambda x: x.sum(1, keepdims=True),
}
"""Names, the code in their text, which runs as it is, and its result."""


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning")
@pytest.mark.parametrize("name", SNIPPETS)
def test_the_code_in_the_text_computes_what_the_name_means(name: str) -> None:
    code = re.findall(r"`([^`]+)`", OTHERS[name])[0]
    code = f"{code}(x, x)" if name in ("mul", "sub") else f"{code}(x)" if name == "swish" else code

    def kernel(source):
        x = nl.load(source)
        dst = nl.ndarray((x.shape[0], 1 if "reduce" in code else x.shape[1]), nl.float32, buffer=nl.sbuf)
        value = eval(code, {"nl": nl, "nisa": nisa, "x": x, "y": x, "dst": dst})
        return returned(dst if code.startswith("nisa.") else value)

    x = np.random.default_rng(3).standard_normal((8, 16)).astype(np.float32) * 3
    x[0, 0], x[1, 1] = 0.0, 2.5
    np.testing.assert_allclose(np.float64(nki.jit(kernel)(x)), np.float64(SNIPPETS[name](x)), rtol=1e-5, atol=1e-6)


def test_each_keyword_of_another_library_is_a_parameter_of_some_function() -> None:
    functions = [getattr(module, name) for module in (nl, nisa) for name in module.__all__]
    callable_ones = [f for f in functions if callable(f) and not isinstance(f, type)]
    taken = {p for f in callable_ones for p in inspect.signature(f).parameters}
    for keyword, parameters in KEYWORDS.items():
        assert taken.intersection(parameters), keyword


@pytest.mark.parametrize(
    ("call", "keyword", "parameter"),
    [
        (lambda x: nl.softmax(x, dim=1), "dim", "axis"),
        (lambda x: nisa.nc_matmul(x, lhsT=x, moving=x), "lhsT", "stationary"),
        (lambda x: nisa.nc_matmul(x, stationary=x, rhs=x), "rhs", "moving"),
        (lambda x: nisa.activation(dst=x, func=nl.exp, data=x), "func", "op"),
        (lambda x: nisa.activation(x, nl.exp, in_=x), "in_", "data"),
        (lambda x: nisa.dma_copy(out=x, src=x), "out", "dst"),
        (lambda x: nisa.dma_copy(x, in_=x), "in_", "src"),
        (lambda x: nl.store(x, src=x), "src", "value"),
        (lambda x: nl.ndarray((8, 8), nl.float32, memory=nl.sbuf), "memory", "buffer"),
    ],
)
def test_a_keyword_of_another_library(call: Any, keyword: str, parameter: str) -> None:
    with pytest.raises(NkiError, match=rf"takes no `{keyword}`(.|\n)*fix: name it `{parameter}`"):
        nki.jit(call)(X)


def dtype_of_torch(x):
    return nl.ndarray((8, 8), "bf16", buffer=nl.sbuf)


def buffer_before_dtype(x):
    return nl.ndarray((8, 8), nl.sbuf, nl.float32)


def enumeration_as_text(x):
    t = nl.load(x)
    nisa.activation(t, nl.exp, t, reduce_op=nl.add, reduce_res=t[:, 0:1], reduce_cmd="reset_reduce")


@pytest.mark.parametrize(
    ("kernel", "fix"),
    [
        (lambda x: nl.exp(x, out=x), "it returns its result: write `name = nl.exp(…)`"),
        (lambda x: nl.load(dst=x, src=x), "into one that exists write `nisa.dma_copy(dst=tile, src=x)`"),
        (lambda x: nl.tensor_scalar(x, x, nl.add, 1.0), "fix: write `nisa.tensor_scalar`"),
        (lambda x: nl.movin(x), "did you mean `nl.min`?"),
        (dtype_of_torch, "fix: write `return nl.ndarray((8, 8), nl.bfloat16, buffer=nl.sbuf)`"),
        (buffer_before_dtype, "before the memory: write `return nl.ndarray((8, 8), nl.float32, nl.sbuf)`"),
        (enumeration_as_text, "reduce_cmd=nisa.reduce_cmd.reset_reduce)`"),
        (lambda x: nl.max(nl.load(x), 0.0), "it is `nl.maximum(x, y)`"),
        (lambda x: nl.min(x.shape[0], 64), "compute with Python, such as `min(a, b)`"),
        (lambda x: nl.load(x)[:, [0, 1, 3]], "`nisa.tensor_copy(dst[:, k:k + 1], t[:, n:n + 1])`"),
    ],
)
def test_what_nki_calls_it(kernel: Any, fix: str) -> None:
    with pytest.raises(NkiError, match=re.escape(fix)):
        nki.jit(kernel)(X)


def test_an_annotation_of_triton_outside_of_a_kernel() -> None:
    with pytest.raises(AttributeError, match=r"constexpr.*: leave the annotation out"):
        nl.constexpr  # noqa: B018
