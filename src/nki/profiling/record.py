"""A profile as a record: the fields of its summary, and everything else that its text and its page show.

Times are seconds, as in the summary. The events themselves, and memory over time, are in the Parquet tables and in the
trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NotRequired, TypedDict

from nki.base.source import Place, Span, source_line
from nki.profiling import text
from nki.profiling.against.calibration import calibrated_facts
from nki.profiling.against.report import AgainstRecord
from nki.profiling.callers import call_text
from nki.profiling.latency_parts import STEPS, latency_parts, longest_steps
from nki.profiling.metrics import Cost, MemoryUse

if TYPE_CHECKING:
    from nki.profiling.kernel_profile import Comparison, Profile


class Call(Place):
    """A call in a kernel."""

    column: Annotated[int, "the first column of the call, in characters from 1"]
    code: Annotated[str, "the text of the call; empty if its file cannot be shown"]


class Costs(TypedDict):
    """The cost of a line, a call or a kind of instruction."""

    critical: Annotated[float, "its part of the critical path; s"]
    busy: Annotated[
        float, "the times of its executions on their engines, added up, so that parallel ones count twice; s"
    ]
    hbm_bytes: Annotated[int, "bytes to and from HBM"]
    executions: Annotated[int, "executed instructions"]
    engines: Annotated[dict[str, float], "`busy` by engine; s"]


class Caller(Costs):
    """The cost of a line when these calls lead to it."""

    calls: Annotated[list[Call], "the calls, outermost first"]


class LineCost(Costs):
    """The cost of a source line."""

    file: Annotated[str | None, "the path; null for instructions without a line"]
    line: Annotated[int | None, "from 1"]
    code: Annotated[str, "the text of the line; empty if its file cannot be shown"]
    callers: Annotated[list[Caller], "by call, if the line is in a function that several calls reach; else empty"]


class CallCost(Costs):
    """The cost of a call of another function, with all that happens in it."""

    call: Annotated[Call, "the call"]


class MnemonicCost(Costs):
    """The cost of all instructions of one kind."""

    instruction: Annotated[str, "the mnemonic"]


class EngineTimes(TypedDict):
    """The time of one engine of one core; busy, stalled and idle are the whole."""

    core: Annotated[int, "from 0"]
    engine: Annotated[str, "`tensor`, `vector`, `scalar`, `gpsimd`, `sync`, or `dma`: all DMA engines"]
    busy: Annotated[float, "the time in which it works; s"]
    stalled: Annotated[float, "the time between its instructions; s"]
    idle: Annotated[float, "the time before its first and behind its last instruction; s"]
    throttled: Annotated[float, "the part of `busy` that a slower clock costs; s"]
    instructions: Annotated[int, "executed instructions"]


class Stall(TypedDict):
    """Time in which an engine stands still between two of its instructions."""

    core: Annotated[int, "from 0"]
    engine: Annotated[str, "the engine"]
    cause: Annotated[str, "the reason, as in the text: `waits for dma`, `activation table`, …"]
    seconds: Annotated[float, "the time; s"]
    longest: Annotated[Place | None, "the line of the instruction that waited longest"]


class Transfers(TypedDict):
    """The DMA transfers of one class of sizes."""

    up_to: Annotated[int, "the largest size; bytes"]
    count: Annotated[int, "transfers"]
    bytes: Annotated[int, "all their bytes"]
    busy: Annotated[float, "the times of their data, added up; s"]


class Memory(TypedDict):
    """The most memory in use at one time on one core."""

    core: Annotated[int, "from 0"]
    memory: Annotated[str, "`sbuf` or `psum`"]
    peak: Annotated[int, "bytes per partition"]
    available: Annotated[int, "what a kernel can use; bytes per partition"]
    seconds: Annotated[float, "the time at which the peak is reached; s from the first instruction"]


class Part(TypedDict):
    """A part of the latency."""

    part: Annotated[str, "`launch`, an engine on the critical path, or `between steps`"]
    seconds: Annotated[float, "s"]


class PathStep(TypedDict):
    """A stretch of the critical path."""

    core: Annotated[int, "from 0"]
    queue: Annotated[str, "the queue of the instruction"]
    instruction: Annotated[str, "the mnemonic"]
    begin: Annotated[float, "s from the first instruction"]
    seconds: Annotated[float, "its part of the path, in all iterations; s"]
    iterations: Annotated[int, "iterations of a loop for which it stands"]
    file: Annotated[str | None, "the path"]
    line: Annotated[int | None, "from 1"]


class AdviceRecord(TypedDict):
    """A change of the kernel that the model expects to be worth it."""

    title: Annotated[str, "what is wrong, in a few words"]
    evidence: Annotated[str, "what the profile shows"]
    remedy: Annotated[str, "what to do"]
    seconds: Annotated[float, "what the change gains alone; s"]
    at_most: Annotated[bool, "true if `seconds` is a bound, and the gain may be less"]
    condition: Annotated[str, "the assumption aside under which it gains anything; empty: none"]
    lines: Annotated[list[Place], "the lines that it is about"]


class IntervalEnd(TypedDict):
    """The latency in one reading of what is not known exactly."""

    facts: Annotated[str, "`fast` or `slow`: the end of their ranges at which all guesses about the hardware are"]
    program: Annotated[str, "which of the programs that a compiler may make"]
    seconds: Annotated[float, "the latency; s"]


class AssumptionRecord(TypedDict):
    """An assumption about another compiler."""

    name: Annotated[str, "such as `order` or `loads left out`"]
    end: Annotated[str, "`fast` or `slow`: the end of the interval that it moves; `aside`: in no interval"]
    about: Annotated[str, "what it is about, as the text says it"]
    instructions: Annotated[int, "the instructions that it is about"]
    bytes: Annotated[int, "of the loads among them"]
    seconds: Annotated[float, "its worth: what it adds to the interval, or, aside, to the latency; s"]
    part: Annotated[float, "the same as a part of the end before it, or of the latency; of 1"]


class Interval(TypedDict):
    """The range of the latency, and the reasons for it."""

    least: Annotated[float, "s"]
    most: Annotated[float, "s"]
    guesses: Annotated[list[str], "the facts of the target that are no certain numbers (docs/reference/targets.md)"]
    ends: Annotated[list[IntervalEnd], "the readings; least and most of their latencies"]
    assumptions: Annotated[
        list[AssumptionRecord], "what another compiler may do; each holds those before it of the same end"
    ]


class Difference(TypedDict):
    """A measure of two sessions."""

    measure: Annotated[str, "its name in the text"]
    first: Annotated[float, "of the session `to`; s, bytes, or a part of 1"]
    second: Annotated[float, "of this session"]


class LineDifference(Place):
    """A line that both sessions have."""

    critical: Annotated[float, "what it takes more of the critical path here than in `to`; s"]


class ComparisonRecord(TypedDict):
    """A session beside the first one."""

    to: Annotated[str, "the title of the first session"]
    speedup: Annotated[float, "how many times as fast this session is"]
    faster: Annotated[float | None, "the part of draws of all guesses in which it is faster; null: a what-if"]
    draws: Annotated[int | None, "the number of these draws; null: a what-if"]
    is_tie: Annotated[bool | None, "true if neither is faster in nine of ten; null: a what-if"]
    differences: Annotated[list[Difference], "measures of both"]
    lines: Annotated[list[LineDifference], "lines that both have and that changed, the greatest change first"]


class CalibratedFactRecord(TypedDict):
    """A fact of the target that a capture has calibrated (`--facts`)."""

    name: Annotated[str, "the fact"]
    value: Annotated[float, "its value in this prediction"]
    unit: Annotated[str, "of the value"]
    source: Annotated[str, "the file, and the capture that it comes from"]


class Details(TypedDict):
    """The fields of a session beside the summary's."""

    instructions: Annotated[int, "executed instructions on all cores"]
    cores: Annotated[int, "cores of the launch"]
    order: Annotated[str, "the order of each queue: `list`, of the list scheduler, or `program`"]
    peak_flops: Annotated[float, "operations per second of the Tensor engines, in the modes of these products"]
    peak_bandwidth: Annotated[float, "bytes per second that the DMA engines sustain in loads"]
    interval: Annotated[Interval, "the range of the latency"]
    parts: Annotated[list[Part], "of what the latency consists"]
    engines: Annotated[list[EngineTimes], "the time of each engine"]
    stalls: Annotated[list[Stall], "the time that engines stand still, by cause"]
    lines: Annotated[list[LineCost], "every source line that has instructions, the greatest part of the path first"]
    calls: Annotated[list[CallCost], "every call in the kernel, likewise"]
    by_instruction: Annotated[list[MnemonicCost], "kinds of instructions, likewise"]
    steps: Annotated[list[PathStep], f"the {STEPS} longest steps of the critical path"]
    transfers: Annotated[list[Transfers], "DMA transfers by size"]
    memory: Annotated[list[Memory], "the most memory in use"]
    advice: Annotated[list[AdviceRecord], "changes that are worth it, the most valuable first"]
    what_if: NotRequired[Annotated[dict[str, float], "the numbers of `--what-if`, by name"]]
    calibrated: NotRequired[Annotated[list[CalibratedFactRecord], "facts from the file of `--facts` or `NKI_FACTS`"]]
    against: NotRequired[Annotated[AgainstRecord, "the capture of `--against` beside it"]]
    comparison: NotRequired[Annotated[ComparisonRecord, "beside the first session, with `--compare` and `--what-if`"]]


