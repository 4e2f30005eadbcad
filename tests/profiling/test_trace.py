"""The Perfetto trace, read back with the package's own messages."""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

import nki
from nki.base.profile_errors import MissingPackageError, ProfileFileError
from nki.profiling.trace import trace
from tests.profiling import kernels
from tests.support.decoded_trace import DecodedTrace, Slice


@pytest.fixture(scope="session")
def decoded(product):
    return DecodedTrace(trace(product))


def test_tracks(decoded):
    assert decoded.errors == []
    assert list(decoded.processes.values()) == ["core 0: product on trn2 (open-nki model)"]
    tracks = {decoded.track_of(each) for each in decoded.slices}
    assert {"Tensor", "Vector", "Scalar", "Sync DMA descriptors", "DMA queue 0"} <= tracks
    assert decoded.units == {
        "SBUF per partition": "bytes",
        "PSUM per partition": "bytes",
        "HBM": "GB/s",
        "Tensor clock": "GHz",
    }


def test_each_instruction_is_there_once(product, decoded):
    engines = [each for each in decoded.slices if not decoded.track_of(each).startswith("DMA queue")]
    assert sorted(each.arguments["id"] for each in engines) == list(range(product.instructions))
    data = [each for each in decoded.slices if decoded.track_of(each).startswith("DMA queue")]
    assert len(data) == sum(size.count for size in product.transfers)
    assert sum(each.arguments["bytes"] for each in data) == sum(size.bytes for size in product.transfers)


def test_times_and_arguments(product, decoded):
    (core,) = product.cores
    for each in decoded.slices:
        row = each.arguments["id"]
        data = decoded.track_of(each).startswith("DMA queue")
        begin, end = (core.data_start, core.data_end) if data else (core.start, core.release)
        assert (each.begin, each.end) == (round(begin[row]), round(end[row]))
        inst = core.instructions[core.number[row]]
        assert each.name == inst.mnemonic and each.arguments["cause"] == core.cause_of(row).name
        assert each.arguments["line"] == f"tests/profiling/kernels.py:{inst.where.span.line}"
    matmul = next(each for each in decoded.slices if each.name == "nc_matmul")
    assert decoded.track_of(matmul) == "Tensor" and matmul.arguments["flops"] == 2 * 128 * 128 * 512
    assert matmul.arguments["opcode"] == "MATMUL"


def test_a_flow_has_two_ends_in_the_order_of_time(product, decoded):
    ends: dict[int, list[Slice]] = defaultdict(list)
    for each in decoded.slices:
        for flow in each.flows:
            ends[flow].append(each)
    assert ends
    assert {len(each) for each in ends.values()} == {2}
    for first, second in ends.values():
        earlier, later = sorted((first, second), key=lambda each: each.begin)
        assert earlier.end <= later.begin + 1  # each time is rounded
        if earlier.arguments["id"] == later.arguments["id"]:
            assert decoded.track_of(later).startswith("DMA queue") and "descriptors" in decoded.track_of(earlier)
    waiting = sum(1 for core in product.cores for cause in core.cause.tolist() if cause in (2, 3, 4))
    transfers = sum(size.count for size in product.transfers)
    assert len(ends) == waiting + transfers


def test_counters(product, decoded):
    sbuf = next(use for use in product.memory if use.memory == "sbuf")
    assert decoded.counter("SBUF per partition") == [
        (round(time), used) for time, used in zip(sbuf.times, sbuf.used, strict=True)
    ]
    assert max(used for _, used in decoded.counter("PSUM per partition")) == product.peak_memory["psum"]
    bandwidth = decoded.counter("HBM")
    moved = sum(rate * (later - time) for (time, rate), (later, _) in itertools.pairwise(bandwidth))
    assert moved == pytest.approx(product.hbm_bytes, rel=1e-3)
    clocks = {clock for _, clock in decoded.counter("Tensor clock")}
    assert all(1.2 - 1e-9 <= clock <= 2.4 + 1e-9 for clock in clocks)  # trn2 runs at half or at full rate
    assert min(clocks) == pytest.approx(1.2)


