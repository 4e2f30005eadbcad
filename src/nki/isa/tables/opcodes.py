"""Opcodes: the names of instructions in profiles.

Public profiles and documents about them name the codes in :data:`OPCODES`: Neuron documentation, figures of the NKI
performance guide (MATMUL, ACTIVATE, TENSOR_TENSOR), and public pages about the tables of Neuron Explorer (DMA_DIRECT2D;
a transpose on the Tensor engine is a MATMUL). The others are not published: they are the mnemonic in capitals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OPCODES: Final[Mapping[str, str]] = {
    "nc_matmul": "MATMUL",
    "nc_matmul_mx": "MATMUL",
    "activation": "ACTIVATE",
    "activation_reduce": "ACTIVATE",
    "activate2": "ACTIVATE",
    "tensor_tensor": "TENSOR_TENSOR",
    "dma_copy": "DMA_DIRECT2D",
}
"""By mnemonic, the opcode that public profiles show."""
ON_ENGINE: Final[Mapping[tuple[str, str], str]] = {("nc_transpose", "tensor"): "MATMUL"}
"""By mnemonic and engine, the opcode of an instruction that is another one on each engine."""
TRANSPOSING: Final = frozenset({"dma_transpose"})
"""DMA instructions that transpose."""


def opcode(mnemonic: str, engine: str) -> str:
    """The opcode of an instruction on the engine of that name, as profiles show it."""
    return ON_ENGINE.get((mnemonic, engine)) or OPCODES.get(mnemonic) or mnemonic.upper()


def transposes(mnemonic: str) -> bool:
    """Test if a DMA of that mnemonic transposes what it moves."""
    return mnemonic in TRANSPOSING


def activates(mnemonic: str) -> bool:
    """Test if an instruction is an activation in profiles."""
    return OPCODES.get(mnemonic) == "ACTIVATE"
