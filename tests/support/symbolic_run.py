"""Programs over random fields, with their tiles where stages have put them and their queues in any order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import Any

import numpy as np

from nki import target as targets
from nki.backend.numpy.memory import SharedBytes
from nki.ir.instruction import Inst
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, Buffer, Tensor
from nki.numerics.floating_point import default_environment
from nki.proofs.executor import Prover
from nki.proofs.field import FIELDS, UnluckyError
from nki.proofs.memory import PlacedSymbols, SymbolMemory
from nki.proofs.reals import Reals
from nki.proofs.symbols import Symbols
from nki.rendezvous import ranks
from nki.rendezvous.protocol import Participant
from nki.rendezvous.round_robin import RoundRobin
from nki.sim.interleaving import QueueSimulator
from nki.target.fact_rows import Fact
from nki.target.model import Target
from tests.support.symbolic_ranks import RankProver

Array = np.ndarray[Any, Any]
Outputs = list[Symbols | Array]
SYMBOLS, FLOATS, NOTHING = "all inputs", "all but integers", "no input"
"""What is not known: the numbers of all inputs, of the ones that are not integers, or none."""


class Field:
    """One random field, and the inputs of a program in it."""

    def __init__(self, key: int, arrays: Sequence[Array], unknown: str = SYMBOLS, ranks: int = 1) -> None:
        self.key, self.arrays, self.unknown, self.ranks = key, arrays, unknown, ranks

    def outputs(
        self, program: Program, *, placed: bool = False, order: int | None = None, prover: type[Prover] = RankProver
    ) -> Outputs:
        """The outputs of ``program``, of one rank after the other; an array if all of its elements are known.
        ``prover`` executes it.

        ``placed``: tiles share the bytes that they have on chip. ``order``: the seed by which the queues take turns;
        None: the order in which the program lists its instructions.
        """

        def of_rank(participant: Participant | None = None) -> Outputs:
            with ranks.running_as(participant):
                return self._outputs(program, placed, order, prover)

        if self.ranks == 1:
            return of_rank()
        return list(chain.from_iterable(RoundRobin[Outputs](self.ranks, "rank").run([of_rank] * self.ranks)))

    def _outputs(self, program: Program, placed: bool, order: int | None, prover: type[Prover]) -> Outputs:
        reals = Reals(FIELDS[self.key % len(FIELDS)], self.key)
        inputs = [self._input(number, program, reals) for number in range(len(program.inputs))]
        with default_environment():
            memories = _placed(program) if placed else _apart(program)
            memories[0].begin(program, inputs)
            _run(program, memories, partial(prover, reals=reals), order)
            return [_contents(memories[0], Access.whole(tensor), reals) for tensor in program.outputs]

    def expected(self, program: Program, prover: type[Prover] = RankProver) -> Outputs:
        """The outputs of ``program``, by which others are judged; numbers that divide by 0 are drawn anew."""
        while True:
            try:
                return self.outputs(program, prover=prover)
            except UnluckyError:
                self.key += 1

    def _input(self, number: int, program: Program, reals: Reals) -> Symbols | Array:
        spec = program.signature.input_specs()[number]
        if self.unknown == NOTHING or (self.unknown == FLOATS and spec.dtype.is_integer):
            return self.arrays[number]
        rank = ranks.current()
        name = f"input {number}" if rank is None else f"input {number} of rank {rank.rank}"
        return reals.variables(name, spec.shape, spec.dtype.is_integer)


class Accumulating(RankProver):
    """Decides of each matmul, as the chip would, which elements it overwrites: the ones that nothing has written."""

    def _execute_resolved(self, inst: Inst) -> None:
        if inst.accumulates is None:
            for access in inst.writes():
                window = self.memory.known_window(access)
                bits = window.view(f"u{access.dtype.itemsize}")
                poison = int.from_bytes(access.dtype.poison, sys.byteorder)
                window[bits == poison] = 0  # of a symbol nothing reads these bytes
            inst = inst.with_accumulation(True)
        super()._execute_resolved(inst)


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


class _Mailboxes(PlacedSymbols):
    """A memory for tensors in HBM that cores use as bytes, for numbers of any size; each other tensor is by itself."""

    def __init__(self, target: Target, placement: Mapping[Tensor, tuple[int, int]]) -> None:
        super().__init__(target, placement)
        size = max(offset + tensor.nbytes for tensor, (_, offset) in placement.items())
        self._shared = {Buffer.shared_hbm: SharedBytes(1, size)}

    def _check(self, access: Access) -> None:
        if self.home(access.tensor) is access.tensor:
            super()._check(access)

    def address(self, access: Access) -> tuple[int, tuple[int, ...]]:
        place = self._place(access.tensor)
        if place is None:
            return super().address(access)
        size = access.dtype.itemsize
        return place[1] + access.offset * size, tuple(step * size for step in access.strides)


def _apart(program: Program) -> list[SymbolMemory]:
    """The memory of each core, the same one, with a place of its own for each tensor."""
    accesses = [access for inst in program.instructions() for access in inst.accesses()]
    used_as_bytes = dict.fromkeys(
        each.tensor
        for each in accesses
        if each.buffer is Buffer.shared_hbm and each.dtype.itemsize != each.tensor.dtype.itemsize
    )
    if not used_as_bytes:
        return [SymbolMemory()] * len(program.cores)
    ends = accumulate(-(-tensor.nbytes // 8) * 8 for tensor in used_as_bytes)
    places = {tensor: (0, end - -(-tensor.nbytes // 8) * 8) for tensor, end in zip(used_as_bytes, ends, strict=True)}
    return [_Mailboxes(targets.find(program.target), places)] * len(program.cores)


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
