"""Each hazard beside the closest program that is legal: that one runs, silently, in the simulator and natively.

What is refused stands in ``cases``, what is warned of in ``warnings``; the twin is the same program with one edit. The
warnings are compared word for word. NKI_TEST_REWRITE=1 writes the present ones, for their author to read.
"""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path

import pytest

from nki.base.warning import NkiDeprecationWarning, NkiWarning
from nki.target import ENVIRONMENT
from tests.errors.test_reports import MARK, loaded

HERE = Path(__file__).parent
WARNINGS = sorted((HERE / "warnings").glob("*.txt"))

TWINS = {
    # read before it is written
    "hazard_tile_before_its_dma": (
        "    nisa.tensor_scalar(doubled, tile, nl.multiply, 2.0)\n    nisa.dma_copy(tile, a)\n",
        "    nisa.dma_copy(tile, a)\n    nisa.tensor_scalar(doubled, tile, nl.multiply, 2.0)\n",
    ),
    "hazard_tile_loaded_in_part": (
        "    nisa.dma_copy(tile[0:100, 0:32], a)\n",
        "    nisa.memset(tile, 0.0)\n    nisa.dma_copy(tile[0:100, 0:32], a)\n",
    ),
    "hazard_sum_over_what_is_not_there": ("nl.add, tile, axis=1", "nl.add, tile[:, 0:31], axis=1"),
    "hazard_compared_with_what_is_not_there": (
        "    nisa.dma_copy(tile[:, 0:16], a[:, 0:16])\n",
        "    nisa.memset(tile, 0.0)\n    nisa.dma_copy(tile[:, 0:16], a[:, 0:16])\n",
    ),
    "hazard_hbm_never_written": (
        "    nisa.dma_copy(out[0:4], buffer[2:4])",
        "    nisa.dma_copy(out[0:4], buffer[0:2])\n    nisa.dma_copy(out[4:8], buffer[0:2])",
    ),
    "hazard_index_not_written": ("nisa.memset(index[0:2], 3)", "nisa.memset(index, 3)"),
    "hazard_register_not_set": ("nisa.register_alloc()", "nisa.register_alloc(3)"),
    "hazard_tile_sent_in_part": ("nisa.dma_copy(mine[:, 0:24], a[:, 0:24])", "nisa.dma_copy(mine, a)"),
    # outside
    "hazard_gather_beyond_the_tile": ("nisa.iota(places, [[2, 16]], 4)", "nisa.iota(places, [[2, 16]], 1)"),
    "index_led_outside": ("dtype=np.int32) + 16", "dtype=np.int32) + 15"),
    # placed tiles
    "hazard_clobbered_tile": ("address=(32, 320)", "address=(32, 384)"),
    "hazard_stale_tile": ("nisa.dma_copy(first, a)", "nisa.dma_copy(second, a)"),
    "hazard_tile_overwritten_by_its_reader": ("address=(0, 64)", "address=(0, 128)"),
    "addresses_overlap": ("address=(0, 1152)", "address=(0, 1280)"),
    "addresses_overlap_in_a_loop": (
        "    def body(i):\n        nisa.dma_copy(out[i], held)\n",
        "    def body(i):\n        nisa.dma_copy(held, a)\n        nisa.dma_copy(out[i], held)\n",
    ),
    # sums in PSUM
    "hazard_sum_never_begun": ("accumulate=True", "accumulate=(i > 0)"),
    "hazard_sum_on_another_engines_numbers": ("accumulate=True", "accumulate=False"),
    "hazard_sum_read_early": (
        "    nisa.tensor_copy(result, total)\n"
        "    nisa.nc_matmul(total, tile[:, 128:256], tile[:, 128:256], accumulate=True)\n",
        "    nisa.nc_matmul(total, tile[:, 128:256], tile[:, 128:256], accumulate=True)\n"
        "    nisa.tensor_copy(result, total)\n",
    ),
    "a_sum_that_is_read_and_goes_on": ("tile, tile)", "tile, tile, accumulate=False)"),
    "a_sum_that_nothing_has_read": ("accumulate=False", "accumulate=(i > 0)"),
    "a_sum_on_zeros": ("accumulate=True", "accumulate=(i > 0)"),
    # too large
    "psum_accumulator_eight_times_too_large": ("8 * 4096", "4096", "range(64)", "range(8)"),
    "stationary_too_wide": ("tile[:, 0:256]", "tile[:, 0:128]"),
    # cores
    "hazard_cores_read_what_is_written": ("data=out", "data=between"),
    "hazard_cores_read_before_it_is_written": (
        "    tile = nl.load(shared[other])\n",
        "    nisa.core_barrier(data=shared, cores=(0, 1))\n    tile = nl.load(shared[other])\n",
    ),
    "hazard_cores_write_one_place": (
        "    nl.store(out[nl.ds(4 * core, 4)]",
        "    nisa.core_barrier(data=out, cores=(0, 1))\n    nl.store(out[nl.ds(4 * core, 4)]",
    ),
    # iterations
    "iterations_read_earlier_ones": ("nl.affine_range", "range"),
    "iterations_overwrite_what_earlier_ones_read": ("tile[:, i + 1]", "tile[:, 31]"),
    "iterations_write_one_place": ("for place in range(4)", "for place in range(i, i + 1)"),
    # inputs and outputs
    "input_written": ("return out", "return out, a"),
    "output_never_written": ("    return out", "    nl.store(out, t)\n    return out"),
    "outputs_written_in_part": ("nisa.dma_copy(out[0:48], tile[0:48])", "nisa.dma_copy(out, tile)"),
}


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (ENVIRONMENT, "NKI_PRECISE_FP", "NEURON_LOGICAL_NC_CONFIG"):
        monkeypatch.setenv(name, "")  # some cases set it


