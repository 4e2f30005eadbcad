"""The Parquet tables, read with the kinds of query that public documents of agents describe."""

from __future__ import annotations

import itertools
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from nki.base.profile_errors import MissingPackageError, ProfileFileError
from nki.ir.instruction import REGISTRY
from nki.isa.tables import opcodes
from nki.profiling.parquet import TABLES
from tests.profiling import kernels

NAMES = [
    "Summary",
    "Instruction",
    "DmaPacketAggregated",
    "OpcodeSummary",
    "ActiveTime",
    "SemaphoreUpdate",
    "CoreBarriers",
    "SbufUsage",
    "PsumUsage",
    "HbmUsage",
    "SbufAllocation",
    "Flow",
    "TensorInfo",
    "Throttle",
    "KernelInstructions",
    "KernelStackFrames",
    "Metadata",
    "DmaPacket",
]
COLUMNS = {
    "Instruction": "start_ts end_ts duration_ns engine timeline_track pcore_idx opcode operands compiler_opcode id pc "
    "bir_id bir_instruction_name kernel_instruction_name evt_wait_time_ns dma_trigger_start_ts dma_trigger_end_ts "
    "dma_wait_time_ns stack_frame_ids nki_source_location bir_debug_info_source_location hbm_read_bytes "
    "hbm_write_bytes sbuf_read_bytes psum_write_bytes tensor_instruction_type raw_flops adjusted_flops flops_transpose",
    "DmaPacketAggregated": "start_ts end_ts duration_ns id pcore_idx queue_idx queue_name queue_type op variable "
    "read_bytes write_bytes transfer_bytes throughput source dest read_num_sbuf_partitions write_num_sbuf_partitions "
    "read_shape write_offset read_steps is_transpose_mode trigger completion",
    "Flow": "in_id out_id in_table out_table dependency_type gap_time",
    "ActiveTime": "start_ts end_ts engine pcore_idx duration_ns",
    "OpcodeSummary": "engine opcode instruction_count instruction_time_ns active_time_ns active_time_percent",
    "SbufUsage": "timestamp avg_util_percent partition_0_util_percent partition_96_util_percent pcore_idx",
    "PsumUsage": "timestamp avg_util_percent bank_0_util_percent bank_7_util_percent pcore_idx",
    "HbmUsage": "timestamp current_throughput total_transfer_bytes pcore_idx",
    "SbufAllocation": "start_ts end_ts start_address end_address partition tensor_name pcore_idx",
    "TensorInfo": "variable_name type format shape size load_to_sbuf_dma_count load_to_sbuf_repeat_factor",
    "SemaphoreUpdate": "timestamp id value update_source update_operation_type pcore_idx",
    "CoreBarriers": "start_ts end_ts duration_ns engine_name id compiler_pc compiler_opcode compiler_operands",
    "KernelInstructions": "kernel_instruction_name stack_frame_id stack_frame_depth file_path line_number",
    "KernelStackFrames": "stack_frame_id fully_qualified_function_name parent_stack_frame_id file_path line_number",
    "Metadata": "is_simulation dma_ddr_bandwidth tensor_engine_num_rows tensor_engine_clock_freq first_ts last_ts",
}

Row = dict[str, Any]


def read(profile, folder) -> dict[str, list[Row]]:
    """The rows of every table, by way of the files."""
    return {path.stem: pq.read_table(path).to_pylist() for path in profile.to_parquet(folder)}


@pytest.fixture(scope="session")
def tables(product, tmp_path_factory):
    return read(product, tmp_path_factory.mktemp("product"))


def merged(rows: list[Row]) -> int:
    """The ns that intervals cover, counted one by one."""
    covered: set[int] = set()
    for row in rows:
        covered.update(range(row["start_ts"], row["end_ts"]))
    return len(covered)


def test_every_table_has_its_file_and_columns(product, tables, tmp_path):
    assert sorted(tables) == sorted(NAMES) == sorted(TABLES)
    files = {path.stem: path for path in product.to_parquet(tmp_path / "new" / "folder")}
    for name, columns in COLUMNS.items():
        assert set(columns.split()) <= set(pq.read_schema(files[name]).names), name


def test_times_are_whole_ns(product, tmp_path):
    for path in product.to_parquet(tmp_path):
        schema = pq.read_schema(path)
        for name in schema.names:
            if name.endswith(("_ts", "_ns")) or name == "timestamp":
                assert str(schema.field(name).type) == "int64", (path.stem, name)


def test_the_summary_is_the_summary_json(product, tables):
    (row,) = tables["Summary"]
    assert row == product.summary()