def details(profile: Profile) -> Details:
    """``profile`` as a record, without the fields of its summary."""
    record: Details = {
        "instructions": profile.instructions,
        "cores": len(profile.cores),
        "order": profile.queues,
        "peak_flops": profile.peak_flops,
        "peak_bandwidth": profile.peak_bandwidth,
        "interval": _interval(profile),
        "parts": [{"part": name, "seconds": ns * 1e-9} for name, ns in latency_parts(profile)],
        "engines": _engines(profile),
        "stalls": _stalls(profile),
        "lines": _lines(profile),
        "calls": [{"call": _call(call), **_costs(cost)} for call, cost in profile.callers.of_call.items()],
        "by_instruction": [{"instruction": name, **_costs(cost)} for name, cost in profile.by_instruction.items()],
        "steps": _steps(profile),
        "transfers": [
            {"up_to": each.up_to, "count": each.count, "bytes": each.bytes, "busy": each.busy * 1e-9}
            for each in profile.transfers
        ],
        "memory": [_memory(use, profile) for use in profile.memory],
        "advice": [
            {
                "title": each.title,
                "evidence": each.evidence,
                "remedy": each.remedy,
                "seconds": each.seconds,
                "at_most": each.at_most,
                "condition": each.condition,
                "lines": [span.place for span in each.lines],
            }
            for each in profile.advice
        ],
    }
    if facts := calibrated_facts(profile.target):
        record["calibrated"] = [
            {"name": name, "value": fact.value, "unit": fact.unit, "source": fact.source}
            for name, fact in facts.items()
        ]
    if profile.origin.changes:
        record["what_if"] = dict(profile.origin.changes)
    return record


