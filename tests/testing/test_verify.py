"""``nki.testing.verify``: its arguments, its errors, its result; references of three frameworks."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.gate_errors import VerificationError, VerificationInputError
from nki.base.sweep_errors import BadReferenceError
from nki.compilation.executable import Executable
from nki.ir.text import artifact
from nki.testing import tolerances, verify
from nki.testing.draws import shapes
from nki.workload import apart

from .honest import matmul, scaled_sum
from .references import product


@nki.jit
def add_up(x, rows):
    """The sum of the chosen rows."""
    out = nl.ndarray((rows.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    lists = nl.load(rows)
    nisa.dma_copy(out, x.ap([[x.shape[1], rows.shape[0]], [1, x.shape[1]]], vector_offset=lists, indirect_dim=0))
    return out


@nki.jit
def doubled_in_place(x):
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    nl.store(x, tile)
    return x


@nki.jit
def halved(x):
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 0.5)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@nki.jit
def endless(x):
    time.sleep(3600)
    return x


QUICK = {"seeds": 1, "seed": 1, "fresh": False}
X = "16x24:float32"


def half(x):
    return x / 2


def test_result(tmp_path: Path) -> None:
    found = verify(halved, half, X, seeds=1, seed=5)
    assert found.check() is found
    assert found.passed
    assert found.score == 1
    document = json.loads(json.dumps(found.json(), allow_nan=False))
    assert document["seed"] == 5
    assert document["kernel"] == "halved"
    assert document["shapes"] == ["16x24:float32"]
    assert {"name", "passed", "measured", "part"} == document["checks"][0].keys()
    assert "in a new process" in str(found)
    assert "4 roundings to float32" in document["tolerance"]
    file = tmp_path / "halved.klir"
    file.write_bytes(found.artifacts[0])
    x = np.ones((16, 24), np.float32)
    out = np.empty_like(x)
    Executable.load(file).launch([x.ctypes.data, out.ctypes.data])
    assert (out == 0.5).all()


def test_the_same_seed_is_the_same_test() -> None:
    one, other, third = (verify(halved, half, "{M}x8:float32", sizes={"M": range(1, 200)}, seeds=1, seed=s, fresh=False)
                         for s in (7, 7, 8))  # fmt: skip
    assert one == other
    assert one.shapes != third.shapes


def test_without_a_seed_each_test_is_another_one() -> None:
    assert verify(halved, half, X, seeds=1, fresh=False).seed != verify(halved, half, X, seeds=1, fresh=False).seed


def test_partly_right_kernels_have_a_part_of_the_score() -> None:
    found = verify(halved, lambda x: np.where(np.abs(x) < 8, x / 2, x), X, **QUICK)
    assert not found.passed
    assert 0.1 < found.score < 0.5
    pattern = r"(?s)results, wide: out\[\d+, \d+\] is .*seed=1\) repeats this"
    with pytest.raises(VerificationError, match=pattern) as raised:
        found.check()
    assert raised.value.code == "NKI-VF001"


def test_kernels_that_do_not_compile_fail() -> None:
    found = verify(halved, half, "200x8:float32", **QUICK)
    assert not found.passed
    assert found.score == 0
    assert "200 partitions" in found.failed[0].measured
    assert "test_verify.py" in found.failed[0].measured


def test_inputs_that_a_kernel_may_change() -> None:
    assert verify(doubled_in_place, lambda x: 2 * x, X, changes=["x"], **QUICK).passed
    found = verify(doubled_in_place, lambda x: 2 * x, X, **QUICK)
    assert [each.name for each in found.failed] == ["inputs unchanged"]


def test_examples_keep_indices_in_their_range() -> None:
    table, rows = np.ones((40, 8), np.float32), np.array([[3], [39], [0], [7]], np.int32)
    found = verify(add_up, lambda x, rows: x[rows[:, 0]], table, rows, **QUICK)
    assert found.passed, found
    names = {each.name: each.passed for each in found.checks}
    assert all(names[each] for each in ("results, as given", "depends on input 0", "depends on input 1"))
    beyond = verify(add_up, lambda x, rows: np.where(x > 5, 0, x)[rows[:, 0]], table, rows, **QUICK)
    assert "results, as given" not in [each.name for each in beyond.failed], "other draws have other numbers"
    assert beyond.failed


def test_constants_go_to_the_reference_by_name() -> None:
    def reference(x, y, scale):
        return scale * x + y

    assert verify(scaled_sum, reference, "8x8:float32", "8x8:float32", 0.5, **QUICK).passed
    assert verify(scaled_sum, reference, "8x8:float32", "8x8:float32", scale=0.5, **QUICK).passed


def test_wrong_shapes_fail() -> None:
    [failed] = verify(halved, lambda x: x[:3], X, **QUICK).failed
    assert failed.measured == "[(16, 24)], wanted [(3, 24)]"


def test_a_reference_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    assert verify(halved, lambda x: torch.mul(x, 0.5), torch.ones(16, 24), **QUICK).passed
    assert not verify(halved, lambda x: torch.mul(x, 0.501), torch.ones(16, 24), **QUICK).passed


def test_a_reference_of_jax() -> None:
    jax = pytest.importorskip("jax")
    found = verify(matmul, lambda a, b: jax.numpy.matmul(a.T, b), "100x30:float32", "100x20:float32", **QUICK)
    assert found.passed, found


def test_references_that_raise_are_the_users_mistake() -> None:
    with pytest.raises(BadReferenceError, match="raises ZeroDivisionError"):
        verify(halved, lambda x: 1 / 0, X, **QUICK)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": 0}, "seeds=0"),
        ({"special": ["infinite"]}, "there is no 'infinite'"),
        ({"precision": "int8"}, "precision=int8"),
        ({"tolerance": -1.0}, "tolerance=-1.0"),
        ({"changes": "x"}, "changes='x'"),
        ({"sizes": {"M": 0}}, "'M' is 0"),
        ({"sizes": {"M": range(3, 3)}}, "'M' is range"),
        ({"make": lambda _: []}, "make=… makes all arguments"),
    ],
)
def test_options(options, message) -> None:
    with pytest.raises(VerificationInputError, match=message):
        verify(halved, half, X, **options)


@pytest.mark.parametrize(
    ("kernel", "reference", "argument", "message"),
    [
        (3, half, X, "not a function"),
        ("no.py:halved", half, X, "there is no Python file no.py"),
        (halved, 3, X, "the reference is 3"),
        (halved, half, "16x24", "the dtype is missing"),
        (halved, half, "{M}x24:float32", "'M'"),
        (f"{__file__}:halved", f"{__file__}:half", X, "in the file of the kernel"),
    ],
)
def test_arguments(kernel, reference, argument, message) -> None:
    with pytest.raises((VerificationInputError), match=message):
        verify(kernel, reference, argument)


def test_variables_that_change_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPEN_NKI_HAZARDS", "0")
    found = verify(halved, half, X, **QUICK)
    assert {each.name: each.passed for each in found.checks}["hazards"] is None
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    with pytest.raises(VerificationInputError, match="NKI_PRECISE_FP=0"):
        verify(halved, half, X, **QUICK)


def test_a_kernel_that_never_ends_is_named_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "SECONDS", 2.0)
    started = time.monotonic()
    [failed] = verify(endless, half, X, **QUICK).failed
    assert time.monotonic() - started < 60
    assert "did not end in 2 s; it was at File" in failed.measured
    assert f'test_verify.py", line {endless.func.__code__.co_firstlineno + 2}' in failed.measured


def test_a_kernel_whose_process_dies_fails() -> None:
    @nki.jit
    def dies(x):
        sys.modules["os"]._exit(3)
        return x

    [failed] = verify(dies, half, X, **QUICK).failed
    assert "died" in failed.measured


def test_sizes_of_a_range_have_its_ends_and_edges_of_tiles() -> None:
    import random

    found = [shapes({"M": range(1, 600), "N": [3, 5]}, 6, random.Random(seed)) for seed in range(20)]
    for each in found:
        sizes = {row["M"] for row in each}
        assert {1, 599} <= sizes
        assert sizes & {127, 128, 129, 511, 512, 513}
        assert {row["N"] for row in each} == {3, 5}
    assert len({tuple(sorted(row["M"] for row in each)) for each in found}) > 10


def test_programs_are_there_before_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No array exists when the kernel's Python runs for its program."""
    order: list[str] = []
    drawn, forked = tolerances.expectations, apart.forked
    # Mocks, for functions of this file, in which the kernel is, would count as a kernel's own ones.
    draw = Mock(side_effect=lambda *a, **k: order.append("draw") or drawn(*a, **k))
    program = Mock(side_effect=lambda *a, **k: order.append("program") or forked(*a, **k))
    monkeypatch.setattr(tolerances, "expectations", draw)
    monkeypatch.setattr(apart, "forked", program)
    assert verify(halved, half, X, **QUICK).passed
    assert order[:3] == ["program", "program", "draw"]


