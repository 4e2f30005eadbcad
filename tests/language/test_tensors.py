"""The user's tensor has an access: a program holds accesses and registers only, and messages still name the tensor."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import ArgumentError, NkiError, RegisterUseError, TensorOperatorError
from nki.ir.loop import VirtualRegister
from nki.ir.types import Access
from tests.support.kernel_parts import returned

A = np.arange(8 * 8, dtype=np.float32).reshape(8, 8)


@nki.jit
def everything(a):
    """Operands one by one, in a list, in place of a number, as an index, older forms, and a print."""
    tile, other = nl.load(a), nl.zeros(a.shape, a.dtype)
    nisa.tensor_scalar(dst=other, data=tile[:, 0:8], op0=nl.add, operand0=tile[:, 0:1], op1=nl.multiply, operand1=2.0)
    nisa.dma_compute(dst=other, srcs=[other, tile.reshape((8, 4, 2))], reduce_op=nl.add)
    column = nl.zeros((1, 1), nl.int32)
    register = nisa.register_alloc(column)
    nisa.tensor_copy(other[:, column], tile[:, nl.ds(register, 1)])
    nisa.tensor_copy(other[:, nl.ds(column, 2)], tile.ap([[8, 8], [1, 2]], scalar_offset=column, indirect_dim=1))
    rows = nl.zeros((8, 1), nl.int32)
    nisa.dma_copy(other, a.vector_select(0, rows))
    nisa.affine_select(other, [[1, 8]], 0, 1, tile, 0.0)  # in the order of an older release
    nl.device_print("other", other)
    nisa.activation(dst=other, op=nl.exp, data=tile, bias=rows.view(nl.float32), scale=tile[:, 1:2])
    return returned(other)


def touched(a: Any) -> Iterator[Access]:
    yield a
    if a.dynamic is not None:
        yield from touched(a.dynamic.source)


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiDeprecationWarning")
def test_a_program_holds_accesses_and_registers_only() -> None:
    program = everything.compile(A).kernel
    kinds = {type(each) for inst in program.instructions() for a in inst.accesses() for each in touched(a)}
    assert kinds == {Access, VirtualRegister}


@nki.jit
def applied(a, use):
    tile = nl.load(a)
    use(tile)
    return returned(tile)


SHOWN = r"NkiTensor tile float32\[8, 8\] in sbuf"


def loops_on(tile):
    while tile:
        pass


def compares(tile):
    register = nisa.register_alloc(3)
    assert not (register == None) and register != None  # noqa: E711, SIM201  # kernels write it
    assert tile.ndim == 2 and tile.size == 64 and len(tile) == 8 and tile.name == "tile"
    assert register == 3


@pytest.mark.parametrize(
    ("use", "error", "text"),
    [
        (lambda t: nisa.dma_compute(t, [t, 3], nl.add), ArgumentError, rf"srcs=\({SHOWN}, 3\) \(tuple\) is not"),
        (lambda t: nisa.dma_compute(t, t, nl.add), TensorOperatorError, "iteration over tensor 'tile'"),
        (lambda t: nisa.tensor_copy(t, t, engine=t), ArgumentError, r"engine must be .*, not tensor 'tile' \(8, 8\)"),
        (lambda t: t[:, nl.ds(t, 2)], NkiError, r"index 'tile' \(8, 8\) into dimension 1"),
        (lambda t: t[:, nl.ds(0, t)], NkiError, r"nl.ds\(0, NkiTensor tile"),
        (lambda t: t[:, t:4], NkiError, "slice tile:4 of dimension 1"),
        (lambda t: t.ap([[8, 8], [1, 8]], t), NkiError, "offset is tensor 'tile', no integer"),
        (lambda t: t.vector_select(0, 3), NkiError, r"are 3 \(int\), not a tensor"),
        (lambda t: nl.fori_loop(0, t, nl.load), NkiError, r"upper=tensor 'tile' \(8, 8\)"),
        (loops_on, TensorOperatorError, "'tile' used as the condition of a loop"),
        (compares, RegisterUseError, "Python's == on register"),
    ],
)  # fmt: skip
def test_messages_name_the_tensor(use: Callable[[Any], Any], error: type[NkiError], text: str) -> None:
    with pytest.raises(error, match=text):
        applied.compile(A, use)


COMPARISONS = {
    "equal": (lambda a, b: nl.multiply(a, a == b), "`nl.equal(a, b)`"),
    "not equal": (lambda a, b: nl.multiply(a, a != b), "`nl.not_equal(a, b)`"),
    "itself": (lambda a, b: nl.multiply(a, a == a), "nl.equal(a, a)"),
    "views": (lambda a, b: a[0:4] != b[4:8], r"nl.not_equal(a[0:4], b[4:8])"),
    "number on the right": (lambda a, b: a == 1.0, "nl.equal(a, 1.0)"),
    "number on the left": (lambda a, b: 0 != b, "nl.not_equal(0, b)"),  # noqa: SIM300
    "text": (lambda a, b: a == "x", "nl.equal"),
    "parts of tuples": (lambda a, b: (a, 1) == (b, 1), "nl.equal(a, b)"),
    "position in a list": (lambda a, b: [a, b].index(b), "`a is b`"),
    "condition": (lambda a, b: a if a == b else b, "nl.equal(a, b)"),
    "operand of a function": (lambda a, b: functools.reduce(lambda x, y: x == y, [a, b]), "nl.equal(x, y)"),
}


@pytest.mark.parametrize(("use", "fix"), COMPARISONS.values(), ids=COMPARISONS)
@pytest.mark.parametrize("version", [None, "0.2", "0.6", "0.7"])
def test_tensors_are_not_compared_by_python(use: Callable[[Any, Any], Any], fix: str, version: str | None) -> None:
    def kernel(x):
        a = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        b = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        use(a, b)
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(TensorOperatorError) as caught:
            nki.jit(kernel, nki_version=version).compile(A)
    assert fix in caught.value.fix


@pytest.mark.parametrize("other", ["tile", "scalar", "3", "register"])
@pytest.mark.parametrize("sign", ["==", "!="])
@pytest.mark.parametrize("run", [nki.jit, nki.simulate])
def test_registers_are_not_compared_with_tensors(other: str, sign: str, run: Any) -> None:
    def kernel(x):
        tile, register = nl.load(x), nisa.register_alloc(3)
        scalar = nisa.scalar_load(nl.zeros((1, 1), nl.int32))
        against = {"tile": tile, "scalar": scalar, "3": 3, "register": nisa.register_alloc(2)}[other]
        for left in (register, scalar) if other == "tile" else (register,):
            if left == against if sign == "==" else left != against:
                pass
        return x

    with pytest.raises(NkiError, match=r"compares scalars|on register|on scalar"):
        run(kernel)(A)


@pytest.mark.parametrize("run", [nki.jit, nki.simulate])
@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning")
def test_tensors_are_found_by_identity(run: Any) -> None:
    """None is compared as Python compares it; lists, tuples, sets and dictionaries find a tensor itself."""

    @dataclass
    class Pair:
        first: Any
        second: Any = None

    def kernel(x):
        a, b, register = nl.load(x), nl.load(x), nisa.register_alloc(3)
        seen = [a]
        if b not in seen:
            seen.append(b)
        assert len(seen) == 2 and b in seen and b in (a, b) and a[0:4] not in seen and register not in seen
        assert register in [b, register] and None not in seen and None in [a, None]
        table = {a: 1, b: 2, register: 3}
        assert table[b] == 2 and table[register] == 3 and b in table and b in {a, b} and a[:] not in table
        assert not (a == None) and a != None and None != a and not (None == a)  # noqa: E711, SIM201, SIM300
        assert a is a and a is not b
        assert Pair(a) == Pair(a) and [a, b] == [a, b] and [a, None].index(a) == 0
        return returned(seen[1])

    assert np.array_equal(run(kernel)(A), A)
