"""Captures that the model writes under other facts, with scatter on the durations as a device has it."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nki.profiling.kernel_profile import Profile
from nki.profiling.summary import summary
from nki.sim.timing import Timeline

NOISE = 0.01
TIMED = ("Instruction", "DmaPacketAggregated")
WHOLE = ("total_time", "device_time", "capture_time", "launch_time")


def under(profile: Profile, facts: Mapping[str, float]) -> Profile:
    """The same program on hardware with other ``facts``."""
    own = profile.target
    values = {name: round(v) if isinstance(own.fact(name).value, int) else float(v) for name, v in facts.items()}
    target = own.with_values(values)
    return Profile(profile.program, target, profile.timed)


def write_tables(profile: Profile, folder: Path, seed: int = 0, noise: float = NOISE) -> Path:
    """The Parquet tables of ``profile``, each duration with its scatter."""
    drawn = np.random.default_rng(seed)
    profile.to_parquet(folder)
    for name in TIMED:
        columns = read_table(folder, name)
        lengths = columns["duration_ns"] * (1 + noise * drawn.standard_normal(len(columns["duration_ns"])))
        columns["duration_ns"] = np.rint(lengths).astype(np.int64)
        columns["end_ts"] = columns["start_ts"] + columns["duration_ns"]
        write_table(folder, name, columns)
    return folder


def read_table(folder: Path, name: str) -> dict[str, Any]:
    table = pq.read_table(folder / f"{name}.parquet")
    return {column: table[column].to_numpy(zero_copy_only=False) for column in table.column_names}


def write_table(folder: Path, name: str, columns: Mapping[str, Any]) -> None:
    pq.write_table(pa.table(dict(columns)), folder / f"{name}.parquet")


def write_summary(profile: Profile, file: Path, seed: int = 0, noise: float = NOISE) -> Path:
    """The summary of ``profile``, each sum of times with the scatter of a sum."""
    drawn = np.random.default_rng(seed)
    fields = summary(profile)
    for name in [name for name in fields if name.endswith("_time") and name not in WHOLE]:
        count = fields.get(f"{name.partition('_')[0]}_engine_instruction_count") or fields["dma_transfer_count"] or 1
        fields[name] *= 1 + noise / count**0.5 * drawn.standard_normal()
    file.write_text(json.dumps(fields))
    return file


def write(profile: Profile, form: str, folder: Path, seed: int = 0) -> Path:
    """A capture in one of both forms."""
    path = folder / f"{form}{seed}"
    return write_tables(profile, path, seed) if form == "parquet" else write_summary(profile, path, seed)


def drawn_facts(profile: Profile, count: int, draw: random.Random) -> dict[str, float]:
    """``count`` facts that the kernel shows, with other values: from 40 % of the way to one end of the range on."""
    chosen: dict[str, float] = {}
    ranged = [name for name, fact in profile.target.facts().items() if fact.range is not None]
    draw.shuffle(ranged)
    for name in ranged:
        fact = profile.target.fact(name)
        assert fact.range is not None
        if not isinstance(fact.value, int | float):
            continue
        end = draw.choice([end for end in fact.range if end != fact.value] or [fact.value])
        value = fact.value + (end - fact.value) * draw.uniform(0.4, 1.0)
        value = round(value) if isinstance(fact.value, int) else value
        if is_shown(profile, {name: value}):
            chosen[name] = float(value)
        if len(chosen) == count:
            break
    return chosen


def is_shown(profile: Profile, facts: Mapping[str, float]) -> bool:
    """Test if ``facts`` change the device's time by 1 % or the mean length of a kind of work by 5 %."""
    other = under(profile, facts)
    if abs(other.total_time / profile.total_time - 1) > 0.01:
        return True
    one, two = lengths(profile.timeline), lengths(other.timeline)
    return any(abs(two[key] / one[key] - 1) > 0.05 for key in one if one[key])


def lengths(timeline: Timeline) -> dict[tuple[int, int, bool], float]:
    """The times of all instructions, and of all data, of each queue."""
    sums: dict[tuple[int, int, bool], float] = {}
    for core in timeline.cores:
        replay = core.replay
        rows = zip(core.numbers, core.weights, replay.starts, replay.releases, replay.data, strict=True)
        for number, weight, start, release, (begin, end) in rows:
            for is_data, ns in ((False, release - start), (True, end - begin)):
                key = core.core.rank, core.queue_of[number], is_data
                sums[key] = sums.get(key, 0.0) + weight * ns
    return sums
