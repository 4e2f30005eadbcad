"""Python as kernels use it: functions, closures, containers, branches and assertions at compile time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.kernel_parts import returned

from .case import EPSILON, case, normal, normals

OFFSET = 0.25


@nki.jit
def doubled(tile):
    nisa.tensor_tensor(tile, tile, tile, nl.add)
    return tile


def shifted_by(amount):
    """A function made at compile time that keeps ``amount``."""

    def shift(tile, times=1):
        for _ in range(times):
            nisa.tensor_scalar(tile, tile, nl.add, amount)
        return tile

    return shift


@case(normal(10, 20), lambda x: (x * 2 + 0.25 + 0.5) * 2, EPSILON)
@nki.jit
def functions_are_values(x):
    tile = nl.load(x)
    steps = [doubled, shifted_by(OFFSET), lambda t: shifted_by(OFFSET)(t, times=2)]
    for step in steps:
        tile = step(tile)

    def again(t, how=doubled):
        return how(t)

    return returned(again(tile))


class Mode(Enum):
    PLAIN = 0
    SQUARED = 1


@dataclass
class Config:
    mode: Mode
    scales: tuple[float, ...]
    name: str = "config"

    def total(self) -> float:
        return sum(self.scales)


def make_config(random):
    return [random.standard_normal((16, 24)).astype(np.float32), Config(Mode.SQUARED, (0.5, 0.25)), {"shift": 1.0}]


@case(make_config, lambda x, config, extra: x * x * 0.75 + 1.0, 2 * EPSILON)
@nki.jit
def configured(x, config, options, unused=None):
    tile = nl.load(x)
    if config.mode == Mode.SQUARED:
        nisa.tensor_tensor(tile, tile, tile, nl.multiply)
    elif config.mode == Mode.PLAIN and unused is None:
        assert config.name == "plain", f"{config.name} is not for this test"
    nisa.tensor_scalar(tile, tile, nl.multiply, config.total(), op1=nl.add, operand1=options["shift"])
    assert tile.shape == x.shape, f"{tile.shape} differs from {x.shape}"
    return returned(tile)


def make_factory(scale):
    TABLE = {"scale": scale, "steps": [1, 2, 3]}

    @nki.jit
    def closure_over_constants(x):
        tile = nl.load(x)
        for step in TABLE["steps"]:
            nisa.tensor_scalar(tile, tile, nl.multiply, TABLE["scale"] * step)
        return returned(tile)

    return closure_over_constants


closure_over_constants = case(normal(8, 8), lambda x: x * 6 * 0.5**3, EPSILON)(make_factory(0.5))


@case(normals((128, 60), (128, 60)), lambda a, b: (a + b, a * b), EPSILON)
@nki.jit
def containers(a, b):
    loaded = {"a": nl.load(a), "b": nl.load(b)}
    tiles = {name: nl.ndarray(a.shape, dtype=nl.float32) for name in ("sum", "product")}
    for (name, tile), op in zip(tiles.items(), (nl.add, nl.multiply), strict=True):
        half = a.shape[1] // 2
        halves = [(t[:, :half], t[:, half:]) for t in (tile, *loaded.values())]
        for dst, one, other in zip(*halves, strict=True):
            nisa.tensor_tensor(dst, one, other, op, name=f"{name}_{half}")
    return [returned(tile) for tile in tiles.values()]


@case(
    lambda random: [random.standard_normal((5, 6)).astype(np.float32), 3, (2, 4), "tanh"],
    lambda x, n, widths, op: np.tanh(x * 3 + 6) * math.pi,
    8 * EPSILON,
)
@nki.jit
def constants_of_every_kind(x, count, widths, op, flag=True, scale=math.pi):
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, count, op1=nl.add, operand1=sum(w for w in widths))
    nisa.activation(tile, getattr(nl, op), tile)
    factor = scale if flag and not count > 5 else 0.0
    nisa.tensor_scalar(tile, tile, nl.multiply, factor)
    return returned(tile)


@case(normal(1000), lambda x: x + np.repeat(np.arange(8.0), 125), 4 * EPSILON)
@nki.jit
def one_dimension(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((8, 125), dtype=x.dtype)
    nisa.dma_copy(tile, x)
    numbers = nl.ndarray((8, 1), dtype=nl.float32)
    nisa.iota(numbers, [[0, 1]], channel_multiplier=1)
    nisa.tensor_scalar(tile, tile, nl.add, numbers)
    nisa.dma_copy(out.reshape(8, 125), tile)
    return out