def test_tolerances_follow_from_dtypes_sizes_and_conditioning() -> None:
    precisions = [
        tolerances.precision([((k, 8), dtype)], [(8, 8)], tolerances.Limits())
        for k, dtype in ((4, nl.float32), (4096, nl.float32), (4096, nl.bfloat16), (4096, nl.float8_e4m3))
    ]
    moved = [each.moved for each in precisions]
    assert moved[0] < moved[1] < moved[2] == moved[3]
    generator = np.random.default_rng(0)
    near, far = np.full((1, 50), 1.001), np.full((1, 50), 3.0)

    def difference(arrays, working):
        return [arrays[0].astype(working).astype(np.float64) - 1]

    for array in (near, far):
        [found] = tolerances.expectations(difference, [array], [nl.float32], precisions[0], generator)
        relative = float((found.allowed / np.abs(found.right)).max())
        assert (relative > 1e-4) == (array is near), "cancellation costs digits"


def test_fixed_programs_are_read_back_as_they_are() -> None:
    found = verify(product_kernel := matmul, product, "64x32:float32", "64x16:float32", **QUICK)
    assert artifact.loads(found.artifacts[0]).name == product_kernel.func.__name__
    assert found.programs == (artifact.digest(found.artifacts[0]),)
    assert len(found.programs[0]) == 64
