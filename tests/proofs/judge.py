"""The judge of ``nki.prove``: what it says of the pairs and of the mutants, counted.

``python -m tests.proofs.judge pairs`` and ``… mutants 40`` print the table and the names that fell short.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import nki

from . import mutants
from .pair import Array
from .pairs import PAIRS

Word = Literal["equal", "different", "undecided"]


class Verdict(Protocol):
    """What the judge looks at."""

    @property
    def verdict(self) -> Word: ...


Prove = Callable[..., Callable[..., Verdict]]
Question = tuple[str, Callable[..., Any], Callable[..., Any], list[Array]]
"""A name, the two sides, and arguments; only their shapes and dtypes count."""


def prover() -> Prove | None:
    """``nki.prove``; None before it is there. The only place that knows it."""
    return getattr(nki, "prove", None)


@dataclass
class Count:
    """Names by verdict; ``failed`` are those that raised, with the error."""

    equal: list[str] = field(default_factory=list[str])
    different: list[str] = field(default_factory=list[str])
    undecided: list[str] = field(default_factory=list[str])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    seconds: float = 0.0

    def of(self, word: Word) -> list[str]:
        return getattr(self, word)

    @property
    def total(self) -> int:
        return len(self.equal) + len(self.different) + len(self.undecided) + len(self.failed)

    def share(self, word: Word) -> float:
        return len(self.of(word)) / max(self.total, 1)

    def __str__(self) -> str:
        words: tuple[Word, ...] = ("equal", "different", "undecided")
        parts = [f"{len(self.of(word))} {word}" for word in words]
        return f"{', '.join(parts)}, {len(self.failed)} failed; {self.total} in {self.seconds:.0f} s"


def judged(prove: Prove, questions: Iterable[Question]) -> Count:
    """What ``prove`` says of each question."""
    count = Count()
    begun = time.monotonic()
    for name, old, new, arguments in questions:
        try:
            count.of(prove(old, new)(*arguments).verdict).append(name)
        except Exception as error:  # one that fails is counted, and the others are still asked
            count.failed[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    count.seconds = time.monotonic() - begun
    return count


def equal_questions(names: Iterable[str] | None = None) -> Iterator[Question]:
    """The pairs."""
    for name in PAIRS if names is None else names:
        pair = PAIRS[name]
        yield name, pair.old, pair.new, pair.arguments()


def different_questions(chosen: Iterable[mutants.Mutant], folder: Path) -> Iterator[Question]:
    """The side of a pair that stays, and the mutant of the other one."""
    for mutant in chosen:
        yield mutant.name, mutant.right, mutant.wrong(folder), PAIRS[mutant.pair].arguments()


def main(which: str, most: int = 1000) -> None:
    prove = prover()
    assert prove is not None, "there is no nki.prove here"
    with tempfile.TemporaryDirectory() as folder:
        if which == "pairs":
            wanted: Word = "equal"
            count = judged(prove, equal_questions(list(PAIRS)[:most]))
        else:
            wanted = "different"
            every = mutants.stored()
            count = judged(prove, different_questions(every[:: max(1, len(every) // most)], Path(folder)))
    print(count)
    words: tuple[Word, ...] = ("equal", "different", "undecided")
    for word in words:
        if word != wanted:
            print(*(f"  {word}: {name}" for name in count.of(word)), sep="\n")
    print(*(f"  failed: {name}: {why}" for name, why in count.failed.items()), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))
