"""Golden lowerings: the kernel IR of a dozen instructions, as text."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from nki.backend.cpu.kernel_ir.accesses import aliases
from nki.backend.cpu.kernel_ir.lower import lower
from nki.backend.cpu.kernel_ir.printer import show_loops
from nki.ir.instruction import REGISTRY
from nki.ir.sample import Draw
from nki.ir.text.printer import show_inst
from nki.target import GEN4
from tests.support import instruction_bench

GOLDEN = Path(__file__).parent / "golden"
MNEMONICS = (
    "tensor_tensor",  # element-wise
    "tensor_scalar",  # an operand that repeats
    "tensor_reduce",
    "tensor_partition_reduce",  # over partitions
    "tensor_tensor_scan",
    "nc_match_replace8",  # indexed store
    "tensor_copy_predicated",
    "nc_matmul",
    "nc_transpose",
    "quantize_mx",
    "activation_reduce",  # an activation that accumulates
    "dma_copy",
)


def lowered(mnemonic: str) -> str:
    """A sample of the instruction, and its kernel IR."""
    draw = Draw(random.Random(f"loop ir of {mnemonic}"), GEN4)
    samples = (instruction_bench.sample(REGISTRY[mnemonic], draw) for _ in range(1000))
    inst = next(inst for inst in samples if all(a.size > 4 for a in inst.accesses()[:2]))
    return f"{show_inst(inst)}\n{show_loops(lower(inst, aliases(inst)))}"


@pytest.mark.parametrize("mnemonic", MNEMONICS)
def test_lowering_is_the_golden_one(mnemonic: str) -> None:
    assert lowered(mnemonic) == (GOLDEN / f"{mnemonic}.txt").read_text()
