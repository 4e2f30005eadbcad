"""Time of the instructions of the Tensor, Vector, Scalar, GpSimd and Sync engines.

The cost entries of the NKI reference (Beta 1, release 2.26.1; later releases leave them out) count the cycles in which
an engine streams ``N`` elements per partition. Profiles add two terms: the issue overhead of every instruction, and the
depth of the engine's pipeline, which a dependent instruction sees. Declarations call the formulas with themselves as
``inst``, for the engine and the operands. Operands with neighbours far apart in memory take as long as the memory
needs for them (:func:`_access_ns`), which may be longer than the engine's own cycles.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from nki.cost.tensor_array import blocks
from nki.ir.estimate import Compute, Matmul
from nki.ir.instruction import Inst
from nki.ir.types import Access, Buffer, IndexKind
from nki.target.fact_rows import Kind
from nki.target.model import Target

REFERENCE: Final = "NKI reference of release 2.26.1, nki.isa."
"""Source of the cost entries; the name of an entry follows it."""
BUS: Final = "bus"
"""The way to memory that Vector and GpSimd have in common since trn2."""
_TILES: Final = (Buffer.sbuf, Buffer.psum)


def engine_of(inst: Inst) -> str:
    """Name of the engine that runs ``inst``: the one that it names, else the preferred one."""
    engine = inst.__dict__.get("engine")
    return engine.name if engine is not None and engine in inst.engines else inst.choices()[0].name


def clock_ghz(engine: str, target: Target) -> float:
    """Clock of the engine of that name; the sequencer ``sync`` is given Vector's."""
    clocks = {"tensor": target.tensor_clock_ghz, "scalar": target.scalar_clock_ghz, "gpsimd": target.gpsimd_clock_ghz}
    return clocks.get(engine, target.vector_clock_ghz)


def streaming(
    inst: Inst,
    target: Target,
    elements: float,
    entry: str,
    cycles_per_element: float = 1.0,
    extra: float = 0.0,
    origin: tuple[Kind, str] | None = None,
) -> Compute:
    """``max(MIN_II, cycles_per_element * elements + extra)`` cycles, by the reference's cost entry ``entry`` or of
    another ``origin``; more where the memory limits the rate.
    """
    cycles = cycles_per_element * elements
    access = _access_ns(inst, target) * clock_ghz(engine_of(inst), target)
    if access > cycles:
        kind, source = target.origin("strided_access_ns")
        return pipelined(inst, target, access + extra, kind, source)
    kind, source = origin or ("docs", REFERENCE + entry)
    return pipelined(inst, target, cycles + extra, kind, source)


def guessed(inst: Inst, target: Target, cycles: float, why: str) -> Compute:
    """At least MIN_II cycles, by a number that is not published."""
    return pipelined(inst, target, cycles * target.unpublished_cost, "guess", why)


def generated(inst: Inst, target: Target, elements: float, entry: str) -> Compute:
    """``150 + elements`` GpSimd cycles, by the reference's cost entry ``entry``; the 150 are the issue overhead."""
    return pipelined(inst, target, elements, "docs", REFERENCE + entry)


def raising(inst: Inst, target: Target) -> Compute:
    """Powers of the elements of a tile, on GpSimd."""
    elements = inst.writes()[0].free_elements
    return streaming(
        inst, target, elements, "", target.gpsimd_power_cycles, origin=target.origin("gpsimd_power_cycles")
    )


