"""The drawing of the device has the numbers of the targets, and pages say what a reader looks for in them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from nki import target

ROOT = Path(__file__).parent.parent
TARGETS = [target.find(name) for name in ("trn1", "trn2", "trn3")]


def words(name: str) -> list[str]:
    """The texts of a drawing."""
    drawing = ET.fromstring((ROOT / "docs" / "images" / name).read_text(encoding="utf-8"))
    return [text.text or "" for text in drawing.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize(
    ("sentence", "numbers"),
    [
        (r"partitions of ([\d /]+) KiB", [t.sbuf_partition_bytes // 1024 for t in TARGETS]),
        (r"a kernel can use ([\d /]+) bytes", [t.sbuf_usable_partition_bytes for t in TARGETS]),
        (r"([\d /.]+) GHz", [t.tensor_clock_ghz for t in TARGETS]),
        (r"NeuronCore, ([\d /]+) on a chip", [t.cores_per_chip for t in TARGETS]),
        (r"([\d /]+) GiB", [t.hbm_bytes >> 30 for t in TARGETS]),
        (r"([\d /]+) GB/s", [t.hbm_chip_gbps for t in TARGETS]),
    ],
)
def test_numbers_that_differ(sentence, numbers):
    shown = [re.search(sentence, text) for text in words("device.svg")]
    assert list(map(float, numbers)) in [[float(n) for n in found[1].split("/")] for found in shown if found]


@pytest.mark.parametrize("generation", TARGETS, ids=str)
def test_numbers_that_all_targets_share(generation):
    shown = "\n".join(words("device.svg"))
    psum = generation.psum_partition_bytes // 1024
    assert f"{generation.partitions} partitions of {psum} KiB" in shown
    assert f"{generation.psum_banks} banks of {generation.psum_bank_bytes // 1024} KiB" in shown
    assert f"{generation.dma_engines} DMA engines" in shown
    assert f"array of {generation.partitions} × {generation.matmul_stationary_free_max}" in shown
    for name in ("Tensor", "Vector", "Scalar", "GpSimd", "Sync", "PSUM", "SBUF"):
        assert name in shown


@pytest.mark.parametrize("page", ["docs/index.md", "README.md"])
def test_the_pages_about_the_device_are_linked(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "device.md)" in text and "tuning.md)" in text


@pytest.mark.parametrize("page", ["README.md", "docs/torch_xla.md", "docs/harnesses.md"])
def test_the_counterpart_of_a_neff_is_told(page):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert re.search(r"[Nn]o (command makes a )?NEFF", text) and ".nkix" in text


def test_the_command_that_builds_a_wheel_is_told():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert "pip wheel . --no-deps" in text and "python -m build" in text
