"""Kernels with a planted loss: the line that loses the digits is named first."""

from __future__ import annotations

import pytest

import nki
from tests.rounding import planted

KERNELS = planted.ARGUMENTS


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.func.__name__)
def test_the_planted_line_is_named_first(kernel):
    found = nki.accuracy(kernel, "trn2")(*KERNELS[kernel])
    assert found.first is not None, str(found)
    assert found.first.code.endswith("# loss"), str(found)


def test_there_are_enough():
    assert len(KERNELS) >= 30
    text = planted.__loader__.get_source(planted.__name__)
    assert text.count("  # loss\n") == len(KERNELS)
