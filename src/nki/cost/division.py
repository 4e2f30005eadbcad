"""Time of a division, which no engine can do: a product behind the reciprocals of the divisor.

The reference of releases 2.22 to 2.26.1 lists the operators of each engine (Supported Math Operators for NKI ISA), and
no division. The known issues of NKI 0.3 name the way out: "Division is not available as a hardware instruction. As a
workaround, multiply by the reciprocal". A number is inverted when the kernel is compiled, a column of one element per
partition by one short instruction, a tile element by element on Vector.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nki.ir.estimate import Compute
from nki.ir.types import Access
from nki.target.model import Target


def divisors(op: Any, data: Access, operand: object, reverse: bool = False) -> int:
    """The elements per partition that ``data <op> operand`` needs reciprocals of; ``reverse`` swaps the sides. A
    dimension that repeats elements counts once.
    """
    divisor = data if reverse else operand
    if op is None or op.name != "divide" or not isinstance(divisor, Access):
        return 0
    count = 1
    for size, stride in zip(divisor.shape[1:], divisor.strides[1:], strict=True):
        count *= size if stride else 1
    return count


def behind_reciprocals(product: Compute, count: int, target: Target) -> Compute:
    """``product`` behind the reciprocals of ``count`` elements per partition, which it reads (0: of none)."""
    if not count:
        return product
    added, chained = _reciprocals(count, target)
    kind, source = target.origin("divisor_cycles")
    longer = product.lasting(product.occupancy + added)
    return replace(longer, latency=longer.latency + chained, kind=kind, source=source)


def _reciprocals(count: int, target: Target) -> tuple[float, float]:
    """The time of Vector for the reciprocals of ``count`` elements per partition, and the time behind it until an
    instruction that reads them may begin.
    """
    cycles = count * target.divisor_cycles
    interval = max(target.min_interval_cycles, cycles) + target.vector_issue_cycles
    chained = cycles + target.vector_issue_cycles + target.vector_dependent_cycles - interval
    return interval / target.vector_clock_ghz, max(0.0, chained) / target.vector_clock_ghz
