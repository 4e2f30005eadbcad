"""Perfetto trace of a profile, written with the package ``perfetto``.

A process is a core. Its tracks are the engines, the generators of DMA descriptors, the DMA queues with the data that
moves, and counters: bytes per partition in SBUF and PSUM, GB/s to and from HBM, the clock of the Tensor engine. A flow
leads from an instruction to one that waited for its semaphore, from the trigger of a DMA to its data, and from the
core that comes last to a meeting to one that waited there. Times are whole ns from the beginning of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from nki.base.profile_errors import ProfileFileError
from nki.base.terms import Cause
from nki.ir.estimate import Dma, Matmul
from nki.profiling.amounts import place
from nki.profiling.engine_rows import TITLES
from nki.profiling.metrics import engine_of
from nki.profiling.packages import needed
from nki.profiling.parquet_events import CoreRows, Rows, operands
from nki.profiling.parquet_samples import throughput
from nki.profiling.predicted_run import PredictedRun
from nki.profiling.summary import SOURCE

_SEQUENCE: Final = 1
_PIECE: Final = 4096
"""Packets that are serialised at once: as messages of the package, all packets of a large kernel take ten times the
memory of the trace."""
_Arguments = tuple[tuple[str, Any], ...]
_DATA_FLOW: Final = 1 << 32
"""Flows from triggers to data have identifiers from here on; flows of semaphores are below."""
_MEETING_FLOW: Final = 1 << 33
"""Flows from core to core have identifiers from here on."""


def write(profile: PredictedRun, path: Path) -> Path:
    """Write the trace to ``path``.

    Raises :class:`MissingPackageError` without ``perfetto``, :class:`ProfileFileError` if the file cannot be written.
    """
    return write_pieces(_pieces(profile), path)


def write_pieces(pieces: Iterable[bytes], path: Path) -> Path:
    """Write the pieces of a trace to ``path``, which is the result; raises :class:`ProfileFileError` if it cannot."""
    try:
        with path.open("wb") as file:
            file.writelines(pieces)
    except OSError as error:
        raise ProfileFileError(f"{path}: {error.strerror or error}", fix="choose a file that can be written") from None
    return path


def trace(profile: PredictedRun) -> bytes:
    """The trace as a serialised ``perfetto.protos.Trace``."""
    return b"".join(_pieces(profile))


def _pieces(profile: PredictedRun) -> list[bytes]:
    """The trace in pieces that are serialised traces; one behind the other they are the whole."""
    writer = new_writer()
    write_kernel(writer, profile)
    return writer.serialized()


def new_writer() -> Writer:
    """A writer of a trace. Raises :class:`MissingPackageError` without ``perfetto``."""
    builder = needed("perfetto.trace_builder.proto_builder", "perfetto", "to_trace").TraceProtoBuilder
    protos = needed("perfetto.protos.perfetto.trace.perfetto_trace_pb2", "perfetto", "to_trace")
    return Writer(builder, protos.TracePacket, protos.TrackEvent)


def write_kernel(writer: Writer, profile: PredictedRun) -> None:
    """The tracks of all cores of a kernel."""
    for core in Rows.of(profile).cores:
        CoreTracks(writer, core).write()


@dataclass
class Slice:
    """An event on a track: its name, begin and end in ns, arguments, and the flows that it belongs to.

    ``common`` are arguments that many slices share, so that their messages are made once.
    """

    name: str
    begin: float
    end: float
    common: _Arguments
    arguments: dict[str, Any]
    flows: Sequence[int] = ()


class Writer:
    """Packets of one trace. Slices and samples of a track come in the order of their times.

    ``begin`` in ns is added to all times, ``first_flow`` to the identifiers of flows, ``first_process`` to the numbers
    of processes, so that several kernels have room in one trace.
    """

    def __init__(self, builder: Callable[[], Any], packet: Callable[[], Any], event: Any) -> None:
        self.new_builder = builder
        self.new_packet = packet
        self.event = event
        self.tracks = 0
        self.begin, self.first_flow, self.first_process = 0.0, 0, 0
        self.builder = builder()
        self.packets = 0
        """Packets in ``builder``."""
        self.pieces: list[bytes] = []
        self.starts: dict[tuple[int, str, _Arguments], bytes] = {}
        """The serialised packet with which slices of a track begin, by name and common arguments."""

    def serialized(self) -> list[bytes]:
        """The trace in pieces; the writer is empty then."""
        self._cut()
        pieces, self.pieces = self.pieces, []
        return pieces

    def _cut(self) -> None:
        self.pieces.append(self.builder.serialize())
        self.builder, self.packets = self.new_builder(), 0

    def process(self, number: int, name: str) -> int:
        """A track for a core; its identifier."""
        descriptor = self._track(name)
        descriptor.process.pid = self.first_process + number
        descriptor.process.process_name = name
        return self.tracks

    def track(self, name: str, parent: int) -> int:
        """A track for slices; its identifier."""
        self._track(name).parent_uuid = parent
        return self.tracks

    def counter(self, name: str, unit: str, parent: int, samples: Iterable[tuple[float, float]]) -> None:
        """A track for a counter with its samples."""
        descriptor = self._track(name)
        descriptor.parent_uuid = parent
        descriptor.counter.unit_name = unit
        kind = self._event(self.event.TYPE_COUNTER, self.tracks)
        for time, value in samples:
            self._packet(kind, time).track_event.double_counter_value = value

    def slices(self, track: int, slices: Iterable[Slice]) -> None:
        """Write slices of one track that do not overlap."""
        starts, stop = self.starts, self._event(self.event.TYPE_SLICE_END, track)
        for each in slices:
            key = track, each.name, each.common
            start = starts.get(key)
            if start is None:
                start = starts[key] = self._event(self.event.TYPE_SLICE_BEGIN, track, each.name, each.common)
            event = self._packet(start, each.begin).track_event
            if each.flows:
                event.flow_ids.extend([self.first_flow + flow for flow in each.flows])
            _annotate(event, each.arguments.items())
            self._packet(stop, each.end)

    def _track(self, name: str) -> Any:
        self.tracks += 1
        packet = self._add()
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.track_descriptor.uuid = self.tracks
        packet.track_descriptor.name = name
        return packet.track_descriptor

    def _event(self, kind: int, track: int, name: str = "", arguments: _Arguments = ()) -> bytes:
        """A serialised packet with all that events of a kind have in common."""
        packet = self.new_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        event = packet.track_event
        event.type = kind
        event.track_uuid = track
        if name:
            event.name = name
        _annotate(event, arguments)
        data: bytes = packet.SerializeToString()
        return data

    def _packet(self, kind: bytes, time: float) -> Any:
        """A packet of the trace that begins as ``kind``."""
        packet = self._add()
        packet.MergeFromString(kind)
        packet.timestamp = round(self.begin + time)
        return packet

    def _add(self) -> Any:
        if self.packets == _PIECE:
            self._cut()
        self.packets += 1
        return self.builder.add_packet()


def _annotate(event: Any, arguments: Iterable[tuple[str, Any]]) -> None:
    add = event.debug_annotations.add
    for name, value in arguments:
        annotation = add()
        annotation.name = name
        if isinstance(value, int):
            annotation.int_value = value
        elif isinstance(value, float):
            annotation.double_value = value
        else:
            annotation.string_value = value


class CoreTracks:
    """The tracks of one core."""

    def __init__(self, writer: Writer, rows: CoreRows) -> None:
        self.writer = writer
        self.rows = rows
        self.profile = rows.whole.profile
        self.events = rows.events
        self.transfers = rows.transfers.tolist()
        self.instructions, self.estimates = self.events.instructions, self.events.estimates
        self.numbers: list[int] = self.events.number.tolist()
        self.weights: list[int] = self.events.weight.tolist()
        self.causes: list[int] = self.events.cause.tolist()
        self.gaps: list[float] = rows.gaps.tolist()
        self.generators = [e.dge if isinstance(e := self.estimates[number], Dma) else "" for number in self.numbers]
        self.places = {span: place(span) for span in {inst.where.span for inst in self.instructions}}
        self.flows = self._flows()

    def write(self) -> None:
        """Write all tracks."""
        profile, events, writer = self.profile, self.events, self.writer
        title = f"core {events.rank}: {profile.name} on {profile.target} ({SOURCE})"
        process = writer.process(events.rank + 1, title)
        is_dma = events.is_dma
        for queue, name in enumerate(events.queues):
            rows = np.flatnonzero((events.queue == queue) & ~is_dma).tolist()
            if rows:
                writer.slices(writer.track(TITLES[engine_of(name)], process), self._instructions(rows))
        triggers: dict[str, list[int]] = {}
        for row in sorted(np.flatnonzero(is_dma).tolist(), key=lambda row: float(events.start[row])):
            triggers.setdefault(self.generators[row], []).append(row)
        triggers.pop("", None)  # static descriptors are there before the kernel begins
        for generator, rows in triggers.items():
            track = writer.track(f"{TITLES[generator]} DMA descriptors", process)
            writer.slices(track, self._instructions(rows))
        for queue, name in enumerate(events.queues):
            rows = np.flatnonzero((events.queue == queue) & is_dma).tolist()
            if rows:
                engine, _, ring = name.partition(".")
                title = f"DMA queue {ring}" if ring else TITLES[engine]
                writer.slices(writer.track(title, process), self._data(rows))
        self._counters(process)

    def _flows(self) -> dict[tuple[int, bool], list[int]]:
        """By row, and True for the data of a DMA or False for the instruction: the flows that begin or end there."""
        events = self.events
        flows: dict[tuple[int, bool], list[int]] = {}
        causes = (int(Cause.dependence), int(Cause.generator), int(Cause.chain))
        waiting = np.flatnonzero(np.isin(events.cause, causes) & (events.blocker >= 0))
        for row, blocker in zip(waiting.tolist(), events.blocker[waiting].tolist(), strict=True):
            gives_data = self.transfers[blocker] >= 0 and self.causes[row] != int(Cause.generator)
            number = self.rows.first + row + 1
            flows.setdefault((blocker, gives_data), []).append(number)
            flows.setdefault((row, self._is_static(row)), []).append(number)
        for row, transfer in enumerate(self.transfers):
            if transfer >= 0 and not self._is_static(row):
                flows.setdefault((row, False), []).append(_DATA_FLOW + transfer)
                flows.setdefault((row, True), []).append(_DATA_FLOW + transfer)
        for row, number in self._ends_of_meetings():
            flows.setdefault((row, self._is_static(row)), []).append(number)
        return flows

    def _ends_of_meetings(self) -> Iterator[tuple[int, int]]:
        """The rows of this core that waited for another one or let it go on, each with the flow."""
        for each in self.rows.whole.cores:
            for row, meeting in each.events.waiting_meetings():
                flow = _MEETING_FLOW + each.first + row
                if each.events.rank == self.events.rank:
                    yield row, flow
                if meeting.last.core == self.events.rank:
                    yield meeting.last.record, flow

    def _is_static(self, row: int) -> bool:
        """True for a DMA without a trigger that takes time on an engine."""
        return self.transfers[row] >= 0 and not self.generators[row]

    def _instructions(self, rows: Sequence[int]) -> Iterator[Slice]:
        starts, releases = self.events.start.tolist(), self.events.release.tolist()
        for row in rows:
            flows = self.flows.get((row, False), ())
            yield self._slice(row, starts[row], releases[row], flows)

    def _data(self, rows: Sequence[int]) -> Iterator[Slice]:
        """The data of a ring, where transfers complete in order; slices of a track cannot overlap as they can."""
        starts, ends = self.events.data_start.tolist(), self.events.data_end.tolist()
        last = 0.0
        for row in rows:
            begin, last = max(starts[row], last), ends[row]
            flows = self.flows.get((row, True), ())
            each = self._slice(row, begin, last, flows)
            if isinstance(estimate := self.estimates[self.numbers[row]], Dma):
                each.arguments["bytes"] = estimate.bytes
            yield each

    def _slice(self, row: int, begin: float, end: float, flows: Sequence[int]) -> Slice:
        number = self.numbers[row]
        inst, estimate = self.instructions[number], self.estimates[number]
        common: _Arguments = (
            ("line", self.places[inst.where.span]),
            ("cause", Cause(self.causes[row]).name),
            ("opcode", self.rows.opcodes[number]),
        )
        if isinstance(estimate, Matmul) and estimate.flops:
            common = (*common, ("flops", estimate.flops))
        arguments: dict[str, Any] = {
            "waited_ns": self.gaps[row],
            "operands": operands(inst, estimate),
            "id": self.rows.first + row,
        }
        if self.weights[row] > 1:
            arguments["executions"] = self.weights[row]
        return Slice(inst.mnemonic, begin, end, common, arguments, flows)

    def _counters(self, process: int) -> None:
        events, writer = self.events, self.writer
        for use in self.profile.memory:
            if use.core == events.rank and use.times:
                samples = zip(use.times, use.used, strict=True)
                writer.counter(f"{use.memory.upper()} per partition", "bytes", process, samples)
        times, rates = throughput(events)
        if len(times):
            writer.counter("HBM", "GB/s", process, zip(times.tolist(), rates.tolist(), strict=True))
        clock = list(self._clock())
        if clock:
            writer.counter("Tensor clock", "GHz", process, clock)

    def _clock(self) -> Iterator[tuple[float, float]]:
        """The mean clock of the Tensor engine in each of its instructions, where it changes."""
        events, full = self.events, self.profile.target.tensor_clock_ghz
        last = None
        for row in self.rows.rows("tensor").tolist():
            clock = full * float(events.clock[row])
            if last is None or abs(clock - last) > 1e-6 * full:
                yield float(events.start[row]), clock
            last = clock
