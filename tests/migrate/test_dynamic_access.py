"""Places that are known only when a kernel runs: ``.ap`` with a scalar or vector offset, the same bits, no finding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nki.migrate.migration import Migration, migrated
from nki.migrate.runs.run_comparison import Call
from tests.errors.test_beta1_advice import imported
from tests.errors.test_beta1_rewrites import led
from tests.migrate.kernel_files import alone, findings, names

KERNELS = Path(__file__).parent / "dynamic_kernels.py"
NAMES = names(KERNELS)
VECTORS = {"rows", "rows_of_a_parameter", "some_rows", "into_rows"}
SELECTED = {"block_of_a_view"}
"""Kernels that index a view, which has no strides of its own."""
X = np.random.default_rng(0).standard_normal((8, 32, 40)).astype(np.float32)
INDEX = np.array([[5], [1], [7], [0], [3], [2]], np.int32)


def migration(name: str, folder: Path, *, run: bool = True) -> Migration:
    return migrated(folder / "kernel.py", alone(KERNELS, name), [Call(name, (X, INDEX))] if run else [], name)


def form(name: str) -> str:
    return ".select(0, " if name in SELECTED else "vector_offset=" if name in VECTORS else "scalar_offset="


@pytest.mark.parametrize("name", NAMES)
def test_the_new_kernel_has_the_guides_form_and_the_same_bits(name: str, tmp_path: Path) -> None:
    result = migration(name, tmp_path)
    assert [one.text for one in result.outcomes] == ["same bits"], result.new
    assert result.done
    assert form(name) in result.new
    assert findings(result.new, tmp_path) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_form_does_not_need_a_run(name: str, tmp_path: Path) -> None:
    result = migration(name, tmp_path, run=False)
    slices = name == "one_block_of_slices"  # the source does not tell how many dimensions the tensor has
    assert (".select(0, at)[0:32, 4:20]" if slices else form(name)) in result.new, result.new


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning")
@pytest.mark.parametrize("name", NAMES)
def test_the_advice_for_the_same_kernel_of_today_is_accepted_and_gives_the_same(name: str, tmp_path: Path) -> None:
    expected = np.asarray(getattr(imported(alone(KERNELS, name), tmp_path / "older.py"), name)(X, INDEX))
    today = alone(KERNELS, name).replace("neuronxcc.nki", "nki").replace("import nki as nki", "import nki")
    text, result = led(today, tmp_path, (X, INDEX), name)
    assert np.array_equal(result, expected)
    assert ("x[at, 0:32, 4:20]" if name == "one_block_of_slices" else form(name)) in text
