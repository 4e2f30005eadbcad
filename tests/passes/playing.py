"""Scheduled kernels and what they compute when their queues run in one order or another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np

from nki import target as targets
from nki.backend.placed import PlacedMemory
from nki.backend.reference import Reference
from nki.base.errors import NkiError
from nki.compiler import pipeline
from nki.ir.inst import Inst
from nki.ir.kernel import Kernel
from nki.ir.loop import changed
from nki.jit import adapter_for
from nki.sim.machine import Machine

Array = np.ndarray[Any, Any]


def compiled(kernel: Any, *arguments: Any, stop: str | None = None, **options: Any) -> Kernel:
    """``kernel`` for ``arguments`` after stage ``stop`` (None: the last)."""
    bound = kernel.bind(arguments, {})
    specs = kernel.specs(bound, adapter_for(arguments, {}))
    with _stages(kernel.func.__name__):
        return pipeline.compile(kernel.func, specs, kernel.chosen_target(), stop=stop, edges=kernel.schedule, **options)


def onward(kernel: Kernel, **options: Any) -> Kernel:
    """``kernel`` after all stages, from where it is."""
    with _stages(kernel.name):
        return pipeline.compile(None, {}, targets.find(kernel.target), start=kernel, **options)


def _stages(name: str) -> Any:
    """The tiles of random programs share bytes, so that much depends on much; stage ``allocate`` would refuse that."""
    stages = {word: stage for word, stage in pipeline.STAGES.items() if word != "allocate" or name != "program"}
    return mock.patch.dict(pipeline.STAGES, stages, clear=True)


def played(kernel: Kernel, inputs: Sequence[Array], seed: int) -> list[bytes]:
    """The outputs, bit for bit, when chance decides which queue goes on."""
    memory = _memory(kernel)
    for tensor, array in zip(kernel.inputs, inputs, strict=True):
        memory.bind(tensor, array)
    Machine(Reference(memory), seed).run(kernel.body)
    return [memory.array(tensor).tobytes() for tensor in kernel.outputs]


def in_order(kernel: Kernel, inputs: Sequence[Array]) -> list[bytes]:
    """The outputs when the instructions run one after the other, as the body has them."""
    memory = _memory(kernel)
    for tensor, array in zip(kernel.inputs, inputs, strict=True):
        memory.bind(tensor, array)
    Reference(memory).run(kernel.body)
    return [memory.array(tensor).tobytes() for tensor in kernel.outputs]


def _memory(kernel: Kernel) -> PlacedMemory:
    return PlacedMemory(targets.find(kernel.target), kernel.places)


def waits(kernel: Kernel) -> Iterator[tuple[Inst, tuple[str, int]]]:
    """Every wait of the kernel."""
    for inst in kernel.instructions():
        for wait in inst.waits:
            yield inst, wait


def without(kernel: Kernel, inst: Inst, wait: tuple[str, int]) -> Kernel:
    """``kernel`` with one wait less."""
    less = inst.placed(waits=tuple(other for other in inst.waits if other != wait))
    return kernel.with_body(changed(kernel.body, lambda each: [less if each is inst else each]))


def happens(kernel: Kernel, inputs: Sequence[Array], seed: int) -> list[bytes] | None:
    """What :func:`played` gives; None if an index that was read too early leads nowhere."""
    try:
        return played(kernel, inputs, seed)
    except NkiError:
        return None


def by_name(kernel: Kernel) -> Mapping[str, int]:
    """Where the instructions with a name stand."""
    return {inst.name: i for i, inst in enumerate(kernel.instructions()) if getattr(inst, "name", None)}
