"""The words of a profile: what its text, its page, ``nki explain`` and the glossary say about each."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Self


class Cause(IntEnum):
    """Reason why an instruction did not begin earlier: its number, the word for a stall of that cause, what the word
    means, and the end of the sentence "waited for …".
    """

    _value_: int
    word: str
    meaning: str
    reason: str

    def __new__(cls, number: int, word: str, meaning: str, reason: str) -> Self:
        member = int.__new__(cls, number)
        member._value_ = number
        member.word, member.meaning, member.reason = word, meaning, reason
        return member

    dependence = 2, "", "", "a result of another queue, and its semaphore"
    """Its stalls are told by the engine: ``waits for dma``."""
    generator = (
        4,
        "descriptors",
        "lists of addresses for DMA transfers, which one engine makes one after the other",
        "the generator of DMA descriptors, which serves another transfer",
    )
    chain = (
        3,
        "own pipeline",
        "the result of the instruction before on the same engine, which is not complete",
        "a result of its own queue",
    )
    port = 5, "memory port", "the way to a memory that another engine uses", "a memory port that another engine uses"
    table = (
        6,
        "activation table",
        "numbers that Scalar loads before it uses an activation function",
        "the table of its activation function",
    )
    meeting = 7, "other core", "the other core, which has not come to the point where both meet", "another core"
    block = (
        0,
        "barrier",
        "all engines, where a loop on the device begins or ends",
        "all that comes before its loop or block",
    )
    queue = 1, "order", "the instruction before on the same queue", "the instruction before it on its queue"


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
    **{cause.word: cause.meaning for cause in Cause if cause.word},
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
