"""Kernels of Beta 1 and their migrations: the same bits, nothing left to do, no finding; and the page of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki.migrate.migration import MARK
from tests.migrate.kernel_files import findings
from tools import beta1_guide

CASES = sorted(beta1_guide.CASES.glob("*.py"))


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_a_migrated_kernel_gives_the_same_bits_and_no_finding(path: Path, tmp_path: Path) -> None:
    migration = beta1_guide.pair(path).migration

    assert [one.text for one in migration.outcomes] == ["same bits"]
    assert migration.done
    assert MARK not in migration.new
    for name in ("neuronxcc", "arange", "mgrid", "par_dim", "mask=", "affine_range"):
        assert name not in migration.new
    assert findings(migration.new, tmp_path) == []


def test_the_page_is_what_the_tool_writes(tmp_path: Path) -> None:
    written = tmp_path / "page.md"
    beta1_guide.main([str(written)])
    assert written.read_text() == beta1_guide.PAGE.read_text(), "run python -m tools.beta1_guide"