def pipelined(inst: Inst, target: Target, cycles: float, kind: Kind, source: str) -> Compute:
    """An instruction with data that takes ``cycles`` of its engine, with the issue overhead and latency of the engine.

    Vector and Scalar begin instructions at least MIN_II cycles apart; a short one is complete before that.
    """
    engine = engine_of(inst)
    least = target.min_interval_cycles
    if (offset := _offset_cycles(inst.accesses(), target)) > cycles:
        cycles = offset
        kind, source = target.origin("dynamic_offset_cycles")
    if engine == "vector":
        column = target.vector_column_operand_cycles if _has_column(inst) else 0
        issue, dependent = target.vector_issue_cycles + column, target.vector_dependent_cycles
        clock = target.vector_clock_ghz
        fill = target.vector_latency_ns + column / clock
    elif engine == "scalar":
        clock, fill = target.scalar_clock_ghz, target.scalar_latency_ns
        issue, dependent = target.scalar_issue_cycles, target.scalar_dependent_ns * clock
    elif engine == "gpsimd":
        least, clock = 0, target.gpsimd_clock_ghz
        issue, dependent = target.gpsimd_issue_cycles, 0
        fill = issue / clock
    else:
        clock, fill = clock_ghz(engine, target), 0.0
        least = issue = dependent = 0
    latency = cycles / clock + fill + target.semaphore_ns
    interval = (max(least, cycles) + issue) / clock
    chained = (cycles + issue + dependent) / clock - interval
    ports, ports_ns = _ports(inst, engine, cycles / clock, (interval, latency), target)
    streaming = min(interval, cycles / clock)
    return Compute(interval, latency, kind, source, engine, chained, "", ports, ports_ns, streaming)


def copying(inst: Inst, target: Target, elements: float, entry: str, most: float = 1.0) -> Compute:
    """An instruction that streams one tile, at the width of its engine for the operands, and in no more than ``most``
    cycles per element.
    """
    return streaming(inst, target, elements, entry, min(most, _cycles_per_element(inst, target)))


def combining(inst: Inst, target: Target, inputs: tuple[Access, Access], entry: str, *, simple: bool) -> Compute:
    """An instruction that streams two tiles: one cycle per element with a tile in PSUM, two with both there. In SBUF
    ``vector_two_narrow_tiles_cycles`` in performance mode, else ``vector_two_tiles_cycles``. GpSimd, 128 elements wide,
    reads the tiles one after the other.

    The mode needs both tiles in SBUF, and its dtypes everywhere. Before trn2 it needs ``simple`` operators and elements
    that lie side by side, too.
    """
    elements = inputs[0].free_elements
    if engine_of(inst) != "vector":
        return streaming(inst, target, elements, entry, 2.0)
    in_psum = sum(access.buffer is Buffer.psum for access in inputs)
    if in_psum:
        return streaming(inst, target, elements, entry, float(in_psum))
    fast = _has_performance_dtypes(inst, target)
    if fast and target.vector_width_16bit == target.vector_width_32bit:
        fast = simple and all(map(_dense, inputs))
    if fast:
        cycles, origin = target.vector_two_narrow_tiles_cycles, target.origin("vector_two_narrow_tiles_cycles")
    else:
        cycles, origin = target.vector_two_tiles_cycles, target.origin("vector_two_tiles_cycles")
    return streaming(inst, target, elements, entry, cycles, origin=origin)


def selecting_cycles(first: Access | None, second: Access, target: Target) -> tuple[float, tuple[Kind, str] | None]:
    """Vector cycles per element of an instruction that picks elements of a tile, or a number (None), by the
    elements of another: one if one of both is in PSUM and the other in SBUF, two if both are in SBUF (entry
    ``tensor_copy_predicated``), or what a wider engine needs for two tiles. With the origin of that last number.
    """
    if first is not None and (first.buffer is Buffer.psum) != (second.buffer is Buffer.psum):
        return 1.0, None
    cycles = target.vector_two_tiles_cycles
    return cycles, None if cycles == 2.0 else target.origin("vector_two_tiles_cycles")


def activation(
    inst: Inst, target: Target, elements: float, table: str, kind: Kind, source: str, *, reduces: bool = False
) -> Compute:
    """An activation function on Scalar that needs ``table`` (empty: any); ``reduces``: a second instruction reads the
    accumulator register out. One that needs no table and has no column as operand takes the time of a copy, as profiles
    show of the function ``copy``.
    """
    clock = target.scalar_clock_ghz
    access = _access_ns(inst, target) * clock
    if access > elements:
        elements = access
        kind, source = target.origin("strided_access_ns")
    if (offset := _offset_cycles(inst.accesses(), target)) > elements:
        elements = offset
        kind, source = target.origin("dynamic_offset_cycles")
    cycles = elements + (target.scalar_read_accumulator_cycles if reduces else 0)
    plain = not table and not _has_column(inst)
    issue = target.scalar_issue_cycles if plain else target.activation_issue_cycles
    fill = target.scalar_latency_ns if plain else target.activation_latency_ns
    interval = (max(target.min_interval_cycles, cycles) + issue) / clock
    latency = cycles / clock + fill + target.semaphore_ns
    ports, ports_ns = _ports(inst, "scalar", cycles / clock, (interval, latency), target)
    behind = latency - interval
    return Compute(interval, latency, kind, source, "scalar", behind, table, ports, ports_ns, cycles / clock)


