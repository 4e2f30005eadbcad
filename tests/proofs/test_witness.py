"""Inputs that show a difference: there is one for kernels that differ, and none for kernels that only round."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.element_types import bfloat16, float32, int32
from nki.base.errors import NkiError
from nki.base.sweep_errors import BadReferenceError
from nki.ir.types import TensorSpec
from nki.proofs.sides import Side
from nki.proofs.witness import difference, find
from tests.support.kernel_parts import activated, applied, column, copied, joined, like, product, reduced, returned

from .planted import MISTAKES, attention, specialised

FORMS = (((8, 64), float32), ((8, 64), float32), ((64, 8), float32))
SECONDS = 30.0


def sides(old, new, *forms):
    """Both kernels as sides, and the specs of their inputs."""
    (one, specs), (other, _) = specialised(old, *forms), specialised(new, *forms)
    return Side.of_program("old", one), Side.of_program("new", other), specs


def causal(q, k, v):
    scores = q.T @ k / np.sqrt(len(q))
    weights = np.exp(scores - scores.max(1, keepdims=True)) * np.tri(len(scores))
    return weights / weights.sum(1, keepdims=True) @ v


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_shown_with_its_line(mistake):
    old, new, specs = sides(attention(), attention(mistake), *FORMS)
    found = find(old, new, specs, seconds=SECONDS)
    assert found is not None
    lines = found.old_lines if MISTAKES[mistake] == "old" else found.new_lines
    if mistake == "tile":  # all statements of one turn of the loop are missing
        assert any("affine_select(tile" in line.text for line in lines)
    else:
        assert any(line.text.endswith(f"# {mistake}") for line in lines), str(found)
    assert len(lines) <= 6


@pytest.mark.parametrize("mistake", ["scale", "edge", "rescale"])
def test_a_kernel_is_compared_with_a_function(mistake):
    program, specs = specialised(attention(mistake), *FORMS)
    found = find(Side.of_function("causal", causal), Side.of_program("new", program), specs, seconds=SECONDS)
    assert found is not None and not found.is_proved
    assert found.old_lines[0].text == "def causal(q, k, v):"
    assert found.old == pytest.approx(causal(*found.inputs)[found.index])


def test_a_witness_differs_when_it_is_run_again():
    old, new, specs = sides(attention(), attention("edge"), *FORMS)
    found = find(old, new, specs, seconds=SECONDS)
    results = [side.at(found.inputs).outputs[found.output][found.index] for side in (old, new)]
    assert results == [found.old, found.new]
    assert abs(found.old - found.new) > 4 * found.bound
    assert sum(np.count_nonzero(array) for array in found.inputs) == 1, "one value behind the mask's edge shows it"


def test_the_report_and_its_json():
    old, new, specs = sides(attention(), attention("edge"), *FORMS)
    found = find(old, new, specs, seconds=SECONDS)
    text = str(found)
    assert "q = float32 8x64: all 0" in text and "v = float32 64x8: 0 but [" in text and "# edge" in text
    written = json.loads(json.dumps(found.json()))
    assert [each["name"] for each in written["inputs"]] == ["q", "k", "v"]
    assert written["inputs"][2]["nonzero"] == 1
    assert written["new_lines"][0]["text"].endswith("# edge")


def test_the_hinted_element_is_shown_if_it_differs():
    old, new, specs = sides(scaled(2.0), scaled(3.0), ((4, 8), float32))
    found = find(old, new, specs, hint=(0, (2, 5)), seconds=SECONDS, given=[[np.ones((4, 8), np.float32)]])
    assert found is not None and found.index == (2, 5) and (found.old, found.new) == (2.0, 3.0)


def test_outputs_of_other_shapes_are_refused():
    with pytest.raises(NkiError, match="shape"):
        find(*sides(scaled(2.0), summed(), ((4, 8), float32)))


def test_a_maximum_that_begins_at_a_rounded_filling():
    """-1e30 is no float32; its rounding, 1e22, must not hide what is computed from it."""

    def kernel_of(change):
        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            top, here = nl.full((x.shape[0], 1), -1e30, nl.float32), reduced(tile, nl.maximum)
            return returned(
                activated(joined(top, nl.subtract, top if change else joined(here, nl.maximum, top)), nl.exp)
            )

        return kernel

    old, new, specs = sides(kernel_of(False), kernel_of(True), ROWS)
    found = find(old, new, specs, seconds=SECONDS)
    assert found is not None and (found.old, found.new) == (0.0, 1.0)


def scaled(factor):
    @nki.jit
    def kernel(x):
        return returned(applied(nl.load(x), nl.multiply, factor))

    return kernel


def summed():
    @nki.jit
    def kernel(x):
        return returned(reduced(nl.load(x), nl.add))

    return kernel


def softmax(blocks, dtype=float32, shift=True):
    """Softmax of rows with the maximum of ``blocks`` blocks, one after the other."""

    @nki.jit
    def kernel(x):
        tile = copied(nl.load(x), nl.float32)
        size = x.shape[1] // blocks
        top, total = column(tile), column(tile)
        nisa.memset(total, 0)
        for start in range(0, x.shape[1], size):
            part = tile[:, start : start + size]
            here, change = column(tile), column(tile)
            nisa.tensor_reduce(here, nl.maximum, part, axis=1)
            if start:
                nisa.tensor_tensor(here, here, top, nl.maximum)
                nisa.tensor_tensor(change, top, here, nl.subtract)
                nisa.activation(change, nl.exp, change)
                nisa.tensor_tensor(total, total, change, nl.multiply)
            nisa.tensor_copy(top, here)
            powers = like(part, dtype)
            moved = applied(part, nl.subtract, top) if shift else copied(part)
            nisa.activation(powers, nl.exp, moved)
            nisa.tensor_tensor(total, total, reduced(powers, nl.add), nl.add)
        if shift:
            nisa.tensor_scalar(tile, tile, nl.subtract, top)
        nisa.activation(tile, nl.exp, tile)
        nisa.reciprocal(total, total)
        return returned(applied(tile, nl.multiply, total, dtype))

    return kernel


def variance(direct):
    """E[x^2] - E[x]^2, which cancels, or the mean of the squares of x - E[x]."""

    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        mean = applied(reduced(tile, nl.add), nl.multiply, 1 / x.shape[1])
        if direct:
            squares = applied(reduced(joined(tile, nl.multiply, tile), nl.add), nl.multiply, 1 / x.shape[1])
            return returned(joined(squares, nl.subtract, joined(mean, nl.multiply, mean)))
        moved = applied(tile, nl.subtract, mean)
        return returned(applied(reduced(joined(moved, nl.multiply, moved), nl.add), nl.multiply, 1 / x.shape[1]))

    return kernel


def long_sum(pieces):
    @nki.jit
    def kernel(x):
        tile, size = nl.load(x), x.shape[1] // pieces
        total = reduced(tile[:, :size], nl.add)
        for start in range(size, x.shape[1], size):
            nisa.tensor_tensor(total, total, reduced(tile[:, start : start + size], nl.add), nl.add)
        return returned(total)

    return kernel


def multiplied(order, dtype):
    """(a b) x or a (b x) of square tiles."""

    @nki.jit
    def kernel(a, b, x):  # stationary operands come transposed
        left, middle, right = (copied(nl.load(each), dtype) for each in (a, b, x))
        if order == "right":
            return returned(copied(product(left, copied(product(middle, right), dtype)), nl.float32))
        # (a b).T = b.T a.T; the tile b is b.T, so its transpose is wanted as the stationary operand.
        turned = nl.ndarray(b.shape, dtype=middle.dtype, buffer=nl.psum)
        nisa.nc_transpose(turned, middle)
        return returned(copied(product(copied(product(copied(turned), left), dtype), right), nl.float32))

    return kernel


def gelu_by_hand(whole):
    """x sigmoid(1.702 x) in one instruction or in several."""

    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        if whole:
            return returned(activated(tile, nl.gelu_apprx_sigmoid))
        powers = activated(applied(tile, nl.multiply, -1.702), nl.exp)
        nisa.tensor_scalar(powers, powers, nl.add, 1.0)
        nisa.reciprocal(powers, powers)
        return returned(joined(tile, nl.multiply, powers))

    return kernel


ROWS = ((4, 32), float32)
SQUARE = ((16, 16), float32)
EQUAL = {
    "blocks of softmax": (softmax(1), softmax(4), [ROWS]),
    "softmax in bfloat16": (softmax(1), softmax(4, bfloat16), [((4, 32), bfloat16)]),
    "softmax without the maximum": (softmax(1), softmax(1, shift=False), [ROWS]),
    "blocks of attention": (attention(), attention(size=32), list(FORMS)),
    "attention in bfloat16": (attention(), attention(size=32, dtype=bfloat16), list(FORMS)),
    "variance that cancels": (variance(True), variance(False), [ROWS]),
    "long sums": (long_sum(1), long_sum(8), [((4, 4096), float32)]),
    "order of products": (multiplied("left", float32), multiplied("right", float32), [SQUARE] * 3),
    "order of products in bfloat16": (multiplied("left", bfloat16), multiplied("right", float32), [SQUARE] * 3),
    "gelu by hand": (gelu_by_hand(True), gelu_by_hand(False), [ROWS]),
}


@pytest.mark.parametrize("pair", EQUAL)
def test_equal_kernels_have_no_witness(pair):
    old, new, forms = EQUAL[pair]
    assert find(*sides(old, new, *forms), seconds=SECONDS) is None


@pytest.mark.parametrize("pair", ["blocks of softmax", "softmax in bfloat16", "variance that cancels", "gelu by hand"])
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 1 << 20),
    scale=st.sampled_from([2.0**-20, 2.0**-6, 1.0, 30.0, 2.0**12]),
    mean=st.floats(-50, 50),
)
def test_no_numbers_make_equal_kernels_differ(pair, seed, scale, mean):
    old, new, forms = EQUAL[pair]
    old, new, specs = sides(old, new, *forms)
    rng = np.random.default_rng(seed)
    arrays = [(mean + scale * rng.standard_normal(spec.shape)).astype(spec.dtype.dtype) for spec in specs]
    assert difference(old.at(arrays), new.at(arrays)) is None


@pytest.mark.parametrize("working", [np.float64, np.float32, np.float16])
def test_a_function_of_any_precision_agrees_with_its_kernel(working):
    """Its own rounding is no difference, however coarse; a mistake in it is one."""

    def reference(x):
        x = x.astype(working)
        powers = np.exp(x - x.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    program, specs = specialised(softmax(4), ROWS)
    kernel = Side.of_program("softmax", program)
    assert find(Side.of_function("reference", reference), kernel, specs, seconds=SECONDS) is None
    wrong = Side.of_function("wrong", lambda x: reference(x) * 2)
    assert find(wrong, kernel, specs, seconds=SECONDS) is not None


@nki.jit
def chosen(x, at):
    """Row ``at`` of x, by an index that the device reads."""
    number = nl.load(at)
    out = nl.ndarray((1, x.shape[1]), dtype=x.dtype)
    nisa.dma_copy(out, x.ap([[x.shape[1], 1], [1, x.shape[1]]], scalar_offset=number, indirect_dim=0))
    return returned(out)


@nki.jit
def first_row(x, at):
    return returned(nl.load(x[0:1]))


def labelled(logits, labels):
    return np.take_along_axis(logits, labels.astype(np.int64), axis=1)


def cut(logits, labels):
    """As ``labelled``, for labels up to 3."""
    return np.take_along_axis(logits, np.minimum(labels, 3).astype(np.int64), axis=1)


def test_integers_stay_in_their_ranges_or_among_the_given_ones():
    """Over the labels that may come both are the same function; beyond they are not, or refuse."""
    one, other = Side.of_function("labelled", labelled), Side.of_function("cut", cut)
    specs = [TensorSpec("logits", (4, 6), float32), TensorSpec("labels", (4, 1), int32)]
    assert find(one, other, specs, ranges=[None, (0, 3)], seconds=SECONDS) is None
    inputs = [np.ones((4, 6), np.float32), np.array([[0], [3], [2], [1]], np.int32)]
    assert find(one, other, specs, given=[inputs], seconds=SECONDS) is None
    found = find(one, other, specs, ranges=[None, (4, 5)], seconds=SECONDS)
    assert found is not None and np.isin(found.inputs[1], (4, 5)).all()


def test_a_function_that_refuses_every_input_is_named():
    one, other = Side.of_function("labelled", labelled), Side.of_function("wrong", lambda x: x[9])
    with pytest.raises(BadReferenceError, match="TypeError"):
        find(one, other, [TensorSpec("x", (4, 6), float32)], seconds=SECONDS)


@nki.jit
def endless(x):
    tile = nl.load(x)
    going = nisa.register_alloc(1)

    def body(register):
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        return register

    nl.while_loop(going, body)
    return returned(tile)


def test_a_kernel_that_never_ends_shows_nothing():
    old, new, specs = sides(endless, scaled(2.0), ((4, 8), float32))
    assert find(old, new, specs, seconds=0.5) is None


def test_inputs_that_a_kernel_refuses_show_nothing():
    old, new, specs = sides(chosen, first_row, ((3, 4), float32), ((1, 1), int32))
    found = find(old, new, specs, seconds=SECONDS)
    assert found is not None and 0 < int(found.inputs[1].item()) < 3
