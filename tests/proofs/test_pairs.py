"""The pairs are what they claim to be: on random inputs both sides agree within rounding."""

from __future__ import annotations

import os

import numpy as np
import pytest

from .pair import distance, outputs
from .pairs import PAIRS

NIGHTLY = int(os.environ.get("NKI_TEST_EXAMPLES", "50")) >= 500
FAST = [name for name, pair in PAIRS.items() if NIGHTLY or not pair.slow]


@pytest.mark.parametrize("name", FAST)
def test_both_sides_agree_on_random_inputs(name: str) -> None:
    pair = PAIRS[name]
    for seed, scale in ((0, 1.0), (1, 0.25)):
        arguments = pair.arguments(seed, scale)
        one, other = outputs(pair.old, arguments), outputs(pair.new, arguments)
        apart = distance(one, other)
        assert apart <= pair.bound, f"{apart:.1e} apart, relative to the largest"
        assert any(np.ptp(output) > 0 or (output.size == 1 and output.any()) for output in one), (
            "an output that is constant tells nothing"
        )
