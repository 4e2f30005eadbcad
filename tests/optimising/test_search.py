"""Kernels with a flaw that ``nki.optimise`` mends, mistakes that it must not make, and its errors."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import nki
from nki.base.errors import NkiError
from nki.base.profile_errors import ProfileFileError
from nki.optimising import edits, search
from nki.optimising.edit import Edit
from nki.optimising.search import optimise
from nki.profiling.kernel_profile import profile
from nki.profiling.shapes import ShapeDtype
from tests.optimising import flawed

NIGHTLY = int(os.environ.get("NKI_TEST_EXAMPLES", "50")) >= 500
BF16, F32 = ml_dtypes.bfloat16, np.float32
CASES = {
    "naive_product": ([(256, 256), (256, 1024)], BF16, 1.8, "of all rounds in front of the loop"),
    "one_tile": ([(1024, 1024)], BF16, 1.5, "in each round"),
    "weights_again": ([(512, 512), (128, 512)], F32, 1.2, "`factors` in front of the loop"),
    "short_rows": ([(128, 1024)], BF16, 4.0, "becomes"),
    "narrow": ([(128, 2048)], BF16, 4.0, "WIDTH ="),
    "two_for_one": ([(256, 1024)], BF16, 1.2, "as one"),
    "float32_product": ([(256, 128), (256, 1024)], F32, 1.3, "bfloat16"),
    "on_the_device": ([(1024, 512)], BF16, 1.5, "unrolled"),
    "all_on_vector": ([(128, 4096)], BF16, 1.05, "on gpsimd"),
    "row_through_hbm": ([(512, 512), (4, 512)], BF16, 1.05, "loaded to all partitions"),
    "norms_again": ([(512, 512), (512, 512)], BF16, 1.1, "of all rounds in front of the loop"),
}
"""Shapes, their dtype, the least speedup, and words of an edit that stays."""
QUICK = ("one_tile", "weights_again", "narrow", "two_for_one", "on_the_device", "row_through_hbm")


def specs(shapes, dtype):
    return [ShapeDtype(shape, dtype) for shape in shapes]


@functools.cache
def outcome(name):
    shapes, dtype, *_ = CASES[name]
    return optimise(getattr(flawed, name), "trn2", seconds=300)(*specs(shapes, dtype))


def loaded(path, name):
    """Kernel ``name`` of the file ``path``."""
    spec = importlib.util.spec_from_file_location(f"optimised_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


@pytest.mark.parametrize("name", CASES if NIGHTLY else QUICK)
def test_a_flaw_is_mended_and_the_kernel_computes_the_same(name, tmp_path):
    shapes, dtype, least, words = CASES[name]
    found = outcome(name)
    assert found.speedup >= least
    assert any(words in each.title for each in found.kept)
    assert found.proof.startswith("equal")
    random = np.random.default_rng(3)
    arrays = [random.standard_normal(shape).astype(dtype) for shape in shapes]
    new = loaded(found.write(tmp_path / f"{name}.py"), name)
    before, after = (np.asarray(nki.simulate(k)(*arrays)).astype(np.float64) for k in (getattr(flawed, name), new))
    assert np.abs(after - before).max() <= 0.03 * np.abs(before).max()
    predicted = profile(new, "trn2")(*specs(shapes, dtype))
    assert math.isclose(predicted.device_time, found.after.device_time, rel_tol=1e-9)


def test_the_diff_is_a_patch_of_the_file(tmp_path):
    found = outcome("one_tile")
    copy = tmp_path / "tests" / "optimising" / "flawed.py"
    copy.parent.mkdir(parents=True)
    copy.write_text(found.text)
    diff = found.diff.replace(found.diff.splitlines()[0], "--- a/tests/optimising/flawed.py", 1)
    subprocess.run(["git", "apply", "-"], input=diff, text=True, cwd=tmp_path, check=True)
    assert copy.read_text() == found.new_text


def test_no_file_changes_without_being_asked():
    found = outcome("one_tile")
    assert found.path.read_text() == found.text != found.new_text


def test_a_file_that_has_changed_is_not_written(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(outcome("one_tile").text)
    found = optimise(loaded(path, "one_tile"), "trn2")(*specs([(256, 512)], BF16))
    path.write_text(path.read_text() + "\n# another line\n")
    with pytest.raises(ProfileFileError, match="has changed since it was read"):
        found.write()


WRONG = {
    "drops an instruction": ("nisa.activation(dst=raised, op=nl.exp, data=tile)", "nisa.tensor_copy(raised, tile)"),
    "leaves a part out": ("(x.shape[0] // 128)", "(x.shape[0] // 128 - 1)"),
    "is another function": ("op=nl.exp", "op=nl.relu"),
    "shares a tile": ("nisa.dma_copy(dst=out[rows], src=raised)", "nisa.dma_copy(dst=out[0:128], src=raised)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_edit_that_changes_the_results_does_not_stay(name, monkeypatch):
    old, new = WRONG[name]
    start = Path(flawed.__file__).read_text().index("def one_tile")

    def wrong(text, *_):
        place = text.text.find(old, start)
        return [] if place < 0 else [Edit("wrong", 1, ((place, place + len(old), new),))]

    monkeypatch.setattr(search, "of_advice", wrong)
    monkeypatch.setattr(search, "choices", lambda *_: [])
    monkeypatch.setattr(search, "LEAST_WORTH", -10.0)
    monkeypatch.setattr(search, "_is_gain", lambda _: True)
    found = optimise(flawed.one_tile, "trn2")(*specs([(512, 256)], BF16))
    assert not found.kept
    assert {each.result for each in found.attempts} <= {"another result", "refused"}
    assert found.new_text == found.text


def test_a_proof_takes_back_a_step_that_numbers_do_not_show(monkeypatch):
    """A threshold that random numbers never reach: the results are the same, the function is not."""

    def wrong(text, *_):
        place = text.text.find("op=nl.exp", text.text.index("def one_tile"))
        line = "\n        nisa.tensor_scalar(dst=raised, data=raised, op0=nl.minimum, operand0=60000.0)"
        end = text.text.index("\n", place)
        return [] if "60000" in text.text else [Edit("a limit", 1, ((end, end, line),))]

    monkeypatch.setattr(search, "of_advice", wrong)
    monkeypatch.setattr(search, "choices", lambda *_: [])
    monkeypatch.setattr(search, "_is_gain", lambda _: True)
    monkeypatch.setattr(search, "LEAST_WORTH", -10.0)
    found = optimise(flawed.one_tile, "trn2")(*specs([(256, 256)], BF16))
    assert not found.kept
    (attempt,) = found.attempts
    assert attempt.result == "another result"
    assert "another function" in attempt.reason


def test_bfloat16_needs_a_result_that_may_be_as_inexact():
    shapes = [(256, 128), (256, 512)]
    strict = optimise(flawed.float32_product, "trn2", error=1e-3)(*specs(shapes, F32))
    assert not any("bfloat16" in each.title for each in strict.kept)
    assert any("is allowed" in each.reason for each in strict.attempts)


def test_transposes_by_the_dma_are_tried_and_cost_more():
    found = optimise(flawed.turned, "trn2")(*specs([(512, 1024), (128, 128)], BF16))
    tried = [each for each in found.attempts if "transposed by the DMA" in each.title]
    assert not tried or all(each.result == "no faster" for each in tried)


def test_a_kernel_without_advice_stays_as_it_is():
    found = optimise(flawed.weights_again, "trn2")(*specs([(128, 512), (128, 512)], F32))
    assert found.new_text == found.text
    assert found.diff == ""
    assert "no edit makes it faster" in str(found)


def test_the_time_is_limited():
    found = optimise(flawed.naive_product, "trn2", seconds=1e-6)(*specs([(256, 256), (256, 512)], BF16))
    assert not found.kept
    assert "--seconds" in str(found)


def test_a_kernel_in_a_function_is_an_error():
    @nki.jit
    def inner(x):
        return x

    with pytest.raises(NkiError, match="edits a function of a file") as raised:
        optimise(inner)(ShapeDtype((128, 128), F32))
    assert "at the top level" in raised.value.fix


@pytest.mark.parametrize("options", [{"error": 0}, {"error": math.inf}, {"seconds": 0}, {"target": "trn9"}])
def test_options_that_make_no_sense_are_errors(options):
    with pytest.raises(NkiError):
        optimise(flawed.one_tile, **options)(*specs([(256, 512)], BF16))


def test_a_kernel_that_does_not_compile_is_the_error_of_the_compiler():
    with pytest.raises(NkiError, match="partitions"):
        optimise(flawed.weights_again, "trn2")(*specs([(128, 512), (256, 512)], F32))


def test_every_kind_of_edit_belongs_to_advice_that_exists():
    folder = Path(edits.__file__).parents[2] / "profiling"
    texts = "".join(path.read_text() for path in (folder / "advice.py", *(folder / "suggestions").glob("*.py")))
    assert all(f'"{title}"' in texts for title in edits.KINDS)
