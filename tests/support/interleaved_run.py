"""Scheduled kernels and what they compute when their queues run in one order or another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from nki import target as targets
from nki.backend.numpy.executor import Reference
from nki.backend.numpy.placed_memory import PlacedMemory
from nki.base.errors import NkiError
from nki.compilation import pipeline
from nki.ir.instruction import Inst
from nki.ir.loop import changed
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import Stage
from nki.jit import adapter_for
from nki.passes.schedule import Schedule
from nki.rendezvous.protocol import Participant
from nki.rendezvous.round_robin import RoundRobin
from nki.sim.interleaving import QueueSimulator
from nki.sim.timing import TimedProgram, once

Array = np.ndarray[Any, Any]


def compiled(kernel: Any, *arguments: Any, stop: str | None = None, **options: Any) -> Program:
    """``kernel`` for ``arguments`` after stage ``stop`` (None: the last)."""
    bound = kernel.bind(arguments, {})
    specs = kernel.specs(bound, adapter_for(arguments, {}))
    stages, edges, grid = _stages(kernel.func.__name__, **options), kernel.schedule, kernel.grid
    return pipeline.compile(
        kernel.func, specs, kernel.chosen_target(), stop=stop, edges=edges, grid=grid, stages=stages
    )


def onward(kernel: Program, **options: Any) -> Program:
    """``kernel`` after all stages, from where it is."""
    stages = _stages(kernel.name, **options)
    return pipeline.compile(None, {}, targets.find(kernel.target), start=kernel, stages=stages)


def _stages(name: str, reorder: bool | None = None) -> list[Stage]:
    """The tiles of random programs share bytes, so that much depends on much; stage ``allocate`` would refuse that."""
    stages = pipeline.STAGES.with_stage(Schedule(reorder))
    return [stage for stage in stages if stage.name != "allocate" or name != "program"]


def played(kernel: Program, inputs: Sequence[Array], seed: int) -> list[bytes]:
    """The outputs, bit for bit, when chance decides which core goes on, and in which queue."""
    return run(kernel, inputs, QueueSimulator(seed, len(kernel.cores)))


def run(kernel: Program, inputs: Sequence[Array], simulator: QueueSimulator) -> list[bytes]:
    """The outputs, bit for bit, that ``simulator`` comes to."""
    memories = _memories(kernel, inputs)
    participants = simulator.rendezvous.participants() if len(kernel.cores) > 1 else [None]
    executors = [Reference(memory, each) for memory, each in zip(memories, participants, strict=True)]
    simulator.run([(executor, core.body) for executor, core in zip(executors, kernel.cores, strict=True)])
    return _outputs(kernel, memories[0])


def in_order(kernel: Program, inputs: Sequence[Array]) -> list[bytes]:
    """The outputs when each core runs its instructions one after the other, as its body has them."""
    memories = _memories(kernel, inputs)
    if len(kernel.cores) > 1:
        work = [partial(_in_order, memory, core) for memory, core in zip(memories, kernel.cores, strict=True)]
        RoundRobin[None](len(work)).run(work)
    else:
        _in_order(memories[0], kernel.core)
    return _outputs(kernel, memories[0])


def _in_order(memory: PlacedMemory, core: CoreProgram, participant: Participant | None = None) -> None:
    Reference(memory, participant).run(core.body)


def _memories(kernel: Program, inputs: Sequence[Array]) -> list[PlacedMemory]:
    """The memory of each core, which holds the inputs."""
    target = targets.find(kernel.target)
    core, *others = kernel.cores
    first = PlacedMemory(target, core.placement)
    for tensor, array in zip(kernel.inputs, inputs, strict=True):
        first.bind(tensor, array)
        if tensor in kernel.outputs:
            first.own(tensor)
    return [first, *(first.other_core(target, other.placement) for other in others)]


def _outputs(kernel: Program, memory: PlacedMemory) -> list[bytes]:
    return [memory.array(tensor).tobytes() for tensor in kernel.outputs]


def makespan(kernel: Program) -> float:
    """Nanoseconds by the timing model, when every instruction begins as soon as it may."""
    target = targets.find(kernel.target)
    return TimedProgram(kernel, once(kernel)).run(target).ns


def waits(kernel: Program) -> Iterator[tuple[Inst, tuple[str, int]]]:
    """Every wait of the kernel, on all cores."""
    for core in kernel.cores:
        for inst in core.instructions():
            for wait in inst.waits:
                yield inst, wait


def without(kernel: Program, inst: Inst, wait: tuple[str, int]) -> Program:
    """``kernel`` with one wait less."""
    less = inst.with_schedule(waits=tuple(other for other in inst.waits if other != wait))

    def change(each: Inst) -> list[Inst]:
        return [less if each is inst else each]

    return kernel.with_cores(core.with_body(changed(core.body, change)) for core in kernel.cores)


def happens(kernel: Program, inputs: Sequence[Array], seed: int) -> list[bytes] | None:
    """What :func:`played` gives; None if an index that was read too early leads nowhere."""
    try:
        return played(kernel, inputs, seed)
    except NkiError:
        return None


def by_name(kernel: Program) -> Mapping[str, int]:
    """Where the instructions with a name stand."""
    return {inst.name: i for i, inst in enumerate(kernel.instructions()) if getattr(inst, "name", None)}
