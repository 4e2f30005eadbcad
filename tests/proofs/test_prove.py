"""``nki.prove``: its answers, what it refuses, and that a seed repeats it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from examples import proofs
from nki.base.proof_errors import DifferentSignaturesError
from nki.proofs.record import record
from tests.support.kernel_parts import applied, joined, returned
from tests.support.kernel_parts import copied as copied_tile

X = np.zeros((8, 32), np.float32)


@nki.jit
def root_of_square(x):
    return returned(nl.sqrt(nl.multiply(nl.load(x), nl.load(x))))


@nki.jit
def copied(x):
    return returned(nl.load(x))


@nki.jit
def summed(x, y):
    return returned(nl.add(nl.load(x), nl.load(y)))


@nki.jit
def quotient(x, y):
    return returned(nl.multiply(nl.load(x), nl.reciprocal(nl.load(y))))


@nki.jit
def quotient_in_place(x, y):
    top, bottom = nl.load(x), nl.load(y)
    nisa.reciprocal(bottom, bottom)
    nisa.tensor_tensor(top, bottom, top, nl.multiply)
    return returned(top)


def mixed(tile):
    return joined(tile, nl.bitwise_xor, applied(tile, nl.left_shift, 13))


@nki.jit
def mixed_bits(x):
    return returned(mixed(mixed(nl.load(x))))


@nki.jit
def mixed_and_copied_bits(x):
    return returned(mixed(copied_tile(mixed(nl.load(x)))))


def test_copies_of_bits_are_the_bits() -> None:
    """What patterns of bits make is a whole number: an integer's copy does not round it to another one."""
    verdict = nki.prove(mixed_bits, mixed_and_copied_bits, seed=0)(np.zeros((8, 32), np.uint32))
    assert verdict.verdict == "equal", verdict.reason


@pytest.mark.parametrize("old", [proofs.two_passes, proofs.reference])
def test_softmax_is_proved(old) -> None:
    verdict = nki.prove(old, proofs.online, seed=0)(X)
    assert verdict.verdict == "equal" and 0 < verdict.bound <= 1e-9 and verdict.witness is None
    assert verdict.assumptions, "the maximum starts with a constant that is read as minus infinity"
    assert "for all inputs" in str(verdict) and "probability of an error" in str(verdict)


def test_a_wrong_one_is_shown_by_an_input() -> None:
    verdict = nki.prove(proofs.two_passes, proofs.forgotten, seed=0, seconds=4)(X)
    assert verdict.verdict == "different" and verdict.bound == 1.0
    assert verdict.witness is not None
    shown = verdict.witness.inputs
    old, new = (nki.simulate(kernel)(*shown) for kernel in (proofs.two_passes, proofs.forgotten))
    assert abs(old - new).max() > 1e-4
    assert json.loads(json.dumps(record(verdict)))["witness"]["inputs"][0]["shape"] == [8, 32]


@pytest.mark.parametrize("shape", [(1, 1), (8, 32)])
def test_a_root_of_a_square_is_never_taken_for_its_argument(shape) -> None:
    for seed in range(8):
        verdict = nki.prove(root_of_square, copied, seed=seed, seconds=2)(np.zeros(shape, np.float32))
        assert verdict.verdict == "different"


def test_quotients_of_many_elements_are_followed() -> None:
    tile = np.zeros((128, 512), np.float32)
    assert nki.prove(quotient, quotient_in_place, seed=0)(tile, tile).verdict == "equal"


def test_a_seed_repeats_a_proof() -> None:
    one, other = (nki.prove(proofs.two_passes, proofs.online, seed=5)(X) for _ in range(2))
    assert (one.bound, one.rounds, one.reason) == (other.bound, other.rounds, other.reason)


def test_a_verdict_is_no_truth() -> None:
    with pytest.raises(TypeError, match="three values"):
        bool(nki.prove(copied, copied, seed=0)(X))


def test_other_signatures_are_refused() -> None:
    with pytest.raises(DifferentSignaturesError, match="output 0"):
        nki.prove(lambda x: x.sum(axis=1), copied)(X)
