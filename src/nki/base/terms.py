"""The words of a profile: what its text, its page, ``nki explain`` and the glossary say about each."""

from __future__ import annotations

from typing import Final

TERMS: Final[dict[str, str]] = {
    "busy": "the time in which an engine works; of a line, the times of its instructions, added up",
    "stalled": "the engine stands still between two of its instructions, waiting for what stands beside it",
    "critical": "part of the chain of instructions, each waiting for the last, that sets the time",
    "HBM": "the memory of the chip outside the cores: inputs and results",
    "MFU": "operations of products, as a part of what the Tensor engine can do in that time",
    "MBU": "the time that all transfers with HBM need, as a part of the time on the device",
    "ridge": "operations per byte of HBM from which on the Tensor engine is the limit",
    "launch": "the time beside the kernel's own that a benchmark on the device measures",
    "dependences": "instructions that need each other's results, so that no order runs them at once",
    "descriptors": "lists of addresses for DMA transfers, which one engine makes one after the other",
    "own pipeline": "the result of the instruction before on the same engine, which is not complete",
    "memory port": "the way to a memory that another engine uses",
    "activation table": "numbers that Scalar loads before it uses an activation function",
    "other core": "the other core, which has not come to the point where both meet",
    "barrier": "all engines, where a loop on the device begins or ends",
    "order": "the instruction before on the same queue",
    "slow clock": "the Tensor engine's clock, which is lower until it has worked for a while",
}
"""Each word with its meaning."""


def term(word: str) -> tuple[str, str] | None:
    """The word as the table has it, with its meaning; None for another word."""
    return next(((name, text) for name, text in TERMS.items() if name.lower() == word.lower()), None)


def resource_name(resource: str) -> str:
    """The resource of a lower bound in few words: ``DMA descriptors of sync`` for ``descriptors (sync)``."""
    word, _, engine = resource.removesuffix(")").partition(" (")
    return f"DMA descriptors of {engine}" if word == "descriptors" else resource


def limit(resource: str) -> str:
    """The reason of a lower bound in words."""
    word, _, engine = resource.removesuffix(")").partition(" (")
    if word == "descriptors":
        return f"{engine} makes the descriptors of DMA transfers one after the other"
    if word == "dependences":
        return "they need each other's results"
    return f"{resource} is busy all that time"