def test_metadata_says_that_it_is_a_simulation(product, tables):
    (row,) = tables["Metadata"]
    assert row["is_simulation"] is True and row["source"] == "open-nki model"
    assert row["instance_type"] == "trn2" and row["last_ts"] == round(product.timeline.ns)
    peak = row["tensor_engine_num_rows"] * row["tensor_engine_num_cols"] * 2.0 * row["tensor_engine_clock_freq"] * 1e9
    assert peak == pytest.approx(78.6e12, rel=1e-3)  # what public pages give for trn2
    assert row["dma_ddr_bandwidth"] == pytest.approx(435e9, rel=1e-3)


def test_loads_by_source_line(tables):
    """Instruction with Flow with DmaPacketAggregated: which line loads which tensor how often."""
    lines = {row["id"]: row["bir_debug_info_source_location"] for row in tables["Instruction"] if row["hbm_read_bytes"]}
    transfers = {row["id"]: row for row in tables["DmaPacketAggregated"]}
    loads: dict[tuple[str, str], list[int]] = defaultdict(list)
    for flow in tables["Flow"]:
        if (flow["in_table"], flow["out_table"]) == ("Instruction", "DmaPacketAggregated") and flow["in_id"] in lines:
            transfer = transfers[flow["out_id"]]
            assert flow["dependency_type"] == "DGE_TRIGGER"
            if transfer["source"] == "[[INPUT]]":
                line = lines[flow["in_id"]].split("/")[-1]
                loads[line, transfer["variable"]].append(transfer["transfer_bytes"])
    source = Path(kernels.__file__).read_text(encoding="utf-8").splitlines()
    named = {(source[int(line.split(":")[1]) - 1].strip(), name): sizes for (line, name), sizes in loads.items()}
    assert named == {
        ("nisa.dma_copy(dst=tile, src=lhs[m * 128 : m * 128 + 128, k * 128 : k * 128 + 128])", "lhs"): [32768] * 4,
        ("nisa.dma_copy(dst=moving, src=rhs[k * 128 : k * 128 + 128])", "rhs"): [131072] * 4,
    }


def test_input_reloads(tables):
    """The bytes moved per tensor beside its size; rhs is loaded for each of two rows of tiles."""
    moved: dict[str, int] = defaultdict(int)
    for row in tables["DmaPacketAggregated"]:
        moved[row["variable"]] += row["transfer_bytes"]
    info = {row["variable_name"]: row for row in tables["TensorInfo"]}
    assert {name: moved[name] / row["size"] for name, row in info.items()} == {"lhs": 1.0, "rhs": 2.0, "out": 1.0}
    assert {name: row["load_to_sbuf_repeat_factor"] for name, row in info.items() if row["type"] == "IN"} == {
        "lhs": 1.0,
        "rhs": 2.0,
    }
    assert sum(row["size"] for row in info.values()) == tables["Summary"][0]["inputs_outputs_weights_size_bytes"]


def test_stores_and_transfer_geometry(tables):
    stores = [row for row in tables["DmaPacketAggregated"] if row["dest"] == "[OUTPUT]"]
    assert [row["source"] for row in stores] == ["[[SB]]"] * 2
    for row in tables["DmaPacketAggregated"]:
        load = row["source"] == "[[INPUT]]"
        partitions = row["write_num_sbuf_partitions"] if load else row["read_num_sbuf_partitions"]
        assert partitions == 128 and row["transfer_bytes"] // partitions in (256, 1024)
        assert row["is_transpose_mode"] is False and row["queue_type"] == "hardware_dynamic"
        assert row["throughput"] == pytest.approx(row["transfer_bytes"] * 1e9 / row["duration_ns"])


def test_active_times_are_merged_and_agree_with_the_summary(product, tables):
    summary = tables["Summary"][0]
    for engine in ("tensor", "vector", "scalar", "sync", "dma"):
        rows = [row for row in tables["ActiveTime"] if row["engine"] == engine]
        assert all(before["end_ts"] <= after["start_ts"] for before, after in itertools.pairwise(rows))
        total = sum(row["duration_ns"] for row in rows)
        assert total == merged(rows)
        assert total * 1e-9 == pytest.approx(
            summary.get(f"{engine}_engine_active_time", summary["dma_active_time"]), abs=2e-8
        )
    packets = merged(tables["DmaPacket"])
    assert packets * 1e-9 == pytest.approx(summary["dma_active_time"], abs=2e-8)


def test_active_times_cover_the_instructions(tables):
    for engine in ("tensor", "vector", "scalar"):
        rows = [row for row in tables["Instruction"] if row["engine"].lower() == engine]
        active = merged([row for row in tables["ActiveTime"] if row["engine"] == engine])
        assert abs(active - merged(rows)) <= len(rows)


