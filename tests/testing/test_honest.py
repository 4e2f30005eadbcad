"""``nki.testing.verify`` lets honest kernels pass: families by function, dtype and shape, and the corpus of kernels."""

from __future__ import annotations

import os
from typing import Any

import pytest

from nki.target import ENVIRONMENT
from nki.testing import verify
from tests.kernels import test_corpus
from tests.kernels.case import CASES

from . import more_honest, more_references
from .honest import Honest, corpus

HONEST = {each.name: each for each in corpus()}
OPTIONS: dict[str, dict[str, Any]] = {
    "mx_product_of_4_and_8_bits": {"precision": "bfloat16", "tolerance": 2.0**-7},
    "mx_quantised_here": {"tolerance": 0.06},
    "quantize_int8": {"tolerance": 0.0079},
    "through_every_format": {"precision": "float8_e5m2"},
}
"""What the references of the corpus do not say: kernels that round more coarsely than their inputs."""
POSITIONAL = {"configured", "constants_of_every_kind"}
"""Cases with references that take constants by other names than the kernel: ``verify`` passes them by name."""
CORPUS = sorted(CASES.keys() - POSITIONAL)
PART = 1 if int(os.environ.get("NKI_TEST_EXAMPLES", "50")) >= 500 else 4
"""One in so many kernels is verified; nightly tests verify all."""


@pytest.mark.parametrize("name", list(HONEST)[::PART])
def test_families(name: str) -> None:
    honest: Honest = HONEST[name]
    found = verify(honest.kernel, honest.reference, *honest.arguments, seeds=1, seed=1, fresh=False, **honest.options)
    assert found.passed, str(found)
    assert found.score == 1


@pytest.mark.parametrize("name", CORPUS[::PART])
def test_the_corpus(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    monkeypatch.setenv(ENVIRONMENT, case.targets[-1])
    found = verify(case.kernel, case.reference, make=case.make, seeds=1, seed=1, fresh=False, **OPTIONS.get(name, {}))
    assert found.passed, str(found)


@pytest.mark.parametrize("name", list(more_honest.CASES)[:: 2 * PART - 1])
def test_others(name: str) -> None:
    kernel, reference, arguments, options = more_honest.CASES[name]
    function = getattr(more_references, reference)
    found = verify(kernel, function, *arguments, seeds=1, seed=5, fresh=PART == 1, **options)
    assert found.passed, str(found)


def test_there_are_200() -> None:
    assert test_corpus.MODULES  # what fills CASES
    assert len(HONEST) + len(CORPUS) >= 200
