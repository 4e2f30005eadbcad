"""Kernels with indices, steps, masks and blocks at random: the migration gives the bits of the original."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki.migrate.migration import migrated
from nki.migrate.runs.run_comparison import Call
from nki.source_text.polynomial import Polynomial, largest, smallest

HEAD = (
    "import neuronxcc.nki as nki\nimport neuronxcc.nki.isa as nisa\nimport neuronxcc.nki.language as nl\n\n\n@nki.jit\n"
)


def kernel(rng: random.Random) -> tuple[str, tuple[int, int]]:
    """A kernel that copies and doubles tiles of its argument, and the shape of that."""
    rows, columns = rng.randint(1, 150), rng.randint(8, 90)
    height, width = rng.choice([32, 64, 128]), rng.randint(4, columns)
    step = rng.choice([1, 1, 2, 3])
    width = min(width, (columns + step - 1) // step)
    first = rng.choice(["i_p + {h} * i", "{h} * i + i_p", "(i * {h}) + i_p"]).format(h=height)
    second = "i_f" if step == 1 else rng.choice([f"{step} * i_f", f"i_f * {step}"])
    test = rng.choice([f"{first} < rows", f"rows > {first}", f"{first} <= rows - 1"])
    grids = [f"i_p, i_f = nl.mgrid[0:{height}, 0:{width}]",
             f"i_p, i_f = nl.arange({height})[:, None], nl.arange({width})[None, :]"]  # fmt: skip
    body = rng.choice([
        f"t = nl.load(x[{first}, {second}], mask={test})\n        u = t + t",
        f"t = nl.ndarray(({height}, {width}), dtype=x.dtype, buffer=nl.sbuf)\n"
        f"        t[i_p, i_f] = nl.load(x[{first}, {second}], mask={test})\n        u = nisa.activation(nl.square, t)",
        f"t = nl.ndarray((2, nl.par_dim({height}), {width}), dtype=x.dtype, buffer=nl.sbuf)\n"
        f"        t[1, i_p, i_f] = nl.load(x[{first}, {second}], mask={test})\n        u = t[1] * 0.5",
    ])  # fmt: skip
    source = f"""{HEAD}def kernel(x):
    rows, columns = x.shape
    out = nl.zeros((rows, {width}), dtype=x.dtype, buffer=nl.shared_hbm)
    {rng.choice(grids)}
    for i in nl.affine_range((rows + {height - 1}) // {height}):
        {body}
        nl.store(out[{first}, i_f], value=u, mask={test})
    return out
"""
    return source.replace("nl.zeros((rows", "nl.ndarray((rows"), (rows, columns)


@pytest.mark.parametrize("seed", range(16))
def test_a_random_kernel_gives_the_same_bits(seed: int, tmp_path: Path) -> None:
    source, shape = kernel(random.Random(seed))
    data = np.random.default_rng(seed).standard_normal(shape, np.float32)
    result = migrated(tmp_path / "kernel.py", source, [Call("kernel", (data,))])
    assert [one.text for one in result.outcomes] == ["same bits"], (result.left, result.notes, result.new)
    assert result.done, result.new


NUMBERS = st.integers(-9, 9)
TEXTS = st.sampled_from(["a", "b", "n // 2", "x.shape[0]"])


class _Shaped:
    shape = (7, 3)


NAMES = {"a": 3, "b": -2, "n": 9, "x": _Shaped()}


@st.composite
def polynomials(draw: st.DrawFn) -> tuple[Polynomial, int]:
    """A polynomial and its value."""
    total, value = Polynomial.of(draw(NUMBERS)), 0
    value = total.constant or 0
    for _ in range(draw(st.integers(0, 4))):
        text, factor = draw(TEXTS), draw(NUMBERS)
        term, number = Polynomial.of(text) * factor, eval(text, NAMES) * factor
        if draw(st.booleans()):
            total, value = total * term, value * number
        else:
            total, value = total - term, value - number
    return total, value


@given(polynomials(), polynomials())
def test_a_polynomial_is_the_code_of_its_value(one: tuple[Polynomial, int], other: tuple[Polynomial, int]) -> None:
    (p, x), (q, y) = one, other
    for polynomial, value in ((p, x), (p + q, x + y), (p - q, x - y), (p * q, x * y), (-p, -x)):
        assert eval(polynomial.text, NAMES) == value
        assert polynomial.constant in (None, value)
    assert eval(smallest([p, q]), NAMES) == min(x, y)
    assert eval(largest([p, q, p]), NAMES) == max(x, y)
    assert (p - p).constant == 0
