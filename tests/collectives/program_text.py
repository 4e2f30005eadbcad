"""Random programs as Python source: a kernel that fills its tensors from arguments, and returns all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .programs import (
    BY_CHANNEL,
    REDUCING,
    VARIABLE,
    ByRank,
    Call,
    Compute,
    Copy,
    Groups,
    Loop,
    Operand,
    Program,
    RankRow,
    Ring,
    Split,
    Step,
    Tensor,
)

_HEAD = '''\
"""A random program of collectives."""

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
from nki.collectives import ReplicaGroup


def loaded(source):
    """A register with the element of an HBM tensor."""
    tile = nl.ndarray((1, 1), nl.int32)
    nisa.dma_copy(tile, source)
    register = nisa.register_alloc()
    nisa.register_load(register, tile)
    return register


def compute(dst, data1, data2, op):
    """``dst = data1 op data2`` of tensors in HBM, through tiles."""
    tiles = [nl.ndarray(dst.shape, dtype=dst.dtype, buffer=nl.sbuf) for _ in range(3)]
    nisa.dma_copy(tiles[1], data1)
    if isinstance(data2, (int, float)):
        nisa.tensor_scalar(tiles[0], tiles[1], op, data2)
    else:
        nisa.dma_copy(tiles[2], data2)
        nisa.tensor_tensor(tiles[0], tiles[1], tiles[2], op)
    nisa.dma_copy(dst, tiles[0])
'''


def text_of(program: Program) -> str:
    """The source of a module: its function ``kernel`` takes the contents of each tensor, and the number of its rank.

    For several cores, tiles have a leading dimension in arguments and results: the core.
    """
    writer = _Writer(program.cores)
    names = [t.name for t in program.tensors]
    writer.line(f"def kernel({', '.join(f'given_{name}' for name in names)}, role):")
    writer.indent += 1
    if program.cores > 1:
        writer.line("core = nl.program_id(0)")
    for t in program.tensors:
        writer.allocate(t.name, t.shape, t.dtype, t.memory)
        part = "[core]" if program.cores > 1 and t.memory == "sbuf" else ""
        writer.write(t, f"nisa.dma_copy({t.name}, given_{t.name}{part})")
    writer.steps(program.steps)
    for t in program.tensors:
        each = program.cores > 1 and t.memory == "sbuf"
        writer.allocate(f"out_{t.name}", (program.cores, *t.shape) if each else t.shape, t.dtype, "out")
        line = f"nisa.dma_copy(out_{t.name}{'[core]' if each else ''}, {t.name})"
        writer.line(line) if each else writer.write(t, line, barriers=False)
    writer.line(f"return ({', '.join(f'out_{name}' for name in names)},)")
    return _HEAD + "\n\n" + "\n".join(writer.lines) + "\n"


def arguments_of(program: Program) -> list[Any]:
    """What ``kernel`` is called with: a list with one item a rank for each parameter."""
    tensors = [[given(program, t, rank, program.contents) for rank in range(program.ranks)] for t in program.tensors]
    return [*tensors, list(range(program.ranks))]


def given(program: Program, tensor: Tensor, rank: int, contents: Mapping[str, Sequence[Any]]) -> Any:
    """The contents of a tensor of a rank as an argument or a result of ``kernel``."""
    keys = [tensor.key(core) for core in range(program.cores)]
    parts = [contents[key][rank] for key in keys]
    return np.stack(parts) if len(set(keys)) > 1 else parts[0]


class _Writer:
    """Lines of a function, and numbers for new names."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.lines: list[str] = []
        self.indent = 0
        self.count = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def allocate(self, name: str, shape: tuple[int, ...], dtype: str, memory: str) -> None:
        hbm = "shared_hbm" if memory == "out" or self.cores > 1 else "private_hbm"
        named = "" if memory == "out" else f", name='{name}'"
        buffer = "sbuf" if memory == "sbuf" else hbm
        self.line(f"{name} = nl.ndarray({shape}, dtype=nl.{dtype}, buffer=nl.{buffer}{named})")

    def write(self, dst: Tensor, line: str, *, barriers: bool = True) -> None:
        """``line`` writes ``dst``: in HBM, one core does so, when no other core reads or writes it."""
        if self.cores == 1 or dst.memory == "sbuf":
            self.line(line)
            return
        barrier = f"nisa.core_barrier({dst.name}, (0, 1))"
        self.lines += ["    " * self.indent + barrier] * barriers
        self.line("if core == 0:")
        self.line(f"    {line}")
        self.lines += ["    " * self.indent + barrier] * barriers

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def block(self, head: str, steps: Sequence[Step]) -> None:
        self.line(head)
        self.indent += 1
        self.steps(steps)
        self.indent -= 1

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self.step(step)
        if not steps:
            self.line("pass")

    def step(self, step: Step) -> None:
        match step:
            case Compute():
                self.write(step.dst, _compute(step))
            case Copy(dst, src):
                self.write(dst, f"nisa.dma_copy({dst.name}, {src.name})")
            case RankRow(dst, table):
                width = table.shape[1]
                row = f"{table.name}.ap([[{width}, 1], [1, {width}]], scalar_offset=ncc.rank_id(), indirect_dim=0)"
                self.line(f"nisa.dma_copy({dst.name}, {row})")
            case Call():
                self.line(f"ncc.{step.kind}({_arguments(step)})")
            case Split(call, between):
                name = self.fresh("prepared")
                self.line(f"{name} = ncc.{call.kind}_prepare({_arguments(call)})")
                for other in between:
                    self.step(other)
                self.line(f"ncc.{call.kind}_trigger({name})")
            case Ring():
                self.ring(step)
            case Loop():
                self.loop(step)
            case ByRank(cases, rest):
                for number, (ranks, steps) in enumerate(cases):
                    self.block(f"{'elif' if number else 'if'} role in {ranks}:", steps)
                self.block("else:", rest)

    def ring(self, step: Ring) -> None:
        rows, width = step.held.shape
        for number, hop in enumerate([*step.hops, None]):
            owner = self.fresh("owner")
            self.line(
                f"{owner} = ncc.collective_permute_implicit_current_processing_rank_id({number}, {_group(step.groups)})"
            )
            slot = f"{step.result.name}.ap([[{width}, {rows}], [1, {width}]], scalar_offset={owner}, indirect_dim=0)"
            self.write(step.result, f"nisa.dma_copy({slot}, {(step.held, step.other)[number % 2].name})")
            if hop is not None:
                self.step(hop)

    def loop(self, step: Loop) -> None:
        rounds = f"loaded({step.rounds.name})" if isinstance(step.rounds, Tensor) else step.rounds
        if step.kind == "fori_loop":
            body = self.fresh("body")
            self.block(f"def {body}(i):", step.body)
            self.line(f"nl.fori_loop(0, {rounds}, {body})")
        else:
            space = "" if step.kind == "range" else "nl."
            self.block(f"for _ in {space}{step.kind}({rounds}):", step.body)


