"""Example kernels of the instructions, and the estimates of the instruction in each.

``make docs`` writes ``instruction_examples.txt`` from the modules of ``examples/instructions``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

MARK: Final = "=== "
"""First characters of each entry; the mnemonic follows."""
COSTS: Final = "-----\n"
"""Line between an entry's program and its estimates."""


@dataclass(frozen=True, slots=True)
class ExampleKernel:
    """A kernel that uses an instruction; ``costs`` are the estimates of its first use, a line per group of targets."""

    program: str
    costs: tuple[str, ...]


@cache
def example_kernels() -> dict[str, ExampleKernel]:
    """The example kernel of each public instruction, by mnemonic."""
    text = resources.files("nki.describe").joinpath("instruction_examples.txt").read_text(encoding="utf-8")
    kernels: dict[str, ExampleKernel] = {}
    for entry in text.split(MARK)[1:]:
        mnemonic, _, rest = entry.partition("\n")
        program, _, costs = rest.partition(COSTS)
        kernels[mnemonic] = ExampleKernel(program.strip(), tuple(costs.splitlines()))
    return kernels
