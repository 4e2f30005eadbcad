"""Captures beside predictions: the fact under which the model has written a capture is the one that is named."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.profile_errors import CalibrationError, CaptureError, ProfileFileError
from nki.profiling.against import report
from nki.profiling.against.capture import Capture
from nki.profiling.against.measured import MeasuredRun
from nki.profiling.against.observation import Events
from nki.profiling.kernel_profile import Profile
from tests.profiling import captures
from tests.profiling.test_draws import FAMILIES, X, profiled, rounds

KERNELS = (
    "work on Vector",
    "work on GpSimd",
    "two buffers before one",
    "one load before pieces",
    "products",
    "narrow products",
    "functions of two tables",
    "stores of one tile",
    "sums",
    "transposes",
)
FORMS = ("parquet", "summary")
TARGETS = ("trn1", "trn2", "trn3")


@nki.jit
def sizes(x):
    """Loads of two sizes, each followed by a sum, and a store: the rate of loads is no time beside a packet."""
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    wide = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
    for part in range(0, x.shape[1], 2048):
        nisa.dma_copy(dst=wide, src=x[:, part : part + 2048])
        for first in range(part, part + 1024, 128):
            narrow = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=narrow, src=x[:, first : first + 128])
            nisa.tensor_tensor(dst=wide[:, 0:128], data1=wide[:, 0:128], data2=narrow, op=nl.add)
        nisa.dma_copy(dst=y[:, part : part + 2048], src=wide)
    return y


def sized(target: str = "trn2") -> Profile:
    return profiled(sizes, X, target=target)


def longest(family: str, target: str) -> Profile:
    """The last kernel of a family."""
    kernel, arguments, versions = FAMILIES[family]
    return profiled(kernel, *arguments, target=target, **versions[-1])


def drawn(target: str, number: int) -> tuple[Profile, dict[str, float], str]:
    """The kernel, the one or two changed facts and the form of a capture."""
    profile = longest(KERNELS[number], target)
    draw = random.Random(f"{target} {number}")
    return profile, captures.drawn_facts(profile, 1 + number % 2, draw), FORMS[number // 2 % 2]


def outcome(target: str, number: int, folder: Path) -> tuple[bool, bool, str]:
    """Test if a changed fact is named first, and if so without others that explain as much; and a line about it."""
    profile, facts, form = drawn(target, number)
    against = profile.against(captures.write(captures.under(profile, facts), form, folder, number))
    names = [each.name for each in against.explanations]
    known = {name: f"{profile.target.fact(name).value:g} -> {value:.4g}" for name, value in facts.items()}
    found = "; ".join(report.explained(against.explanations)) or "nothing"
    first = bool(names) and names[0] in facts
    return first, first and not against.explanations[0].alike, f"{target}, {KERNELS[number]}, {form}: {known}: {found}"


def test_the_changed_fact_is_named_first(tmp_path: Path) -> None:
    outcomes = [outcome(target, number, tmp_path) for target in TARGETS for number in range(len(KERNELS))]
    print("\n".join(f"{'right' if right else 'WRONG'}: {line}" for right, _, line in outcomes))
    assert len(outcomes) == 30
    assert sum(right for right, _, _ in outcomes) >= 27, "\n".join(line for right, _, line in outcomes if not right)
    assert sum(alone for _, alone, _ in outcomes) >= 18, "facts that are alike are named as such, and few are"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_named_where_nothing_was_changed(target: str, form: str, tmp_path: Path) -> None:
    for number in (0, 3, 4, 6):
        profile = longest(KERNELS[number], target)
        against = profile.against(captures.write(profile, form, tmp_path, number))
        assert not against.explanations, str(against)
        assert report.NOTHING[:10] in str(against) and not against.calibration().facts


def test_the_value_is_found(tmp_path: Path) -> None:
    profile = sized()
    other = captures.under(profile, {"dma_hardware_trigger_ns": 590.0, "dma_engine_sustained_gbps": 21.9})
    against = profile.against(captures.write_tables(other, tmp_path / "capture"))
    first = against.explanations[0]
    known = {"dma_hardware_trigger_ns": 590.0, "dma_engine_sustained_gbps": 21.9, "dma_trigger_ns": 590.0}
    assert first.value is not None and first.value.is_in_range and not first.alike
    assert first.value.after == pytest.approx(known[first.name], rel=0.01)
    assert first.value.least <= first.value.after <= first.value.most
    assert [each.share for each in against.explanations] == sorted(each.share for each in against.explanations)
    assert 0.02 < first.share <= 1.0


def test_a_value_out_of_its_range_is_told_as_such(tmp_path: Path) -> None:
    profile = sized()
    against = profile.against(
        captures.write_tables(captures.under(profile, {"dma_engine_sustained_gbps": 20.0}), tmp_path / "capture")
    )
    value = against.explanations[0].value
    assert value is not None and not value.is_in_range and value.after == pytest.approx(20.0, rel=0.01)
    assert "out of its range, 21.4 to 26.1" in " ".join(str(against).split())


def test_facts_that_a_kernel_cannot_tell_apart_are_named_together(tmp_path: Path) -> None:
    profile = longest("stores of one tile", "trn3")
    other = captures.under(profile, {"dma_store_overhead_ns": 20.0})
    against = profile.against(captures.write_summary(other, tmp_path / "summary.json"))
    (first,) = against.explanations
    assert {first.name, *(each.name for each in first.alike)} >= {"dma_store_overhead_ns", "dma_engine_store_gbps"}
    assert "cannot tell it from" in str(against) and "transfers of another size" in str(against)
    assert not against.calibration().facts, "a fact that another one explains as well is not learned"


def test_another_order_is_named(tmp_path: Path) -> None:
    kernel, arguments, versions = FAMILIES["two buffers before one"]
    listed = profiled(kernel, *arguments, **versions[0])
    program = nki.profile(kernel, target="trn2", order="program")(*arguments, **versions[0])
    against = listed.against(captures.write_tables(program, tmp_path / "capture"))
    assert against.explanations[0].name == "order" and against.explanations[0].value is None
    assert "the assumption 'order' explains" in " ".join(str(against).split())


def test_only_facts_that_the_times_follow_are_tried() -> None:
    profile = profiled(rounds, X, work=4)
    events = Events(fields={"total_time": profile.total_time * 1e9})
    capture = Capture(Path("none"), "summary", profile.name, "trn2", "", True, {}, events)
    names = MeasuredRun(profile, capture).read_facts
    assert {"dma_trigger_ns", "dma_engine_sustained_gbps", "capture_ns"} <= set(names)
    assert not {"launch_ns", "collective_start_ns", "matmul_issue_cycles", "gpsimd_power_cycles"} & set(names)


def test_engines_lines_and_counts_lie_beside_each_other(tmp_path: Path) -> None:
    profile = profiled(rounds, X, work=4)
    against = profile.against(captures.write_tables(profile, tmp_path / "capture", noise=0.0))
    times = {row.name: row for row in against.times}
    assert times["vector"].measured == pytest.approx(times["vector"].predicted, rel=1e-3)
    assert times["device time"].predicted == pytest.approx(profile.device_time, rel=0.1)
    assert sum(row.counts[0] for row in against.instructions if not row.name.startswith("dma ")) == profile.instructions
    assert all(row.counts[0] == row.counts[1] for row in against.instructions)
    assert {row.name.partition(":")[0] for row in against.by_line} == {"test_draws.py"}
    assert report.record(against)["lines"] and report.record(against)["is_modelled"]


def test_two_cores(halves: Profile, tmp_path: Path) -> None:
    other = captures.under(halves, {"dma_hardware_trigger_ns": 520.0, "dma_trigger_ns": 520.0})
    against = halves.against(captures.write_tables(other, tmp_path / "capture"))
    assert against.explanations and against.explanations[0].name in ("dma_hardware_trigger_ns", "dma_trigger_ns")


def with_start_up(columns: dict[str, Any]) -> dict[str, Any]:
    """The columns with 14 µs of start-up in front, and a wait for a semaphore before each third instruction."""
    rows = len(columns["start_ts"])
    order = np.concatenate((np.arange(rows), np.arange(0, rows, 3), [0]))
    grown = {name: np.asarray(column, dtype=object)[order].tolist() for name, column in columns.items()}
    for row in range(rows, len(order)):
        begin, grown["nki_source_location"][row] = grown["start_ts"][row], ""
        grown["opcode"][row], length = ("EVENT_SEMAPHORE", 9) if row < len(order) - 1 else ("TENSOR_LOAD", 500)
        start = begin - length if row < len(order) - 1 else begin - 14_000
        grown |= {"bir_debug_info_source_location": [""] * len(order)}
        grown["start_ts"][row], grown["end_ts"][row], grown["duration_ns"][row] = start, start + length, length
    return grown


def as_of_a_device(profile: Profile, folder: Path) -> Path:
    """Tables as the profiler writes them: without our columns, in files with numbers, lines in other folders."""
    profile.to_parquet(folder)
    for name in ("Instruction", "DmaPacketAggregated", "Metadata"):
        columns = captures.read_table(folder, name)
        for ours in ("executions", "cause", "source", "is_simulation", "instance_type"):
            if name != "DmaPacketAggregated" or ours != "source":
                columns.pop(ours, None)
        if name == "Instruction":
            columns = with_start_up(columns)
            columns["engine"] = [engine.lower() for engine in columns["engine"]]
            del columns["bir_debug_info_source_location"]
            columns["nki_source_location"] = [
                [f"/home/somebody/{place.rpartition('/')[2]}"] for place in columns["nki_source_location"]
            ]
        if name == "DmaPacketAggregated":  # there it is the end of the trigger
            columns["completion"] = columns["trigger"]
        if name == "Metadata":
            columns["first_ts"] = ["2026-03-05 10:11:12+00:00"]
        table = pa.table(columns)
        (folder / f"{name}.parquet").unlink()
        half = (len(table) + 1) // 2
        for number in range(2):
            pq.write_table(table.slice(number * half, half), folder / f"{name}_{number}.parquet")
    for file in folder.glob("*.parquet"):
        if not file.stem.startswith(("Instruction", "DmaPacketAggregated", "Metadata")):
            file.unlink()
    return folder


@pytest.mark.parametrize("fact", [("dma_engine_sustained_gbps", 21.9), ("dma_completion_ns", 300.0)])
def test_tables_of_the_profiler(fact: tuple[str, float], tmp_path: Path) -> None:
    profile = sized()
    against = profile.against(as_of_a_device(captures.under(profile, dict([fact])), tmp_path / "capture"))
    assert against.capture.date == "2026-03-05" and not against.capture.modelled and against.level == 3
    assert [each.name for each in against.explanations] == [fact[0]]
    device = next(row for row in against.times if row.name == "device time")
    assert device.measured == pytest.approx(device.predicted, rel=0.05), "start-up is no part of it"


def test_one_file_of_instructions_is_a_capture(tmp_path: Path) -> None:
    profile = profiled(rounds, X, work=4)
    captures.write_tables(captures.under(profile, {"vector_two_tiles_cycles": 1.6}), tmp_path / "capture")
    alone = (tmp_path / "capture" / "Instruction.parquet").rename(tmp_path / "capture.parquet")
    assert profile.against(alone).explanations[0].name == "vector_two_tiles_cycles"


# Files of facts.


def learned(tmp_path: Path) -> tuple[Profile, Profile, Path]:
    """A profile, the one of the capture, and the file of facts that was learned from it."""
    profile = sized()
    other = captures.under(profile, {"dma_engine_sustained_gbps": 21.9})
    against = profile.against(captures.write_tables(other, tmp_path / "capture"))
    return profile, other, against.calibrate(tmp_path / "facts.json")


def test_learned_facts_predict_the_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile, other, file = learned(tmp_path)
    document = json.loads(file.read_text())
    assert document["kernel"] == profile.name and document["target"] == "trn2" and document["date"]
    assert list(document["facts"]) == ["dma_engine_sustained_gbps"]
    again = nki.profile(sizes, target="trn2", facts=file)(X)
    assert abs(again.device_time / other.device_time - 1) < 0.002 < abs(profile.device_time / other.device_time - 1)
    assert "calibrated by facts.json" in str(again) and "calibrated" not in str(profile)
    assert again.target.fact("dma_engine_sustained_gbps").kind == "measured"
    assert not again.against(tmp_path / "capture").explanations, "nothing is left to learn"
    monkeypatch.setenv("NKI_FACTS", str(file))
    assert nki.profile(sizes, target="trn2")(X).device_time == again.device_time
    assert not nki.profile(sizes, target="trn1")(X).target.fact("launch_ns").source.startswith("calibrated")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"format": "other"}, "field format is missing"),
        ({"form": 2}, "field form is 2; 1 is expected"),
        ({"kernel": 3}, "field kernel is 3; a text is expected"),
        ({"target": "trn1"}, "field target is 'trn1'; 'trn2' is expected"),
        ({"facts": []}, "field facts is []"),
        ({"facts": {"dma_engine_sustained_gbps": 21.9}}, "dma_engine_sustained_gbps.value is None"),
        ({"value": True}, "value is True; a number"),
        ({"unit": "GB"}, "unit is 'GB'; 'GB/s' is expected"),
        ({"value": 230.0}, "value is 230; a value from"),
        ({"least": 22.5}, "between its least and most"),
        ({"facts": {"partitions": {"value": 64, "least": 64, "most": 64, "unit": ""}}}, "no fact of trn2 that may be"),
    ],
)
def test_files_of_facts_are_checked(change: dict[str, Any], text: str, tmp_path: Path) -> None:
    fact = {"value": 21.9, "least": 21.8, "most": 22.0, "unit": "GB/s"}
    fact |= {name: value for name, value in change.items() if name in fact}
    document: dict[str, Any] = {
        "format": "open-nki facts",
        "form": 1,
        "kernel": "rounds",
        "target": "trn2",
        "capture": "capture",
        "date": "2026-03-05",
        "facts": {"dma_engine_sustained_gbps": fact},
    }
    file = tmp_path / "facts.json"
    file.write_text(json.dumps(document | {name: value for name, value in change.items() if name not in fact}))
    with pytest.raises(CalibrationError) as refused:
        nki.profile(sizes, target="trn2", facts=file)(X)
    assert str(file) in refused.value.message and text in refused.value.message and refused.value.fix


def test_files_of_facts_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="No such file"):
        nki.profile(sizes, target="trn2", facts=tmp_path / "none.json")(X)
    (tmp_path / "text.json").write_text("facts")
    with pytest.raises(CalibrationError, match="Expecting value"):
        nki.profile(sizes, target="trn2", facts=tmp_path / "text.json")(X)
    profile = sized()
    against = profile.against(captures.write_summary(profile, tmp_path / "summary.json"))
    with pytest.raises(ProfileFileError):
        against.calibrate(tmp_path / "no_folder" / "facts.json")


# Captures that are refused.


def refused(profile: Profile, path: Path) -> str:
    with pytest.raises(CaptureError) as error:
        profile.against(path)
    assert str(path) in error.value.message and error.value.fix
    return error.value.message


def test_captures_of_another_kernel_or_target(product: Profile, tmp_path: Path) -> None:
    profile = profiled(rounds, X, work=4)
    capture = captures.write_tables(profile, tmp_path / "capture")
    assert "'rounds'; 'product' is expected" in refused(product, capture)
    assert "on trn2; trn1 is expected" in refused(profiled(rounds, X, work=4, target="trn1"), capture)
    device = as_of_a_device(captures.under(profile, {}), tmp_path / "device")
    assert "engine_clock_freq of Metadata is" in refused(profiled(rounds, X, work=4, target="trn1"), device)
    for file in device.glob("Metadata*"):
        file.unlink()
    assert "engine vector works for" in refused(longest("stores of one tile", "trn2"), device)
    assert "have little in common" in refused(product, device)


def test_tables_that_are_wrong(tmp_path: Path) -> None:
    profile = profiled(rounds, X, work=4)
    folder = captures.write_tables(profile, tmp_path / "capture")
    whole = captures.read_table(folder, "Instruction")

    def changed(**columns: Any) -> str:
        kept = {name: column for name, column in (whole | columns).items() if column is not None}
        captures.write_table(folder, "Instruction", kept)
        return refused(profile, folder)

    assert "column opcode is missing" in changed(opcode=None)
    assert "column start_ts has values of type string" in changed(start_ts=["early"] * len(whole["start_ts"]))
    assert "expected in ns" in changed(duration_ns=whole["duration_ns"] * 1000)
    assert "ends before it begins" in changed(end_ts=whole["start_ts"] - 5)
    assert "names 'fpga'; one of tensor" in changed(engine=["fpga"] * len(whole["engine"]))
    times = {name: whole[name] * 1000 for name in ("start_ts", "end_ts", "duration_ns")}
    assert "tell of" in changed(**times)
    captures.write_table(folder, "Instruction", {name: column[:0] for name, column in whole.items()})
    assert "is empty" in refused(profile, folder)
    (folder / "Instruction.parquet").write_bytes(b"no table")
    assert refused(profile, folder)
    for name in ("Instruction", "DmaPacketAggregated"):
        (folder / f"{name}.parquet").unlink()
    assert "there is no table Instruction" in refused(profile, folder)
    assert "no such file" in refused(profile, tmp_path / "none")


def test_summaries_that_are_wrong(tmp_path: Path) -> None:
    profile = profiled(rounds, X, work=4)
    file = captures.write_summary(profile, tmp_path / "summary.json")
    whole: dict[str, Any] = json.loads(file.read_text())

    def changed(document: Any) -> str:
        file.write_text(document if isinstance(document, str) else json.dumps(document))
        return refused(profile, file)

    assert "no JSON" in changed("{")
    assert "there are 0 summaries" in changed([whole])
    assert "there are 2 summaries" in changed({"one": whole, "two": whole})
    assert "field total_time is missing" in changed(whole | {"total_time": "fast"})
    assert "tensor_engine_active_time is missing" in changed(
        {name: value for name, value in whole.items() if "engine_active" not in name}
    )
    assert "seconds are expected" in changed(whole | {"total_time": whole["total_time"] * 1e9})
    assert "'other'; 'rounds' is expected" in changed(whole | {"kernel": "other"})
    file.write_text(json.dumps({"rounds on trn2": whole}))
    assert profile.against(file).capture.form == "summary"


def test_the_report_has_the_capture(tmp_path: Path) -> None:
    profile = sized()
    other = captures.under(profile, {"dma_engine_sustained_gbps": 21.9})
    against = profile.against(captures.write_tables(other, tmp_path / "capture"))
    page = profile.to_html(tmp_path / "with.html", against).read_text(encoding="utf-8")
    assert "card against" in page and "dma_engine_sustained_gbps 23.5 -" in page
    assert "card against" not in profile.to_html(tmp_path / "without.html").read_text(encoding="utf-8")
