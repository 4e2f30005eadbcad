"""The compile-time language of the "NKI Language Guide": values, control flow, classes, enumerations, composition.

Its views of tensors are tested in ``tests/language``, its loops on the device there, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.both_executors import both, numbers


def finished(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def scaled(x, factor):
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    return finished(tile)


def lists(x):
    items = [1, 2, 3]
    items.append(4.1)
    items.extend(("Hello", "List"))
    size = len(items)
    third = items[2]
    if items.index(2):
        print("list contains 2")
    items.remove(1)
    items.reverse()
    for item in items:
        print(item)
    return scaled(x, size * third)


def dictionaries(x):
    d = dict()  # noqa: C408
    d["a"] = 1
    print(d.keys(), d.items())
    for k in d.keys():  # noqa: SIM118
        v = d[k]
        print(k, v)
    if d.pop("a"):
        print("removed")
    return scaled(x, d.setdefault("a", 2))


def loops(x):
    for item in [1, 2]:
        print(item)
    for item in (1, 2):
        print(item)
    n = 0
    while n < 3:
        print(n)
        n += 1
    return scaled(x, n)


# As in the guide: with and without the decorator the same.
@dataclass
class WithDecorator(nl.NKIObject):
    x: int
    y: bool = False

    def toggle(self):
        self.y = not self.y


class Without(nl.NKIObject):
    x: int
    y: bool = False

    def toggle(self):
        self.y = not self.y


def classes(x):
    for kind in (WithDecorator, Without):
        c = kind(1)
        c.toggle()
        print(c.x, c.y)
        assert c == kind(1, True) and c != kind(1)
    return scaled(x, Without(2).x)


class E(Enum):
    x = 1
    y = 2
    z = 3


def f(e: E):
    if e == E.x:
        return 1
    elif e == E.y:
        return 2
    elif e == E.z:
        return 3
    return None


def enumerations(x):
    print([f(e) for e in (E.x, E.y, E.z)], E.y.name, E.y.value, E.x != E.y)
    return scaled(x, f(E.z))


@pytest.mark.parametrize(
    ("kernel", "factor", "printed"),
    [
        (lists, 18, "list contains 2\nList\nHello\n4.1\n3\n2\n"),
        (dictionaries, 2, "dict_keys(['a']) dict_items([('a', 1)])\na 1\nremoved\n"),
        (loops, 3, "1\n2\n1\n2\n0\n1\n2\n"),
        (classes, 2, "1 True\n1 True\n"),
        (enumerations, 3, "[1, 2, 3] y 2 True\n"),
    ],
)
def test_values_and_control_flow(kernel, factor, printed, capsys):
    x = numbers(4, 8)
    assert np.array_equal(both(kernel, x), np.float32(factor) * x)
    assert capsys.readouterr().out == 2 * printed


class A(nl.NKIObject):
    x: int = 1

    def __init__(self, x):
        self.x = x


def test_objects_of_python_are_arguments():
    def kernel(t, a: A):
        a.x += 1
        return scaled(t, a.x)

    a, t = A(2), numbers(4, 8)
    assert np.array_equal(both(kernel, t, a), 3 * t)
    assert a == A(2)


# Composable kernels


def tiled_process(input_tensor, tile_fn):
    output_tensor = nl.ndarray(input_tensor.shape, dtype=input_tensor.dtype, buffer=nl.shared_hbm)
    for i in range(input_tensor.shape[0] // nl.tile_size.pmax):
        tile = nl.ndarray((128, 512), dtype=input_tensor.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=input_tensor[i * 128 : (i + 1) * 128, :])
        result = nl.ndarray((128, 512), dtype=input_tensor.dtype, buffer=nl.sbuf)
        tile_fn(dst=result, src=tile)
        nisa.dma_copy(dst=output_tensor[i * 128 : (i + 1) * 128, :], src=result)
    return output_tensor


def my_activation(dst, src):
    nisa.activation(dst=dst, data=src, op=nl.relu)


def my_scale(dst, src):
    nisa.tensor_scalar(dst=dst, data=src, op0=nl.multiply, operand0=0.5)


def select(name):
    if name == "relu":
        return my_activation
    elif name == "scale":
        return my_scale
    return None


# The guide passes the output as an argument; here the kernel returns it.
@nki.jit
def relu_kernel(a_input):
    return tiled_process(a_input, my_activation)


@nki.jit
def selecting_kernel(a_input, name):
    return tiled_process(a_input, select(name))


def test_functions_are_arguments_and_results():
    x = numbers(256, 512)
    assert np.array_equal(both(relu_kernel, x), np.maximum(x, 0))
    assert np.array_equal(both(selecting_kernel, x, "scale"), x / 2)
    assert np.array_equal(both(selecting_kernel, x, "relu"), np.maximum(x, 0))
