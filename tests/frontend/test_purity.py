"""Python with a value that would silently be compiled in, and Python that NKI lacks, is reported at its line."""

from __future__ import annotations

import os
import random
import time
from datetime import datetime

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.warning import NkiPortabilityWarning, NkiWarning
from nki.frontend.capture import capture
from nki.frontend.syntax_rules import check
from tests.support.kernel_parts import returned

pytestmark = pytest.mark.usefixtures("nki_0_6")

A = np.ones((4, 4), np.float32)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: time.time(),
        lambda x: datetime.now(),
        lambda x: random.random(),
        lambda x: np.random.standard_normal(3),  # noqa: NPY002
        lambda x: os.environ["HOME"],
        lambda x: os.getenv("HOME"),
        lambda x: os.getpid(),
        lambda x: id(x),
    ],
)
def test_a_value_that_varies(function):
    with pytest.warns(NkiWarning, match="is evaluated once, when the kernel is compiled") as caught:
        check(capture(function))
    assert [warned.lineno for warned in caught] == [function.__code__.co_firstlineno]


def paths(x):
    return os.path.join("a", "b"), os.fspath("c")


def test_what_only_computes_is_fine():
    check(capture(paths))


def test_the_type_of_a_value():
    def kernel(x):
        return type(x)

    with pytest.warns(NkiPortabilityWarning, match=r"isinstance\(x, kind\)"):
        check(capture(kernel))


def test_a_result_that_nothing_uses():
    def kernel(x):
        nl.exp(x)
        nl.load(x)
        return nl.exp(x)

    with pytest.warns(NkiWarning, match=r"the result of `nl\.\w+\(x\)` is not used") as caught:
        check(capture(kernel))
    assert [warned.lineno - kernel.__code__.co_firstlineno for warned in caught] == [1, 2]


@nki.jit
def numbered(x):
    tiles = {i: nl.load(x) for i in range(2)}
    more = {}
    more[len(tiles)] = tiles[1]
    return returned(more[2])


@nki.jit
def by_dtype(x):  # dtypes were text in NKI 0.2
    tiles = {x.dtype: nl.load(x)}
    return returned(tiles[nl.float32])


@nki.jit
def named(x):
    name = "a"
    tiles = {name: nl.load(x), f"{name}b": 1}
    tiles[name + "c"] = 2
    return returned(tiles["a"])


@nki.jit
def by_tile(x):
    tile = nl.load(x)
    return {tile: 1}


def test_keys_of_dictionaries(monkeypatch):
    monkeypatch.setenv("OPEN_NKI_CACHE", "off")
    np.testing.assert_array_equal(named(A), A)
    with pytest.raises(nki.base.errors.NkiError, match=r"(?s)NKI-FE022. the key 0 is.*range\(2\)"):
        numbered(A)
    with pytest.warns(NkiPortabilityWarning, match="key nl.float32 is no string"):
        np.testing.assert_array_equal(by_dtype(A), A)
    with pytest.raises(nki.base.errors.NkiError, match=r"(?s)NKI-FE022.*NkiTensor tile.*return \{tile: 1\}"):
        by_tile(A)


@nki.jit
def one_name_twice(x):
    a = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="a")
    b = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="a")
    for _ in range(2):
        c = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, name="c")
        nisa.memset(c, 0)
        nl.store(a, nl.load(x))
        nl.store(b, nl.load(x))
    return a, b


def test_one_name_for_two_tensors():
    with pytest.warns(NkiWarning, match=r"name='a' is the name of the tensor of line \d+ already") as caught:
        nki.simulate(one_name_twice)(A)
    assert [warned.lineno for warned in caught] == [one_name_twice.func.__code__.co_firstlineno + 3]