def said(text: str, file: Path) -> list[str]:
    """The warnings of a program, with the lines where they were given."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loaded(text, file).call()
    told = [w for w in caught if issubclass(w.category, NkiWarning) and w.category is not NkiDeprecationWarning]
    texts = [(w, re.fullmatch(r"(?s)(.*) \(open-nki \S+\)", str(w.message))) for w in told]
    assert all(match for _, match in texts)  # each names its version
    shown = [f"{Path(w.filename).name}:{w.lineno}: {match[1]}" for w, match in texts if match]
    return [text.replace(str(file), "kernel.py") for text in shown]


def program(name: str) -> tuple[Path, str, str]:
    """The file of a case, its program, and what is said of it."""
    (path,) = (p for p in (HERE / "cases" / f"{name}.txt", HERE / "warnings" / f"{name}.txt") if p.exists())
    text, mark, expected = path.read_text(encoding="utf-8").partition(MARK)
    assert mark
    return path, text, expected.rstrip("\n")


# What the compiler warns of, too.
CERTAIN = {"a_sum_that_is_read_and_goes_on", "a_sum_that_nothing_has_read", "outputs_written_in_part"}


@pytest.mark.parametrize(
    ("path", "simulator"),
    [
        pytest.param(path, mode, id=f"{path.stem}-{name}")
        for path in WARNINGS
        for mode, name in (("1", "eager"), ("0", "native"))
        if mode == "1" or path.stem in CERTAIN
    ],
)
def test_the_warning_is_exactly(path: Path, simulator: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_SIMULATOR", simulator)
    _, text, expected = program(path.stem)
    found = "\n".join(said(text, file))
    assert found
    if os.environ.get("NKI_TEST_REWRITE"):
        path.write_text(f"{text}{MARK}{found}\n", encoding="utf-8")
        return
    assert found == expected


@pytest.mark.parametrize("simulator", ["1", "0"], ids=["eager", "native"])
@pytest.mark.parametrize("name", TWINS)
def test_the_closest_legal_program_runs_silently(
    name: str, simulator: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NKI_SIMULATOR", simulator)
    _, text, _ = program(name)
    edits = TWINS[name]
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    assert said(text, file) == []


def test_every_hazard_has_a_twin() -> None:
    hazards = {path.stem for path in (HERE / "cases").glob("hazard_*.txt")} | {path.stem for path in WARNINGS}
    assert hazards <= set(TWINS)
    codes = {
        re.findall(r"^\[(NKI-[A-Z]+\d+)", program(name)[2], re.MULTILINE)[0]
        for name in TWINS
        if program(name)[2].startswith("[")
    }
    assert {f"NKI-HZ00{n}" for n in range(1, 6)} | {
        "NKI-BU003",
        "NKI-BU005",
        "NKI-RG005",
        "NKI-KN002",
        "NKI-KN003",
    } <= codes