def test_products_and_their_flops(tables):
    """The queries of the Tensor engine: adjusted_flops of MATMUL rows, split by transposes, and K, M, N of operands."""
    products = [r for r in tables["Instruction"] if r["engine"] == "Tensor" and r["opcode"] == "MATMUL"]
    regular = [r for r in products if r["tensor_instruction_type"] == "REGULAR"]
    moves = [r for r in products if r["tensor_instruction_type"] == "TRANSPOSE"]
    assert (len(regular), len(moves)) == (4, 4)
    assert {r["adjusted_flops"] for r in regular} == {2 * 128 * 128 * 512}
    assert sum(r["adjusted_flops"] for r in products) == tables["Summary"][0]["adjusted_hardware_flops"]
    assert {r["flops_transpose"] for r in moves} == {2 * 128**3} and {r["flops_transpose"] for r in regular} == {0}
    for rows, expected in ((regular, (128, 128, 512)), (moves, (128, 128, 128))):
        for row in rows:
            last = re.search(r"(\d+)\*(\d+)\s*$", row["operands"])
            first = re.search(r"src=\S+\[[\d,\-]+\]\[(\d+),", row["operands"])
            assert last and first
            assert (int(last[1]), int(last[2]), int(first[1])) == expected
    assert "src=bfloat16:moving[" in regular[0]["operands"]


def test_opcodes_are_counted(tables):
    counted: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for row in tables["Instruction"]:
        counted[row["engine"], row["opcode"]][0] += row["executions"]
        counted[row["engine"], row["opcode"]][1] += row["duration_ns"]
    for row in tables["OpcodeSummary"]:
        count, time = counted.pop((row["engine"], row["opcode"]))
        assert row["instruction_count"] == count
        assert abs(row["instruction_time_ns"] - time) <= count
        assert row["active_time_ns"] <= row["instruction_time_ns"]
    assert not counted
    opcodes_seen = {(row["engine"], row["opcode"]) for row in tables["OpcodeSummary"]}
    assert {("Tensor", "MATMUL"), ("Scalar", "ACTIVATE"), ("Sync", "DMA_DIRECT2D")} <= opcodes_seen


def test_waits_lie_before_the_instructions(tables):
    flows = {row["out_id"]: row for row in tables["Flow"] if row["dependency_type"] == "DEPENDENCE"}
    waiting = [row for row in tables["Instruction"] if row["evt_wait_time_ns"] > 0]
    assert waiting
    instructions = {row["id"]: row for row in tables["Instruction"]}
    transfers = {row["id"]: row for row in tables["DmaPacketAggregated"]}
    for row in waiting:
        flow = flows[row["id"]]
        producer = (transfers if flow["in_table"] == "DmaPacketAggregated" else instructions)[flow["in_id"]]
        assert row["cause"] == "dependence" and producer["end_ts"] <= row["start_ts"]


def test_memory_over_time(product, tables):
    peak = max(row["avg_util_percent"] for row in tables["SbufUsage"])
    assert 0 < peak <= 1
    own = max(row["partition_0_util_percent"] for row in tables["SbufUsage"])
    assert own * product.target.sbuf_partition_bytes == pytest.approx(product.peak_memory["sbuf"])
    assert tables["SbufUsage"][-1]["avg_util_percent"] == pytest.approx(0, abs=1e-12)
    banks = [[row[f"bank_{bank}_util_percent"] for bank in range(8)] for row in tables["PsumUsage"]]
    average = [row["avg_util_percent"] for row in tables["PsumUsage"]]
    np.testing.assert_allclose(np.mean(banks, axis=1), average, atol=1e-12)
    assert max(average) * 16384 == pytest.approx(product.peak_memory["psum"])
    for row in tables["SbufAllocation"]:
        assert row["start_ts"] <= row["end_ts"] and row["start_address"] < row["end_address"]
        assert row["end_address"] <= product.target.sbuf_partition_bytes


def test_hbm_traffic_over_time(tables):
    rows = tables["HbmUsage"]
    summary = tables["Summary"][0]
    assert rows[-1]["total_transfer_bytes"] == summary["hbm_read_bytes"] + summary["hbm_write_bytes"]
    assert rows[-1]["current_throughput"] == 0
    assert all(
        before["total_transfer_bytes"] <= after["total_transfer_bytes"] for before, after in itertools.pairwise(rows)
    )


