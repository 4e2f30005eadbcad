"""The facts about the hardware: complete, sourced, and consistent with each other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import nki.target
from nki.base.element_types import bfloat16, float8_e4m3fn, float32
from nki.base.errors import UnknownTargetError
from nki.target import ENVIRONMENT, GEN2, GEN3, GEN4, GENERATIONS, default, find
from nki.target import memory_spaces as layouts
from nki.target.fact_rows import SAME, Fact, Row, as_trn1, as_trn2, docs, measured, row
from nki.target.memory_spaces import memory_spaces, start_partitions
from nki.target.model import Target

ALL = pytest.mark.parametrize("target", GENERATIONS, ids=str)


@ALL
def test_every_field_is_a_sourced_fact(target: Target) -> None:
    facts = target.facts()
    assert {name for base in Target.__mro__ for name, row in vars(base).items() if isinstance(row, Row)} == set(facts)
    for name, fact in facts.items():
        assert len(fact.source) > 10, name
        assert fact.kind in ("docs", "measured", "guess"), name
        assert target.fact(name) is fact and target.source(name) == fact.source
        assert getattr(target, name) is fact.value


def test_every_fact_is_read_in_the_source() -> None:
    source = Path(nki.target.__file__).parents[1]
    files = [file for file in source.rglob("*.py") if file.parent.name != "target" or file.name == "memory_spaces.py"]
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    attributes = {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    unread = set(GEN2.facts()) - attributes
    assert not unread, f"no formula or resource reads {sorted(unread)}"


@ALL
def test_memory_spaces(target: Target) -> None:
    sbuf, psum = memory_spaces(target)
    assert (sbuf.name, psum.name) == ("sbuf", "psum")
    assert sbuf.usable == target.sbuf_usable_partition_bytes < sbuf.size
    assert psum.usable == psum.size == psum.align * target.psum_banks


@ALL
def test_layout_constants_hold_in_every_generation(target: Target) -> None:
    fields = {
        "LANES": "partitions",
        "QUADRANT": "quadrant_partitions",
        "GPSIMD_CORE": "gpsimd_core_partitions",
        "OFFSET_GROUP": "offset_group_partitions",
        "TENSOR_OFFSET_GROUP": "tensor_offset_group_partitions",
        "MX_SCALE_PARTITIONS": "mx_scale_partitions",
        "VECTOR_RNG_WORDS": "vector_rng_words",
        "ACCESS_PATTERN_DIMS": "access_pattern_dims",
        "GPSIMD_DMA_ELEMENTS": "gpsimd_dma_elements",
    }
    assert set(fields) == {name for name in vars(layouts) if name.isupper() and not name.startswith("GEN")}
    assert [getattr(layouts, name) for name in fields] == [getattr(target, field) for field in fields.values()]


@ALL
def test_start_partitions(target: Target) -> None:
    assert start_partitions(target, 1) == start_partitions(target, 32) == (0, 32, 64, 96)
    assert start_partitions(target, 33) == start_partitions(target, 64) == (0, 64)
    assert start_partitions(target, 65) == start_partitions(target, 128) == start_partitions(target, 129) == (0,)


@ALL
def test_a_field_has_one_unit_in_all_generations(target: Target) -> None:
    endings = {"_bytes": "bytes", "_ns": "ns", "_ghz": "GHz", "_gbps": "GB/s", "_cycles": "cycles"}
    for name, fact in target.facts().items():
        assert fact.unit == GEN2.fact(name).unit, name
        assert all(fact.unit == unit for ending, unit in endings.items() if name.endswith(ending)), name


@ALL
def test_numbers_agree_with_each_other(target: Target) -> None:
    assert target.psum_banks * target.psum_bank_bytes == target.psum_partition_bytes
    assert 0 < target.sbuf_usable_partition_bytes < target.sbuf_partition_bytes
    assert target.partitions % target.quadrant_partitions == 0
    assert target.matmul_row_tiles[-1] == target.partitions
    assert target.matmul_moving_free_max[float32] * 4 % target.psum_bank_bytes == 0
    for dtype, columns in target.matmul_moving_free_max.items():
        assert columns * dtype.itemsize <= target.psum_partition_bytes
    # The peak rate follows from the array and its clock (two operations per element and cycle), to rounding.
    peak = 2 * target.partitions * target.matmul_stationary_free_max * target.tensor_clock_ghz / 1000
    assert {2: 92, 3: 79, 4: 79}[target.generation] == pytest.approx(peak, rel=0.01)
    assert target.dma_engine_sustained_gbps < target.dma_engine_peak_gbps
    assert target.dma_engine_sustained_gbps <= target.dma_engine_store_gbps <= target.dma_engine_peak_gbps
    assert target.dma_engines * target.dma_engine_sustained_gbps < target.hbm_stack_gbps
    assert target.cores_per_chip % target.hbm_stack_cores == 0
    stacks = target.cores_per_chip / target.hbm_stack_cores
    assert stacks * target.hbm_stack_gbps == pytest.approx(target.hbm_chip_gbps, rel=0.05)


def test_published_sizes() -> None:
    mib = 1024 * 1024
    assert [t.sbuf_partition_bytes * t.partitions // mib for t in GENERATIONS] == [24, 28, 32]
    assert [t.psum_partition_bytes * t.partitions // mib for t in GENERATIONS] == [2, 2, 2]
    assert [t.sbuf_usable_partition_bytes for t in GENERATIONS] == [180224, 212984, 245752]
    assert [dict(t.matmul_moving_free_max) for t in GENERATIONS] == [
        {float32: 512},
        {float32: 512},
        {float32: 4096, bfloat16: 8192},
    ]
    assert [float8_e4m3fn in t.matmul_dtypes for t in GENERATIONS] == [False, False, True]


def test_a_target_cannot_be_changed_or_left_incomplete() -> None:
    with pytest.raises(AttributeError, match="partitions of trn2 cannot change"):
        GEN3.partitions = Fact(64, "partitions", "wishful thinking")  # type: ignore[misc]
    assert GEN3.partitions == 128
    with pytest.raises(ValueError, match="shorter"):
        row("bytes", docs(1, "a test"), docs(2, "a test"))


def test_the_value_of_another_generation_is_a_guess() -> None:
    facts = row("ns", as_trn2((1.0, 4.0)), measured(2.0, "a test"), SAME).facts
    assert facts["trn1"] == Fact(2.0, "ns", "the value of trn2; nothing published", "guess", (1.0, 4.0))
    assert facts["trn2"] == facts["trn3"] == Fact(2.0, "ns", "a test", "measured")
    assert row("ns", docs(1.0, "a test"), as_trn1(), as_trn2()).facts["trn3"].value == 1.0


@pytest.mark.parametrize(
    ("target", "names"),
    [
        (GEN2, ["trn1", "trn1n", "inf2", "gen2", "Inf2"]),
        (GEN3, ["trn2", "gen3", "TRN2"]),
        (GEN4, ["trn3", "gen4", " Gen4 "]),
    ],
    ids=str,
)
def test_find(target: Target, names: list[str]) -> None:
    assert [find(name) for name in names] == [target] * len(names)


@pytest.mark.parametrize("name", ["", "trn", "trn4", "gen1", "tpu", "trn1,trn2", "trn２"])
def test_find_names_the_possible_ones(name: str) -> None:
    with pytest.raises(UnknownTargetError) as caught:
        find(name)
    text = str(caught.value)
    assert "NKI-TG001" in text and repr(name) in text
    for target in GENERATIONS:
        assert all(alias in text for alias in target.aliases)


def test_default_reads_the_environment_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    assert default() is GEN4
    for value, target in (("trn1", GEN2), ("gen3", GEN3), ("", GEN4), ("  ", GEN4), ("TRN3", GEN4)):
        monkeypatch.setenv(ENVIRONMENT, value)
        assert default() is target
    monkeypatch.setenv(ENVIRONMENT, "trn7")
    with pytest.raises(UnknownTargetError, match=f"{ENVIRONMENT}='trn7'"):
        default()
