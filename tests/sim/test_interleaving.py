"""Whatever order the waits allow gives the bits of program order; without one of them, some order does not."""

from __future__ import annotations

import numpy as np
import pytest

from nki.passes import sync
from nki.target import ENVIRONMENT
from tests.kernels import test_corpus  # noqa: F401  # enters the kernels into the corpus
from tests.kernels.case import CASES
from tests.support.interleaved_run import compiled, in_order, played


@pytest.mark.parametrize("name", CASES)
def test_every_order_that_waits_allow_gives_the_bits_of_program_order(name, monkeypatch):
    case = CASES[name]
    monkeypatch.setenv(ENVIRONMENT, case.targets[-1])
    arguments = case.arguments()
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    made = compiled(case.kernel, *arguments, stop="order")
    scheduled = compiled(case.kernel, *arguments)
    sync.check_waits(scheduled)
    expected = in_order(made, arrays)
    assert in_order(scheduled, arrays) == expected
    for seed in range(6):
        assert played(scheduled, arrays, seed) == expected, f"seed {seed}"