def test_source_lines_and_calls(tables):
    frames = {row["stack_frame_id"]: row for row in tables["KernelStackFrames"]}
    by_name = defaultdict(dict)
    for row in tables["KernelInstructions"]:
        by_name[row["kernel_instruction_name"]][row["stack_frame_depth"]] = row
    for row in tables["Instruction"]:
        own = by_name[row["kernel_instruction_name"]][0]
        assert row["nki_source_location"] == f"{own['file_path']}:{own['line_number']}"
        ids = [int(each) for each in row["stack_frame_ids"].split(",")]
        assert ids[0] == own["stack_frame_id"]
        for child, parent in zip(ids, [*ids[1:], -1], strict=True):
            assert frames[child]["parent_stack_frame_id"] == parent
    assert "product" in {row["fully_qualified_function_name"] for row in tables["KernelStackFrames"]}


def test_two_cores_and_their_barrier(halves, tmp_path):
    tables = read(halves, tmp_path)
    assert {row["pcore_idx"] for row in tables["Instruction"]} == {0, 1}
    ids = [row["id"] for row in tables["Instruction"]]
    assert ids == list(range(len(ids)))
    barriers = tables["CoreBarriers"]
    assert [row["pcore_idx"] for row in barriers] == [0, 1]
    assert {row["compiler_opcode"] for row in barriers} == {"core_barrier"}
    instructions = {row["id"]: row for row in tables["Instruction"]}
    for row in barriers:
        assert instructions[row["id"]]["pcore_idx"] == row["pcore_idx"]
    sources = {row["source"] for row in tables["DmaPacketAggregated"]}
    assert sources == {"[[INPUT]]", "[[SB]]", "[[VIRTUAL]]"}
    transfers = {row["id"]: row for row in tables["DmaPacketAggregated"]}
    for flow in tables["Flow"]:
        if flow["dependency_type"] == "DGE_TRIGGER":
            assert instructions[flow["in_id"]]["pcore_idx"] == transfers[flow["out_id"]]["pcore_idx"]


def test_semaphores_count_the_instructions_of_a_queue(tables):
    last: dict[int, int] = defaultdict(int)
    tracks: dict[int, list[int]] = defaultdict(list)
    for row in tables["SemaphoreUpdate"]:
        assert row["value"] == last[row["id"]] + 1
        last[row["id"]] = row["value"]
        tracks[row["id"]].append(row["timestamp"])
    assert sum(last.values()) == len(tables["Instruction"])
    assert all(times == sorted(times) for times in tracks.values())


def test_rows_of_a_loop_say_how_many_iterations_they_stand_for(loop, tmp_path):
    tables = read(loop, tmp_path)
    moved = sum(row["transfer_bytes"] * row["executions"] for row in tables["DmaPacketAggregated"])
    assert moved == 200 * 64 * 4 + 4 + 64 * 4 == loop.summary()["dma_transfer_total_bytes"]


def test_samples_go_on_through_iterations_without_rows(tmp_path):
    profile = kernels.profiled_rows()
    tables = read(profile, tmp_path)
    assert tables["HbmUsage"][-1]["total_transfer_bytes"] == pytest.approx(profile.hbm_bytes, rel=1e-3)
    sbuf = tables["SbufUsage"]
    assert sbuf[-1]["timestamp"] == pytest.approx(profile.timeline.ns, abs=1) and sbuf[-1]["avg_util_percent"] == 0.0
    assert sbuf[-2]["avg_util_percent"] > 0.0 and sbuf[-2]["timestamp"] < 0.1 * profile.timeline.ns


def test_throttling(product, tables):
    throttled = sum(use.throttled for use in product.engines)
    assert (throttled > 0) == bool(tables["Throttle"])
    tensor = [row for row in tables["Instruction"] if row["engine"] == "Tensor"]
    for row in tables["Throttle"]:
        assert any(row["start_ts"] <= each["start_ts"] < row["end_ts"] for each in tensor)


def test_opcodes_name_instructions_that_exist():
    assert opcodes.OPCODES.keys() <= REGISTRY.keys() and REGISTRY.keys() >= opcodes.TRANSPOSING
    assert {mnemonic for mnemonic, _ in opcodes.ON_ENGINE} <= REGISTRY.keys()
    assert opcodes.opcode("nc_transpose", "tensor") == "MATMUL" != opcodes.opcode("nc_transpose", "vector")
    assert opcodes.opcode("tensor_reduce", "vector") == "TENSOR_REDUCE"


def test_without_pyarrow_the_error_has_the_command(product, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingPackageError, match="to_parquet needs the package pyarrow") as caught:
        product.to_parquet(tmp_path / "tables")
    assert "pip install pyarrow" in caught.value.fix and not (tmp_path / "tables").exists()


def test_a_folder_that_is_a_file(product, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ProfileFileError, match="File exists"):
        product.to_parquet(tmp_path / "file")
