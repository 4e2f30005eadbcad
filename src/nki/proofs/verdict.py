"""The answer of a proof, as an object and as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nki.base.wording import plural
from nki.proofs.witness import Witness

Word = Literal["equal", "different", "undecided"]


@dataclass(frozen=True)
class Place:
    """An element of an output."""

    output: int
    index: tuple[int, ...]

    def __str__(self) -> str:
        return f"output {self.output}[{', '.join(map(str, self.index))}]"


@dataclass(frozen=True)
class Verdict:
    """The answer about two kernels.

    ``bound``: the probability, at most, that kernels that are different are called equal; 1 unless they are.
    ``reason``: what was seen, or what stands in the way. ``witness``: an input that shows a difference. ``place``: an
    element that differs. ``assumptions``: what the inputs are assumed to be like. ``constants``: numbers of the kernels
    that are read as others, which round to them.
    """

    verdict: Word
    old: str
    new: str
    bound: float
    rounds: int
    reason: str
    witness: Witness | None = None
    place: Place | None = None
    assumptions: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    seconds: float = 0.0

    def __bool__(self) -> bool:
        raise TypeError("a verdict has three values: compare `.verdict` with 'equal', 'different' or 'undecided'")

    def __str__(self) -> str:
        lines = [f"{self.old} and {self.new}: {self.verdict}"]
        if self.verdict == "equal":
            lines.append(f"  the same function over the real numbers, for all inputs of these shapes: {self.reason}")
            lines.append(f"  probability of an error: at most {self.bound:.1g} ({plural(self.rounds, 'round')})")
        else:
            lines.append(f"  {self.reason}")
            if self.place is not None and self.witness is None:
                lines.append(f"  the first element that differs as far as it was followed: {self.place}")
        lines += [f"  assumed: {each}" for each in self.assumptions]
        if self.constants and self.verdict == "equal":
            lines.append(f"  constants are read up to rounding: {', '.join(self.constants)}")
        if self.witness is not None:
            lines += [f"  {line}" for line in str(self.witness).split("\n")]
        lines.append(f"  {self.seconds:.1f} s")
        return "\n".join(lines)


def reported(verdict: Verdict, runs: int) -> list[str]:
    """Lines of a report about a verdict; ``runs``: the inputs on which both versions were compared."""
    if verdict.verdict == "equal":
        rounds = f"probability of an error at most {verdict.bound:.1g}"
        lines = [f"proved equal for all inputs of these shapes, over the real numbers ({rounds})"]
    elif verdict.witness is not None:
        lines = [f"proved different: {line}" if not at else f"  {line}"
                 for at, line in enumerate(str(verdict.witness).split("\n"))]  # fmt: skip
    else:
        lines = [f"not proved: {verdict.reason}; compared on {plural(runs, 'input')} only"]
    lines += [f"  assumed: {each}" for each in verdict.assumptions]
    if verdict.constants and verdict.verdict == "equal":
        lines.append(f"  constants are read up to rounding: {', '.join(verdict.constants)}")
    return lines


__all__ = ["Place", "Verdict", "Word", "reported"]
