"""Elements that are called undefined whatever the data are: for random data they differ with the undefined bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nki.analysis.footprint import Footprint
from nki.backend.numpy.executor import Reference
from nki.backend.numpy.memory import Memory
from nki.ir.access_bounds import byte_window
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.sample import Draw
from nki.ir.text.printer import show_inst
from nki.ir.types import Access, Tensor
from nki.sim.hazards.undefined_elements import UndefinedElements, place_of
from nki.target import GEN4
from tests.support import instruction_bench as bench

Array = np.ndarray[Any, Any]
SAMPLES = bench.EXAMPLES // 2
FILLINGS = (0x00, 0x3C, 0xC5, 0x4B, 0x7B, 0xFB, 0x41)
DECIDED = ("activation", "dma_copy", "nc_matmul", "nc_transpose", "tensor_copy", "tensor_reduce", "tensor_scalar",
           "tensor_tensor", "tensor_tensor_scan", "bn_stats", "reciprocal", "tensor_partition_reduce")  # fmt: skip
"""Instructions that pass on some undefined elements in every run."""


class Loaded(Footprint):
    def __init__(self) -> None:
        self.reads_of: list[Access] = []
        self.writes_of: list[Access] = []

    def reads(self, access: Access) -> None:
        self.reads_of.append(access)

    def writes(self, access: Access) -> None:
        self.writes_of.append(access)


def everyday(tensor: Tensor, most: int, rng: np.random.Generator) -> Array:
    """Finite floats, and integers up to ``most``."""
    if tensor.dtype.is_float:
        return rng.standard_normal(tensor.shape).astype(np.float32).astype(tensor.dtype.plain)
    if tensor.dtype.is_integer:
        return rng.integers(0, most + 1, tensor.shape).astype(tensor.dtype.plain)
    return bench.contents(tensor.dtype, tensor.shape, rng)


def results(inst: Inst, written: list[Access], contents: dict[Tensor, Array]) -> list[Array]:
    """The words of each result of a run on ``contents``."""
    memory = Memory()
    for tensor, array in contents.items():
        memory.window(Access.whole(tensor))[...] = array
    Reference(memory).execute(inst)
    return [memory.window(access).view(f"u{access.dtype.itemsize}").copy() for access in written]


def filled(contents: dict[Tensor, Array], undefined: dict[Tensor, Array], filling: bytes) -> dict[Tensor, Array]:
    """The contents with other bytes where they are undefined."""
    changed = {}
    for tensor, array in contents.items():
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy()
        other = np.resize(np.frombuffer(filling or tensor.dtype.poison, np.uint8), raw.shape)
        raw[undefined[tensor]] = other[undefined[tensor]]
        changed[tensor] = raw.view(array.dtype).reshape(array.shape)
    return changed


def claims(inst: Inst, loads: list[Access], undefined: dict[Tensor, Array]) -> UndefinedElements:
    masks = {}
    for access in loads:
        mask = byte_window(undefined[access.tensor], access).any(axis=-1)
        if mask.any():
            masks[place_of(access)] = mask
    elements = UndefinedElements(masks)
    elements.visit(inst)
    return elements


@pytest.mark.parametrize("name", bench.WRITING)
def test_claimed_elements_change_with_undefined_bytes(name: str) -> None:
    claimed = 0
    for number in range(SAMPLES):
        source = bench.source("undefined", name, number)
        try:
            inst = bench.sample(REGISTRY[name], Draw(source, GEN4))
        except StopIteration:
            continue
        accesses = inst.accesses()
        if any(a.dynamic is not None for a in accesses) or inst.may_leave_unwritten() or inst.effects.external:
            continue
        rng = np.random.default_rng(number)
        loaded = Loaded()
        loaded.visit(inst)
        most = 0 if "gather" in name else 9
        contents = {tensor: everyday(tensor, most, rng) for tensor in dict.fromkeys(a.tensor for a in accesses)}
        undefined = {tensor: np.zeros(tensor.nbytes, np.bool_) for tensor in contents}
        if not loaded.reads_of:
            continue
        chosen = source.choice(loaded.reads_of)
        size = chosen.tensor.dtype.itemsize
        density = source.choice((0.02, 0.5, 1.0))
        undefined[chosen.tensor][:] = np.repeat(rng.random(chosen.tensor.nbytes // size) < density, size)
        elements = claims(inst, loaded.reads_of, undefined)
        if not any(mask.any() for _, mask in elements.results):
            continue
        last = {place_of(access): (access, mask) for access, mask in elements.results}
        written = [access for access, _ in last.values()]
        runs = [
            results(inst, written, filled(contents, undefined, bytes([byte]) if byte is not None else b""))
            for byte in (None, *FILLINGS)
        ]
        for place, (access, mask) in enumerate(last.values()):
            if not access.dtype.is_float and (chosen.dtype.is_float or access.dtype.itemsize < 4):
                continue  # whole numbers saturate, and may be the same for all of these bytes
            differs = np.logical_or.reduce([runs[0][place] != other[place] for other in runs[1:]])
            if access.dtype.is_float:  # other operands may have made it NaN
                differs |= np.isnan(runs[1][place].view(access.dtype.plain).astype(np.float32))
            differs |= runs[1][place] == np.frombuffer(access.dtype.poison, runs[1][place].dtype)[0]  # index outside
            assert not (mask & ~differs).any(), f"{show_inst(inst)}: {access.name}, {chosen.name} undefined"
            claimed += int(mask.sum())
    assert claimed or name not in DECIDED