def test_cores_are_processes(halves):
    decoded = DecodedTrace(trace(halves))
    assert [name.partition(":")[0] for name in decoded.processes.values()] == ["core 0", "core 1"]
    assert any(each.name == "core_barrier" for each in decoded.slices)


def test_static_descriptors_have_no_trigger():
    profile = nki.profile(nki.jit(kernels.static_copy), target="trn2")(nki.ShapeDtype((128, 512), "float32"))
    decoded = DecodedTrace(trace(profile))
    assert {decoded.track_of(each) for each in decoded.slices} == {"DMA queue 0", "DMA queue 1"}


def test_loops_say_how_many_iterations_a_slice_stands_for(loop):
    slices = DecodedTrace(trace(loop)).slices
    counted = sum(each.arguments.get("executions", 1) for each in slices if each.name == "tensor_tensor")
    assert counted == 200


def test_files(product, tmp_path, monkeypatch):
    path = product.to_trace(tmp_path / "kernel.pftrace")
    assert path.read_bytes() == trace(product)
    with pytest.raises(ProfileFileError, match="No such file or directory"):
        product.to_trace(tmp_path / "none" / "kernel.pftrace")
    monkeypatch.setitem(sys.modules, "perfetto.trace_builder.proto_builder", None)
    with pytest.raises(MissingPackageError, match="to_trace needs the package perfetto") as caught:
        product.to_trace(path)
    assert "pip install perfetto" in caught.value.fix


def first(message, kind):
    return next(packet for packet in message.packet if packet.track_event.type == kind)


def late_begin(message):
    first(message, TrackEvent.TYPE_SLICE_BEGIN).timestamp += 1 << 40


def no_end(message):
    message.packet.remove(first(message, TrackEvent.TYPE_SLICE_END))


def no_track(message):
    message.packet.remove(next(packet for packet in message.packet if packet.track_descriptor.parent_uuid))


def another_end_of_a_flow(message):
    flows = next(packet.track_event.flow_ids for packet in message.packet if packet.track_event.flow_ids)
    first(message, TrackEvent.TYPE_SLICE_BEGIN).track_event.flow_ids.extend(flows)


def number_for_a_name(message):
    event = first(message, TrackEvent.TYPE_SLICE_BEGIN).track_event
    event.name_iid = 7


def other_clock(message):
    first(message, TrackEvent.TYPE_COUNTER).timestamp_clock_id = 64


def memory_that_stays(message):
    last = [packet for packet in message.packet if packet.track_event.type == TrackEvent.TYPE_COUNTER]
    tracks = {p.track_descriptor.uuid for p in message.packet if p.track_descriptor.name == "SBUF per partition"}
    [each for each in last if each.track_event.track_uuid in tracks][-1].track_event.double_counter_value = 4.0


def another_sequence(message):
    message.packet.append(
        TracePacket(trusted_packet_sequence_id=2, track_descriptor=message.packet[0].track_descriptor)
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (late_begin, "goes back from"),
        (no_end, "overlap at"),
        (no_track, "which nothing describes"),
        (another_end_of_a_flow, "has 3 ends"),
        (number_for_a_name, "without names in words"),
        (other_clock, "a clock of its own"),
        (memory_that_stays, "ends at 4.0"),
        (another_sequence, "2 sequences"),
    ],
)
def test_the_reader_notices_what_is_wrong(product, change, words):
    message = Trace()
    message.ParseFromString(trace(product))
    change(message)
    assert any(words in error for error in DecodedTrace(message.SerializeToString()).errors)


def test_pieces_of_a_trace_are_the_trace(product, monkeypatch):
    """The writer serialises packets in pieces; where it cuts them does not show."""
    whole = trace(product)
    monkeypatch.setattr("nki.profiling.trace._PIECE", 7)
    assert trace(product) == whole