def _cycles_per_element(inst: Inst, target: Target) -> float:
    """Cycles per element and partition of an instruction with one streamed operand.

    Vector reads several elements of a partition in one cycle from SBUF: as many as its width for their dtypes. It has
    half of that width where an operand is in PSUM or elements do not lie side by side, and none where both hold
    (Trainium2 Architecture Guide for NKI, Vector Engine Performance Mode). Scalar has one width for every memory.
    """
    engine = engine_of(inst)
    narrow = _has_performance_dtypes(inst, target)
    if engine == "vector":
        width = target.vector_width_16bit if narrow else target.vector_width_32bit
        operands = _streamed(inst)
        far = any(not _dense(access) for access in operands)
        width >>= far + sum(access.buffer is Buffer.psum for access in operands)
    elif engine == "scalar":
        width = target.scalar_width_16bit if narrow else target.scalar_width_32bit
    else:
        width = target.partitions
    return min(1.0, target.partitions / width)


def _streamed(inst: Inst) -> list[Access]:
    """The operands with several elements per partition."""
    return [access for access in inst.accesses() if access.free_elements > 1]


def _has_performance_dtypes(inst: Inst, target: Target) -> bool:
    return all(access.dtype in target.performance_dtypes for access in _streamed(inst))


def _access_ns(inst: Inst, target: Target) -> float:
    """Time that the memory needs for the operands of an instruction of a compute engine; 0 if no operand is strided.

    An engine has an interface for reads and one for writes to each memory. A stride of the last dimension beyond
    ``strided_access_bytes`` halves the rate of the operand's interface; other operands pass it at the full rate. The
    performance mode of Vector for 16-bit elements in SBUF doubles both (Trainium2 Architecture Guide for NKI: twice the
    rate of NeuronCore-v2 where elements are not contiguous).
    """
    if not any(_strided(access, target) for access in inst.accesses()):
        return 0.0
    times: dict[tuple[Buffer, bool], float] = {}
    written = inst.writes()
    for access in inst.accesses():
        if access.buffer.on_chip:
            interface = access.buffer, any(access is other for other in written)
            share = 1.0 if _strided(access, target) else 0.5
            times[interface] = times.get(interface, 0.0) + share * access.free_elements
    lift = 1.0
    if engine_of(inst) == "vector" and all(a.buffer is Buffer.sbuf and a.dtype.itemsize == 2 for a in inst.accesses()):
        lift = max(1.0, target.vector_width_16bit / 2 / target.partitions)
    return max(times.values()) * target.strided_access_ns / lift


def _strided(access: Access, target: Target) -> bool:
    """Test if neighbours along the last dimension that has several elements are further apart than the memory likes."""
    if not access.buffer.on_chip:
        return False
    steps = [stride for count, stride in zip(access.shape[1:], access.strides[1:], strict=True) if count > 1]
    return bool(steps) and abs(steps[-1]) * access.dtype.itemsize > target.strided_access_bytes


def float32_product(target: Target, *, halved: bool) -> tuple[int, int]:
    """Cycles of a column, and instructions, of a product of float32; ``halved`` of one that needs half of them."""
    part = 2 if halved else 1
    return target.matmul_fp32_factor // part, max(1, target.matmul_fp32_instructions // part)


