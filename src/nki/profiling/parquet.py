"""Tables of a profile as Parquet files, under the names of the public profiler's schema.

Names: Neuron documentation, Profile Parquet Schema Reference (schema 7.4.0); ``bir_debug_info_source_location``, the
sizes of the array in ``Metadata``, and the words in ``source``, ``dest`` and ``operands``: public documents of agents
that query these tables. Times are whole nanoseconds from the beginning of the kernel, shares fractions. A column that
the model has no number for is left out. Three columns are ours: ``executions`` counts the iterations of a loop that a
row stands for, ``cause`` says why an instruction did not begin earlier, and ``source`` of ``Summary`` and ``Metadata``
is :data:`nki.profiling.summary.SOURCE`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from nki.base.profile_errors import ProfileFileError
from nki.base.version import version
from nki.profiling import parquet_events as events
from nki.profiling import parquet_samples as samples
from nki.profiling.packages import needed
from nki.profiling.parquet_events import Columns, Rows
from nki.profiling.predicted_run import PredictedRun
from nki.profiling.summary import SOURCE, summary

SCHEMA: Final = "7.4.0"
"""The release of the schema that names the tables."""


def write(profile: PredictedRun, folder: Path) -> list[Path]:
    """Write every table into ``folder``, which is made if it is not there; the files.

    Raises :class:`MissingPackageError` without ``pyarrow``, and :class:`ProfileFileError` if a file cannot be written.
    """
    pyarrow = needed("pyarrow", "pyarrow", "to_parquet")
    files = needed("pyarrow.parquet", "pyarrow", "to_parquet")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths: list[Path] = []
        for name, columns in tables(profile).items():
            paths.append(folder / f"{name}.parquet")
            files.write_table(pyarrow.table(dict(columns)), paths[-1])
    except OSError as error:
        raise ProfileFileError(
            f"{folder}: {error.strerror or error}", fix="choose a folder that can be written"
        ) from None
    return paths


def tables(profile: PredictedRun) -> dict[str, Columns]:
    """The columns of every table by its name."""
    rows = Rows.of(profile)
    return {name: columns(rows) for name, columns in TABLES.items()}


def _summary(rows: Rows) -> Columns:
    return {name: [value] for name, value in summary(rows.profile).items()}


def _metadata(rows: Rows) -> Columns:
    profile, target = rows.profile, rows.profile.target
    values: Mapping[str, Any] = {
        "source": SOURCE,
        "is_simulation": True,
        "profile_schema_version": SCHEMA,
        "open_nki_version": version(),
        "profile_name": profile.name,
        "instance_type": target.name,
        "num_physical_cores": len(profile.cores),
        "first_ts": 0,
        "last_ts": round(profile.timeline.ns),
        "dma_ddr_bandwidth": target.dma_engines * target.dma_engine_peak_gbps * 1e9,
        "num_dma_engines_per_neuroncore": target.dma_engines,
        "tensor_engine_num_rows": target.partitions,
        "tensor_engine_num_cols": target.matmul_stationary_free_max,
        "tensor_engine_clock_freq": target.tensor_clock_ghz,
        "vector_engine_clock_freq": target.vector_clock_ghz,
        "scalar_engine_clock_freq": target.scalar_clock_ghz,
        "gpsimd_engine_clock_freq": target.gpsimd_clock_ghz,
    }
    return {name: [value] for name, value in values.items()}


TABLES: Final[Mapping[str, Callable[[Rows], Columns]]] = {
    "Summary": _summary,
    "Metadata": _metadata,
    "Instruction": events.instructions,
    "DmaPacketAggregated": events.transfers,
    "DmaPacket": events.packets,
    "Flow": events.flows,
    "SemaphoreUpdate": events.semaphores,
    "CoreBarriers": events.barriers,
    "KernelInstructions": events.kernel_instructions,
    "KernelStackFrames": events.stack_frames,
    "OpcodeSummary": samples.opcodes,
    "ActiveTime": samples.active_times,
    "Throttle": samples.throttled,
    "SbufUsage": samples.sbuf_usage,
    "PsumUsage": samples.psum_usage,
    "HbmUsage": samples.hbm_usage,
    "SbufAllocation": samples.allocations,
    "TensorInfo": samples.tensors,
}
"""The tables, and the functions that fill them."""
