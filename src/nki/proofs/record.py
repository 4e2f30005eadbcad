"""A verdict in values that JSON has."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from nki.proofs.verdict import Verdict


class ProofRecord(TypedDict):
    """The fields of a verdict."""

    verdict: Annotated[Literal["equal", "different", "undecided"], "the same function over the real numbers, or not"]
    old: Annotated[str, "name of the one side"]
    new: Annotated[str, "name of the other side"]
    bound: Annotated[float, "probability, at most, that different kernels are called equal; 1 unless they are"]
    rounds: Annotated[int, "random fields in which both were equal"]
    reason: Annotated[str, "what was seen, or what stands in the way"]
    place: Annotated[list[Any] | None, "an element that differs: the number of its output, and its index"]
    assumptions: Annotated[list[str], "what the inputs are assumed to be like"]
    constants: Annotated[list[str], "numbers that are read as others, which round to them"]
    witness: Annotated[dict[str, Any] | None, "an input that shows a difference, both results, and the lines"]
    seconds: Annotated[float, "the time that it took; s"]


def record(verdict: Verdict) -> ProofRecord:
    """``verdict`` as a record."""
    place = verdict.place
    return {
        "verdict": verdict.verdict,
        "old": verdict.old,
        "new": verdict.new,
        "bound": verdict.bound,
        "rounds": verdict.rounds,
        "reason": verdict.reason,
        "place": None if place is None else [place.output, list(place.index)],
        "assumptions": list(verdict.assumptions),
        "constants": list(verdict.constants),
        "witness": None if verdict.witness is None else verdict.witness.json(),
        "seconds": verdict.seconds,
    }


__all__ = ["ProofRecord", "record"]