def comparison(compared: Comparison, to: str) -> ComparisonRecord:
    """The second profile beside the first one, which has the title ``to``."""
    return {
        "to": to,
        "speedup": compared.speedup,
        "faster": None if compared.ranking is None else compared.ranking.faster,
        "draws": None if compared.ranking is None else compared.ranking.count,
        "is_tie": None if compared.ranking is None else compared.ranking.is_tie,
        "differences": [
            {"measure": name, "first": a, "second": b} for name, a, b in text.measures(compared.first, compared.second)
        ],
        "lines": [{**span.place, "critical": ns * 1e-9} for span, ns in compared.changed_lines if span],
    }


def _interval(profile: Profile) -> Interval:
    return {
        "least": profile.interval[0],
        "most": profile.interval[1],
        "guesses": [name for name, fact in profile.target.facts().items() if fact.range is not None],
        "ends": [{"facts": end.facts, "program": end.program, "seconds": seconds} for end, seconds in profile.readings],
        "assumptions": [
            {
                "name": each.name,
                "end": each.end,
                "about": each.about,
                "instructions": each.instructions,
                "bytes": each.bytes,
                "seconds": seconds,
                "part": part,
            }
            for each, seconds, part in profile.worths
        ],
    }


def _engines(profile: Profile) -> list[EngineTimes]:
    return [
        {
            "core": use.core,
            "engine": use.engine,
            "busy": use.busy * 1e-9,
            "stalled": use.stalled * 1e-9,
            "idle": use.idle * 1e-9,
            "throttled": use.throttled * 1e-9,
            "instructions": use.instructions,
        }
        for use in profile.engines
    ]


def _stalls(profile: Profile) -> list[Stall]:
    result: list[Stall] = []
    for use in profile.engines:
        core = profile.cores[use.core]
        for cause, ns in use.causes:
            row = use.longest.get(cause)
            span = core.span(int(core.number[row])) if row is not None else None
            longest = span.place if span is not None else None
            result.append(
                {"core": use.core, "engine": use.engine, "cause": cause, "seconds": ns * 1e-9, "longest": longest}
            )
    return result


def _lines(profile: Profile) -> list[LineCost]:
    result: list[LineCost] = []
    for span, cost in profile.lines.items():
        paths = profile.callers.of_line.get(span, {}) if span is not None else {}
        callers: list[Caller] = [{"calls": list(map(_call, calls)), **_costs(each)} for calls, each in paths.items()]
        result.append(
            {
                "file": span.file if span else None,
                "line": span.line if span else None,
                "code": source_line(span.file, span.line).strip() if span else "",
                **_costs(cost),
                "callers": callers,
            }
        )
    return result


def _steps(profile: Profile) -> list[PathStep]:
    return [
        {
            "core": each.step.core,
            "queue": each.queue,
            "instruction": each.mnemonic,
            "begin": each.step.begin * 1e-9,
            "seconds": each.step.ns * 1e-9,
            "iterations": each.iterations,
            "file": each.span.file if each.span else None,
            "line": each.span.line if each.span else None,
        }
        for each in longest_steps(profile)
    ]


def _memory(use: MemoryUse, profile: Profile) -> Memory:
    peak = use.peak
    return {
        "core": use.core,
        "memory": use.memory,
        "peak": peak,
        "available": profile.available_memory[use.memory],
        "seconds": use.times[use.used.index(peak)] * 1e-9 if use.used else 0.0,
    }


def _costs(cost: Cost) -> Costs:
    return {
        "critical": cost.critical * 1e-9,
        "busy": cost.busy * 1e-9,
        "hbm_bytes": cost.hbm_bytes,
        "executions": cost.executions,
        "engines": {engine: ns * 1e-9 for engine, ns in cost.engines.items()},
    }


def _call(call: Span) -> Call:
    return {"file": call.file, "line": call.line, "column": call.column + 1, "code": call_text(call)}
