"""Programs over random fields, with their tiles where stages have put them and their queues in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from nki import target as targets
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, Buffer
from nki.numerics.floating_point import default_environment
from nki.proofs.executor import Prover
from nki.proofs.field import FIELDS
from nki.proofs.memory import PlacedSymbols, SymbolMemory
from nki.proofs.reals import Reals
from nki.proofs.symbols import Symbols
from nki.rendezvous.protocol import Participant
from nki.rendezvous.round_robin import RoundRobin
from nki.sim.interleaving import QueueSimulator
from nki.target.fact_rows import Fact

Array = np.ndarray[Any, Any]
Outputs = list[Symbols | Array]
SYMBOLS, FLOATS, NOTHING = "all inputs", "all but integers", "no input"
"""What is not known: the numbers of all inputs, of the ones that are not integers, or none."""


class Field:
    """One random field, and the inputs of a program in it."""

    def __init__(self, key: int, arrays: Sequence[Array], unknown: str = SYMBOLS) -> None:
        self.key, self.arrays, self.unknown = key, arrays, unknown

    def outputs(
        self, program: Program, *, placed: bool = False, order: int | None = None, prover: type[Prover] = Prover
    ) -> Outputs:
        """The outputs of ``program``; an array if all of its elements are known. ``prover`` executes it.

        ``placed``: tiles share the bytes that they have on chip. ``order``: the seed by which the queues take turns;
        None: the order in which the program lists its instructions.
        """
        reals = Reals(FIELDS[self.key % len(FIELDS)], self.key)
        inputs = [self._input(number, program, reals) for number in range(len(program.inputs))]
        with default_environment():
            memories = _placed(program) if placed else [SymbolMemory()] * len(program.cores)
            memories[0].begin(program, inputs)
            _run(program, memories, partial(prover, reals=reals), order)
            return [_contents(memories[0], Access.whole(tensor), reals) for tensor in program.outputs]

    def _input(self, number: int, program: Program, reals: Reals) -> Symbols | Array:
        spec = program.signature.input_specs()[number]
        if self.unknown == NOTHING or (self.unknown == FLOATS and spec.dtype.is_integer):
            return self.arrays[number]
        return reals.variables(f"input {number}", spec.shape, spec.dtype.is_integer)


def _contents(memory: SymbolMemory, access: Access, reals: Reals) -> Symbols | Array:
    return memory.load(access, reals) if memory.is_symbolic(access) else memory.window(access)


def _run(program: Program, memories: Sequence[SymbolMemory], made: Callable[..., Prover], order: int | None) -> None:
    pairs = list(zip(memories, program.cores, strict=True))
    if order is not None:
        simulator = QueueSimulator(order, len(pairs))
        participants = simulator.rendezvous.participants() if len(pairs) > 1 else [None]
        executors = [made(memory, participant=each) for memory, each in zip(memories, participants, strict=True)]
        simulator.run([(executor, core.body) for executor, core in zip(executors, program.cores, strict=True)])
        return

    def in_order(memory: SymbolMemory, core: CoreProgram, participant: Participant | None = None) -> None:
        made(memory, participant=participant).run(core.body)

    if len(pairs) > 1:
        RoundRobin[None](len(pairs)).run([partial(in_order, *pair) for pair in pairs])
    else:
        in_order(*pairs[0])


def _placed(program: Program) -> list[PlacedSymbols]:
    """The memory of each core, no larger than its tiles need."""
    ends = dict.fromkeys((Buffer.sbuf, Buffer.psum), 1)
    for core in program.cores:
        for tensor in core.tensors:
            place = core.placement.get(tensor) or tensor.address
            if place is not None and tensor.buffer in ends:
                ends[tensor.buffer] = max(ends[tensor.buffer], place[1] + tensor.bytes_per_partition)
    sizes = {f"{buffer.value}_partition_bytes": Fact(end, "bytes", "tiles") for buffer, end in ends.items()}
    target = targets.find(program.target).with_facts(sizes)
    first, *others = program.cores
    memory = PlacedSymbols(target, first.placement)
    return [memory, *(memory.other_core(target, core.placement) for core in others)]


def difference(one: Sequence[Symbols | Array], other: Sequence[Symbols | Array]) -> str:
    """The first output that is not the same in each element and part; "" if all are."""
    if len(one) != len(other):
        return f"{len(other)} outputs in place of {len(one)}"
    for number, outputs in enumerate(zip(one, other, strict=True)):
        parts = [each if isinstance(each, Symbols) else {"bits": each.tobytes()} for each in outputs]
        if type(parts[0]) is not type(parts[1]):
            return f"output {number} is known in one of them alone"
        for name in ("bits", "residues", "exponents", "infinities", "kept"):
            x, y = (each.get(name) if isinstance(each, dict) else getattr(each, name, None) for each in parts)
            if (x is None) != (y is None) or (x is not None and not np.array_equal(x, y)):
                return f"the {name} of output {number} differ"
    return ""
