"""The Perfetto trace, read back with the package's own messages."""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

import nki
from nki.base.profile_errors import MissingPackageError, ProfileFileError
from nki.profiling.trace import trace
from tests.profiling import kernels


@dataclass
class Event:
    """A slice as it stands in the trace."""

    track: str
    name: str
    begin: int
    end: int = -1
    arguments: dict[str, Any] = field(default_factory=dict)
    flows: list[int] = field(default_factory=list)


def value(annotation: Any) -> Any:
    return getattr(annotation, annotation.WhichOneof("value"))


class Decoded:
    """Tracks, slices and samples of a trace; checks on the way that slices of a track end before the next begins."""

    def __init__(self, data: bytes) -> None:
        message = Trace()
        message.ParseFromString(data)
        self.names: dict[int, str] = {}
        self.parents: dict[int, int] = {}
        self.units: dict[str, str] = {}
        self.slices: list[Event] = []
        self.samples: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self.processes: list[str] = []
        running: dict[int, Event] = {}
        last: dict[int, int] = {}
        for packet in message.packet:
            assert packet.trusted_packet_sequence_id
            if packet.HasField("track_descriptor"):
                self._track(packet.track_descriptor)
                continue
            event = packet.track_event
            assert event.track_uuid in self.names, "a track is described before its events"
            assert packet.timestamp >= last.get(event.track_uuid, 0)
            last[event.track_uuid] = packet.timestamp
            name = self.names[event.track_uuid]
            if event.type == TrackEvent.TYPE_COUNTER:
                self.samples[name].append((packet.timestamp, event.double_counter_value))
            elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
                assert event.track_uuid not in running
                arguments = {each.name: value(each) for each in event.debug_annotations}
                running[event.track_uuid] = Event(
                    name, event.name, packet.timestamp, -1, arguments, list(event.flow_ids)
                )
            else:
                assert event.type == TrackEvent.TYPE_SLICE_END
                done = running.pop(event.track_uuid)
                done.end = packet.timestamp
                self.slices.append(done)
        assert not running

    def _track(self, descriptor: Any) -> None:
        assert descriptor.uuid not in self.names
        self.names[descriptor.uuid] = descriptor.name
        if descriptor.HasField("process"):
            self.processes.append(descriptor.process.process_name)
        else:
            assert descriptor.parent_uuid in self.names
        if descriptor.HasField("counter"):
            self.units[descriptor.name] = descriptor.counter.unit_name

    def on(self, track: str) -> list[Event]:
        return [each for each in self.slices if each.track == track]


@pytest.fixture(scope="session")
def decoded(product):
    return Decoded(trace(product))


def test_tracks(decoded):
    assert decoded.processes == ["core 0: product on trn2 (open-nki model)"]
    tracks = {each.track for each in decoded.slices}
    assert {"Tensor", "Vector", "Scalar", "Sync DMA descriptors", "DMA queue 0"} <= tracks
    assert decoded.units == {
        "SBUF per partition": "bytes",
        "PSUM per partition": "bytes",
        "HBM": "GB/s",
        "Tensor clock": "GHz",
    }


def test_each_instruction_is_there_once(product, decoded):
    engines = [each for each in decoded.slices if not each.track.startswith("DMA queue")]
    assert sorted(each.arguments["id"] for each in engines) == list(range(product.instructions))
    data = [each for each in decoded.slices if each.track.startswith("DMA queue")]
    assert len(data) == sum(size.count for size in product.transfers)
    assert sum(each.arguments["bytes"] for each in data) == sum(size.bytes for size in product.transfers)


def test_times_and_arguments(product, decoded):
    (core,) = product.cores
    for each in decoded.slices:
        row = each.arguments["id"]
        data = each.track.startswith("DMA queue")
        begin, end = (core.data_start, core.data_end) if data else (core.start, core.release)
        assert (each.begin, each.end) == (round(begin[row]), round(end[row]))
        inst = core.instructions[core.number[row]]
        assert each.name == inst.mnemonic and each.arguments["cause"] == core.cause_of(row).name
        assert each.arguments["line"] == f"tests/profiling/kernels.py:{inst.where.span.line}"
    matmul = next(each for each in decoded.slices if each.name == "nc_matmul")
    assert matmul.track == "Tensor" and matmul.arguments["flops"] == 2 * 128 * 128 * 512
    assert matmul.arguments["opcode"] == "MATMUL"


def test_a_flow_has_two_ends_in_the_order_of_time(product, decoded):
    ends: dict[int, list[Event]] = defaultdict(list)
    for each in decoded.slices:
        for flow in each.flows:
            ends[flow].append(each)
    assert ends
    assert {len(each) for each in ends.values()} == {2}
    for first, second in ends.values():
        earlier, later = sorted((first, second), key=lambda each: each.begin)
        assert earlier.end <= later.begin + 1  # each time is rounded
        if earlier.arguments["id"] == later.arguments["id"]:
            assert later.track.startswith("DMA queue") and "descriptors" in earlier.track
    waiting = sum(1 for core in product.cores for cause in core.cause.tolist() if cause in (2, 3, 4))
    transfers = sum(size.count for size in product.transfers)
    assert len(ends) == waiting + transfers


def test_counters(product, decoded):
    sbuf = next(use for use in product.memory if use.memory == "sbuf")
    assert decoded.samples["SBUF per partition"] == [
        (round(time), used) for time, used in zip(sbuf.times, sbuf.used, strict=True)
    ]
    assert max(used for _, used in decoded.samples["PSUM per partition"]) == product.peak_memory["psum"]
    bandwidth = decoded.samples["HBM"]
    moved = sum(rate * (later - time) for (time, rate), (later, _) in itertools.pairwise(bandwidth))
    assert moved == pytest.approx(product.hbm_bytes, rel=1e-3)
    clocks = {clock for _, clock in decoded.samples["Tensor clock"]}
    assert all(1.2 - 1e-9 <= clock <= 2.4 + 1e-9 for clock in clocks)  # trn2 runs at half or at full rate
    assert min(clocks) == pytest.approx(1.2)


def test_cores_are_processes(halves):
    decoded = Decoded(trace(halves))
    assert [name.partition(":")[0] for name in decoded.processes] == ["core 0", "core 1"]
    assert any(each.name == "core_barrier" for each in decoded.slices)


def test_static_descriptors_have_no_trigger():
    profile = nki.profile(nki.jit(kernels.static_copy), target="trn2")(nki.ShapeDtype((128, 512), "float32"))
    decoded = Decoded(trace(profile))
    assert {each.track for each in decoded.slices} == {"DMA queue 0", "DMA queue 1"}


def test_loops_say_how_many_iterations_a_slice_stands_for(loop):
    slices = Decoded(trace(loop)).slices
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