def matmul(
    target: Target,
    shape: tuple[int, int, int],
    columns: float,
    cycles_per_column: int,
    kind: Kind,
    source: str,
    *,
    operands: tuple[Access, Access, Access | None],
    instructions: int = 1,
    pack: int = 1,
    moves: bool = False,
    position: tuple[int, ...] | None = None,
    size: tuple[int, ...] | None = None,
) -> Matmul:
    """LoadStationary and MultiplyMoving of ``shape``: rows of the array, columns that are loaded, columns that move.

    The load of one product overlaps the multiplication of another, so the slower of both sets the rate. No two begin
    sooner than the least interval, which contains what profiles of long products show beyond their columns: the
    performance guide (Opt #7) has short ones begin every 64 cycles. Sums in PSUM follow each other without delay.

    float32 takes several ``instructions`` with weights of their own, each issued by itself and loading its own; a
    product behind another one of the same operand finds the other half of the weights.

    ``columns`` counts those that move for the time that they take; each row has ``pack`` elements of the contraction.
    A throttled clock issues fewer columns, and what is beside them goes by meanwhile: profiles of trn2 show 427 ns
    between products of 512 columns at half of the clock, and 105 to 107 for 128.

    Where the engine limits its activity, products that follow each other issue a part of the columns in the same time
    (``tensor_activity_limit``). One alone does not: its latency follows from the whole rate.

    ``operands`` are the result, what is loaded, and what moves (None: an identity). Columns that are far apart in
    memory come, and go, at a part of the engine's rate (``strided_matmul_cycles``). That is the memory's time: a
    throttled clock does not stretch it, and the passes of float32 leave room for it.

    ``moves``: a transpose. A product in a part of the array, of ``size`` at ``position``, leaves the rest to others
    (:mod:`nki.cost.tensor_array`).
    """
    rows, loaded, moving = shape
    result, stationary, moved = (_memory_factor(access, target) for access in operands)
    load = loaded * max(cycles_per_column, stationary) / target.stationary_load_speedup
    offset = _offset_cycles(filter(None, operands), target) / target.vector_clock_ghz * target.tensor_clock_ghz
    clocked = max(load, target.matmul_min_interval_cycles * cycles_per_column, columns * cycles_per_column)
    least = max(target.matmul_min_interval_cycles * cycles_per_column, offset)
    streamed = columns * max(cycles_per_column, result, moved)
    if streamed > columns * cycles_per_column:
        kind, source = target.origin("strided_matmul_cycles")
    limited = columns * max(cycles_per_column / target.tensor_activity_limit, result, moved)
    multiply = limited + instructions * target.matmul_issue_cycles
    interval = max(load, least, multiply + instructions * target.stationary_load_cycles)
    clock = target.tensor_clock_ghz
    occupancy = interval / clock
    part, array, kept, load_ns = 0, _array(target), 0.0, 0.0
    if instructions == 1:
        load_ns = (interval - max(least, multiply)) / clock
    if position and size and size[0] * size[1] < array[0] * array[1]:
        share = size[0] * size[1] / (array[0] * array[1])
        array, kept, load_ns = (size[0], size[1]), occupancy, 0.0
        part = blocks((position[0], position[1]), array, target)
        occupancy = max(occupancy * share, least / clock)
    before = (instructions - 1) * (target.matmul_issue_cycles + target.stationary_load_cycles)
    latency = max((before + streamed) / clock + target.matmul_latency_ns, occupancy) + target.semaphore_ns
    return Matmul(
        occupancy,
        latency,
        kind,
        source,
        flops=2 * rows * pack * loaded * moving,
        tensor_passes=cycles_per_column / pack,
        is_data_movement=moves,
        activity=_activity(rows / array[0], loaded / array[1], target),
        clocked=clocked / interval,
        weight_load_saving=load_ns,
        array_mask=part,
        array_ns=kept,
    )


def _offset_cycles(accesses: Iterable[Access], target: Target) -> float:
    """The least cycles of an instruction that reads the offset of an operand on chip from a tile; else 0. Offsets in
    registers were loaded before.
    """
    for access in accesses:
        dynamic = access.dynamic
        if dynamic is not None and dynamic.kind is IndexKind.whole and dynamic.source.buffer in _TILES:
            return target.dynamic_offset_cycles
    return 0.0


