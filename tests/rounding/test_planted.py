"""Kernels with a planted loss: the line that loses the digits is named first."""

from __future__ import annotations

from pathlib import Path

import pytest

import nki
from tests.rounding import held_out, planted, unseen

KERNELS = {**planted.ARGUMENTS, **held_out.ARGUMENTS, **unseen.ARGUMENTS}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.func.__name__)
def test_the_planted_line_is_named_first(kernel):
    found = nki.accuracy(kernel, "trn2")(*KERNELS[kernel])
    assert found.first is not None, str(found)
    assert found.first.code.endswith("# loss"), str(found)
    assert found.first.cause == unseen.CAUSES.get(kernel, found.first.cause)


def test_every_kernel_has_its_line():
    assert len(planted.ARGUMENTS) >= 30
    for module in (planted, held_out, unseen):
        text = Path(module.__file__).read_text(encoding="utf-8")
        assert text.count("  # loss\n") >= len(module.ARGUMENTS)
