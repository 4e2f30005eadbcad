"""Perfetto traces as a reader of the format sees them, and what holds for all that the profiler writes.

The binary of Perfetto's own reader is not part of its Python package, so the package's messages are read here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent


@dataclass
class Slice:
    """A slice as it stands in the trace; times in whole ns."""

    track: int
    name: str
    begin: int
    end: int = -1
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    flows: list[int] = field(default_factory=list[int])


class DecodedTrace:
    """Tracks, slices and samples of a trace; ``errors`` has a sentence for each rule that it breaks."""

    def __init__(self, data: bytes) -> None:
        message = Trace()
        message.ParseFromString(data)
        self.errors: list[str] = []
        self.names: dict[int, str] = {}
        self.parents: dict[int, int] = {}
        self.units: dict[str, str] = {}
        self.processes: dict[int, str] = {}
        self.slices: list[Slice] = []
        self.samples: dict[int, list[tuple[int, float]]] = defaultdict(list)
        self._counters: set[int] = set()
        self._running: dict[int, Slice] = {}
        self._last: dict[int, int] = {}
        self._sequences: set[int] = set()
        self._pids: set[int] = set()
        for packet in message.packet:
            self._packet(packet)
        self.errors += [f"slice {each.name} on {self.names[each.track]} has no end" for each in self._running.values()]
        self.errors += [*self._flows(), *self._samples()]
        if len(self._sequences) > 1:
            self.errors.append(f"{len(self._sequences)} sequences of packets, whose order is not that of the file")

    def on(self, track: str) -> list[Slice]:
        """The slices of the tracks of that name."""
        return [each for each in self.slices if self.names[each.track] == track]

    def counter(self, name: str) -> list[tuple[int, float]]:
        """The samples of the counters of that name."""
        return [sample for track, samples in self.samples.items() if self.names[track] == name for sample in samples]

    def track_of(self, each: Slice) -> str:
        """The name of the track of a slice."""
        return self.names[each.track]

    def _packet(self, packet: TracePacket) -> None:
        if not packet.trusted_packet_sequence_id:
            self.errors.append("a packet without a sequence")
        self._sequences.add(packet.trusted_packet_sequence_id)
        if packet.timestamp_clock_id or packet.HasField("clock_snapshot"):
            self.errors.append("a clock of its own")
        if packet.HasField("interned_data"):
            self.errors.append("names of the trace's own, which no event refers to")
        if packet.HasField("track_descriptor"):
            self._track(packet.track_descriptor)
        elif packet.HasField("track_event"):
            self._event(packet.timestamp, packet.track_event)
        else:
            self.errors.append(f"a packet of another kind: {packet.WhichOneof('data')}")

    def _track(self, descriptor: Any) -> None:
        track = descriptor.uuid
        if not track or track in self.names or not descriptor.name:
            self.errors.append(f"track {track} is not new, or has no name")
        self.names[track] = descriptor.name
        if descriptor.HasField("process"):
            if not descriptor.process.pid or descriptor.process.pid in self._pids:
                self.errors.append(f"process {descriptor.process.pid} is not new")
            self._pids.add(descriptor.process.pid)
            self.processes[track] = descriptor.process.process_name
        elif descriptor.parent_uuid not in self.processes:
            self.errors.append(f"track {descriptor.name} is in no process")
        self.parents[track] = descriptor.parent_uuid
        if descriptor.HasField("counter"):
            self._counters.add(track)
            self.units[descriptor.name] = descriptor.counter.unit_name

    def _event(self, time: int, event: Any) -> None:
        track = event.track_uuid
        if track not in self.names:
            self.errors.append(f"an event on track {track}, which nothing describes before")
            return
        if time < self._last.get(track, 0):
            self.errors.append(f"{self.names[track]} goes back from {self._last[track]} to {time}")
        self._last[track] = time
        if (event.type == TrackEvent.TYPE_COUNTER) is not (track in self._counters):
            self.errors.append(f"{self.names[track]} mixes samples and slices")
        if event.type == TrackEvent.TYPE_COUNTER:
            self.samples[track].append((time, event.double_counter_value))
        elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
            if track in self._running:
                self.errors.append(f"slices on {self.names[track]} overlap at {time}")
            if not event.name or event.HasField("name_iid") or any(each.name_iid for each in event.debug_annotations):
                self.errors.append(f"a slice on {self.names[track]} without names in words")
            arguments = {each.name: getattr(each, each.WhichOneof("value")) for each in event.debug_annotations}
            self._running[track] = Slice(track, event.name, time, -1, arguments, list(event.flow_ids))
        elif event.type == TrackEvent.TYPE_SLICE_END and track in self._running:
            done = self._running.pop(track)
            done.end = time
            self.slices.append(done)
        else:
            self.errors.append(f"an end without a begin on {self.names[track]}, or another kind of event")

    def _flows(self) -> Iterator[str]:
        ends: dict[int, list[Slice]] = defaultdict(list)
        for each in self.slices:
            for flow in each.flows:
                ends[flow].append(each)
        for flow, slices in ends.items():
            if len(slices) != 2:
                yield f"flow {flow} has {len(slices)} ends"
            elif slices[0] is slices[1]:
                yield f"flow {flow} leads from a slice to itself"

    def _samples(self) -> Iterator[str]:
        for track, samples in self.samples.items():
            if not all(math.isfinite(value) and value >= 0 for _, value in samples):
                yield f"{self.names[track]} has a value that is negative or no number"
            if self.names[track].endswith("per partition") and samples[-1][1] != 0:
                yield f"{self.names[track]} ends at {samples[-1][1]}"
