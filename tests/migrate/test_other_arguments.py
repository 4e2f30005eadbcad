"""A kernel is migrated with one call and runs with others: right numbers, or an error that says what was assumed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nki.base.errors import NkiError
from nki.migrate.migration import migrated
from nki.migrate.runs.run_comparison import Call, launched, loaded

KERNELS = Path(__file__).parent / "other_arguments.py"


def _array(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def _corner(x: np.ndarray, rows: int, first: int) -> np.ndarray:
    inside = (np.arange(128)[:, None] < rows) & (np.arange(64)[None, :] >= first)
    return np.where(inside, x, 0)


def _steps(x: np.ndarray) -> np.ndarray:
    return x * np.repeat(np.arange(1, x.shape[1] // 16 + 1), 16).astype(np.float32)


CORNER = _array(128, 64)
ORACLES: dict[str, tuple[Callable[..., np.ndarray], list[tuple[Any, ...]]]] = {
    "transposed_by_a_helper": (lambda x: x.T, [(_array(64, 32),), (_array(128, 100),), (_array(32, 64),)]),
    "tail_rows": (lambda x: x - x.max(1, keepdims=True), [(_array(256, 64),), (_array(200, 64),), (_array(60, 90),)]),
    "free_corner": (
        _corner,
        [(CORNER, 100, 3), (CORNER, 0, 3), (CORNER, -3, 5), (CORNER, 200, 70), (CORNER, 128, -5), (CORNER, 5, 63)],
    ),
    "steps_of_the_shape": (_steps, [(_array(64, 32),), (_array(100, 96),)]),
    "mask_that_may_be_none": (lambda x: x * 2, [(_array(128, 64),), (_array(50, 20),)]),
    "chosen_half": (
        lambda x, half: (x[:, :32], x[:, 32:], x[:, ::2])[half],
        [(CORNER, 1), (CORNER, 0), (CORNER, 2)],
    ),
    "index_named_twice": (lambda x: x * 2, [(_array(64, 32),), (_array(64, 96),)]),
    "backwards": (lambda x: x[:, ::-1], [(_array(64, 32),), (_array(100, 50),)]),
}
"""Per kernel: what it computes, the arguments of the migration, and other arguments."""


@pytest.mark.parametrize("name", ORACLES)
def test_a_kernel_migrated_with_one_call_is_right_for_others(name: str, tmp_path: Path) -> None:
    oracle, calls = ORACLES[name]
    result = migrated(tmp_path / "kernel.py", KERNELS.read_text(), [Call(name, calls[0])], name)

    assert result.done, (result.left, result.notes, result.new)
    for args in calls:
        with loaded(tmp_path / "after.py", result.new, tmp_path, beta1=False) as module:
            np.testing.assert_array_equal(launched(module, Call(name, args), new=True)[0], oracle(*args))


def test_dtypes_that_promote_otherwise_are_refused(tmp_path: Path) -> None:
    narrow, wide = _array(64, 32, dtype=ml_dtypes.bfloat16), _array(64, 32)
    result = migrated(tmp_path / "kernel.py", KERNELS.read_text(), [Call("sum_of_two", (narrow, narrow))], "sum_of_two")

    assert result.done
    assert "assert x.dtype == y.dtype" in result.new
    with loaded(tmp_path / "after.py", result.new, tmp_path, beta1=False) as module:
        np.testing.assert_array_equal(launched(module, Call("sum_of_two", (wide, wide)), new=True)[0], wide + wide)
        with pytest.raises(NkiError, match=r"x\.dtype == y\.dtype"):
            launched(module, Call("sum_of_two", (narrow, wide)), new=True)


def test_a_dtype_of_the_run_is_said(tmp_path: Path) -> None:
    args = (_array(64, 32, dtype=ml_dtypes.bfloat16), _array(64, 32))
    result = migrated(tmp_path / "kernel.py", KERNELS.read_text(), [Call("sum_of_two", args)], "sum_of_two")

    assert "`s` has the dtype nl.float32 of the run; other arguments may need another" in result.notes


@pytest.mark.parametrize(
    ("name", "args", "left"),
    [
        ("index_that_rounds_change", (_array(64, 16),), "changes from round to round"),
        ("branch_whose_test_changes", (CORNER, 5), "which one depends on a branch"),
    ],
)
def test_a_meaning_that_no_code_of_today_says_is_left(
    name: str, args: tuple[Any, ...], left: str, tmp_path: Path
) -> None:
    result = migrated(tmp_path / "kernel.py", KERNELS.read_text(), [Call(name, args)], name)

    assert not result.done
    assert any(left in text for text in result.left)