def _memory_factor(access: Access | None, target: Target) -> float:
    """Tensor cycles that memory takes for a column of an operand of 16 bits, or a result."""
    return target.strided_matmul_cycles if access is not None and _strided(access, target) else 1.0


def _array(target: Target) -> tuple[int, int]:
    """Rows and columns of the Tensor engine's array."""
    return target.partitions, target.matmul_stationary_free_max


def _activity(rows: float, columns: float, target: Target) -> float:
    """The part of the array that counts as busy with a product that uses these parts of its rows and columns."""
    idle_rows, idle_columns = target.tensor_throttle_idle_rows, target.tensor_throttle_idle_columns
    return (1.0 - idle_rows * (1.0 - rows)) * (1.0 - idle_columns * (1.0 - min(1.0, columns)))


def fixed(inst: Inst, target: Target, nanoseconds: float, kind: Kind, source: str) -> Compute:
    """An instruction with a time that does not depend on its operands."""
    engine = engine_of(inst)
    return Compute(nanoseconds, nanoseconds + target.semaphore_ns, kind, source, engine)


def barrier(inst: Inst, target: Target) -> Compute:
    """One instruction of the sequencer, which goes on when the other core's semaphore has come.

    Each core writes a semaphore of the other one and waits for its own (reference, ``nisa.core_barrier``).
    """
    wait = target.sequencer_ns + target.remote_semaphore_ns
    return Compute(wait, wait + target.semaphore_ns, *target.origin("remote_semaphore_ns"), engine_of(inst))


def _ports(
    inst: Inst, engine: str, data_ns: float, times: tuple[float, float], target: Target
) -> tuple[tuple[str, ...], float]:
    """The ways to memory that ``inst`` on ``engine`` keeps from other engines, and for how long (ns): before trn2 those
    memories that they cannot share, from its start to the end of ``times``, its interval and its latency: then another
    engine knows of its result (``memory_handover``).

    Since then Vector and GpSimd have a bus in common, which Vector needs where it moves more than one element per cycle
    and partition between itself and SBUF (Trainium2 Architecture Guide for NKI, Data Movement Updates: "VectorE's
    performance mode leverages a shared memory bus"), and both need for a part of ``data_ns``.
    """
    if target.vector_gpsimd_share_sbuf and target.vector_scalar_share_psum:
        part = target.vector_gpsimd_bus_part
        if not part or engine == "scalar":
            return (), 0.0
        written = inst.writes()
        moved = [0, 0]
        for access in inst.accesses():
            if access.buffer is Buffer.sbuf:
                moved[any(access is other for other in written)] += access.free_elements
        # Columns as operands make up no half.
        if engine == "vector" and max(moved) <= 1.5 * data_ns * target.vector_clock_ghz:
            return (), 0.0
        return ((BUS,), part * data_ns) if any(moved) else ((), 0.0)
    buffers = dict.fromkeys(access.buffer for access in inst.accesses() if access.buffer.on_chip)
    others = ("vector", "scalar", "gpsimd")
    ports = tuple(b.value for b in buffers if not all(share_memory(engine, other, b, target) for other in others))
    interval, latency = times
    if not ports:
        return (), 0.0
    return ports, interval + target.memory_handover * (latency - interval)


def share_memory(first: str, second: str, buffer: Buffer, target: Target) -> bool:
    """Test if two engines can access SBUF, or PSUM, at the same time."""
    engines = {first, second}
    if buffer is Buffer.sbuf and engines == {"vector", "gpsimd"}:
        return target.vector_gpsimd_share_sbuf
    if buffer is Buffer.psum and engines == {"vector", "scalar"}:
        return target.vector_scalar_share_psum
    return True


def _has_column(inst: Inst) -> bool:
    """Test if an operand has one element per partition and another one has more."""
    sizes = [access.free_elements for access in inst.accesses()]
    return bool(sizes) and max(sizes) > 1 and any(a.free_elements == 1 for a in inst.read_operands())


def _dense(access: Access) -> bool:
    """Test if neighbours along the last dimension are neighbours in memory."""
    return access.shape[-1] == 1 or access.strides[-1] == 1