def _compute(step: Compute) -> str:
    dst, one = step.dst, step.data1
    two = step.data2.name if isinstance(step.data2, Tensor) else repr(step.data2)
    if dst.memory == "hbm":
        return f"compute({dst.name}, {one.name}, {two}, nl.{step.op})"
    if isinstance(step.data2, Tensor):
        return f"nisa.tensor_tensor({dst.name}, {one.name}, {two}, nl.{step.op})"
    return f"nisa.tensor_scalar({dst.name}, {one.name}, nl.{step.op}, {two})"


def _shown(operand: Operand) -> str:
    name, part = operand.tensor.name, f"{operand.start}:{operand.stop}"
    return name if operand.axis is None else f"{name}[{part}]" if operand.axis == 0 else f"{name}[:, {part}]"


def _group(groups: Groups) -> str:
    return f"ReplicaGroup({[list(ranks) for ranks in groups]})"


def _listed(operands: Sequence[Operand], by_channel: bool) -> str:
    names = [f"[{_shown(o)}]" if by_channel else _shown(o) for o in operands]
    return f"[{', '.join(names)}]"


def _arguments(call: Call) -> str:
    return ", ".join(_pieces(call))


def _pieces(call: Call) -> Iterator[str]:
    by_channel = call.kind in BY_CHANNEL
    yield _listed(call.srcs, by_channel)
    if call.others:
        yield _listed(call.others, by_channel)
    yield _listed(call.dsts, by_channel)
    if call.kind == "collective_permute":
        yield str(list(call.pairs))
        return
    yield _group(call.groups)
    if call.kind in ("all_gather", "reduce_scatter", "all_to_all"):
        yield f"collective_dim={call.dim}"
    if call.kind in REDUCING:
        yield f"op=nl.{call.op}"
    if by_channel and len(call.dsts) > 1:
        yield f"channel_ids={list(range(len(call.dsts)))}"
    if call.kind in VARIABLE:
        assert call.metadata is not None
        yield f"metadata_tensor={call.metadata.name}, recv_counts_known={call.known}, has_rdispls={call.rdispls}"
