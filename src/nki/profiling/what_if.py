"""A target with other numbers, named by resource or by fact: what a what-if asks about."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any, Final

from nki.base.profile_errors import WhatIfError
from nki.target.fact_rows import Fact
from nki.target.model import Target

RESOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "dma_bandwidth": (
        "dma_engine_peak_gbps",
        "dma_engine_sustained_gbps",
        "dma_engine_store_gbps",
        "hbm_chip_gbps",
        "hbm_stack_gbps",
        "gpsimd_dma_gbps",
    ),
    "hbm_bandwidth": ("hbm_chip_gbps", "hbm_stack_gbps"),
    "collective_bandwidth": ("neuronlink_chip_gbps", "neuronlink_nodes_gbps", "efa_chip_gbps"),
    "tensor_clock": ("tensor_clock_ghz",),
    "vector_clock": ("vector_clock_ghz",),
    "scalar_clock": ("scalar_clock_ghz",),
    "gpsimd_clock": ("gpsimd_clock_ghz",),
}
"""Facts that grow with a resource: a factor multiplies them."""
DELAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "dma_latency": (
        "dma_start_ns",
        "dma_hardware_start_ns",
        "dma_software_start_ns",
        "dma_static_start_ns",
        "dma_second_load_ns",
        "dma_completion_ns",
        "gpsimd_dma_latency_ns",
    ),
    "dma_issue": ("dma_trigger_ns", "dma_hardware_trigger_ns", "dma_software_trigger_ns", "dma_row_indices_ns"),
    "collective_latency": ("collective_start_ns", "neuronlink_hop_ns", "efa_hop_ns"),
    "semaphore": ("semaphore_ns", "remote_semaphore_ns"),
    "table_load": ("activation_table_load_ns", "activation_table_swap_ns"),
    "launch": ("launch_ns",),
    "capture": ("capture_ns",),
}
"""Facts that are times: a factor multiplies them."""


LEAST, MOST, LONGEST_NS = 1e-6, 1e6, 1e9
"""Factors and values beyond these are slips of the hand; times in ns may be as long as a second."""
_SETTLED_UNITS = frozenset(
    {"banks", "dimensions", "indices", "levels", "numbers", "partitions", "semaphores", "tensors", "words"}
)


def changed(target: Target, changes: Mapping[str, Any]) -> Target:
    """``target`` with ``changes``: a factor for a resource or delay, a value for a fact (``semaphore_ns=20``).

    A factor multiplies the range of a guess, too; a value is certain.

    Raises :class:`WhatIfError` for a name that is none of them, for a fact that decides which kernels there are and not
    how long they take, and for a value that is no positive number (facts that are times, or have 0 in their range, may
    be 0) or has no sense.
    """
    facts = target.facts()
    result: dict[str, Fact[Any]] = {}
    for name, value in changes.items():
        fields = RESOURCES.get(name) or DELAYS.get(name)
        factor = fields is not None
        if fields is None and name in facts and isinstance(facts[name].value, int | float):
            fields = (name,)
        if fields is None:
            raise _unknown(name, target)
        if not factor and _is_settled(name, facts[name]):
            raise WhatIfError(
                name,
                "…",
                f"the compiler has used this number, {facts[name].value}, to make the program, which a what-if keeps",
                fix=f"ask for a number that times follow: {', '.join([*RESOURCES, *DELAYS])}, or a fact in ns, cycles, "
                "GHz or GB/s",
            )
        least_is_zero = name in DELAYS or name.endswith("_ns") or (not factor and _may_be_zero(facts[name]))
        amount = _number(name, value, least_is_zero)
        for field in fields:
            fact = result.get(field, facts[field])
            fresh = _kept(fact, fact.value * amount if factor else amount)
            ends = tuple(_kept(fact, end * amount) for end in fact.range) if factor and fact.range else None
            result[field] = replace(fact, value=fresh, source=f"what if: {name}={amount:g}", range=ends)
    return target.with_facts(result)


def _kept(fact: Fact[Any], number: float) -> float:
    """``number`` as a value of ``fact``, which may be a whole number of at least 1."""
    return max(1, round(number)) if isinstance(fact.value, int) and fact.value > 0 else float(number)


def _may_be_zero(fact: Fact[Any]) -> bool:
    return fact.value == 0 or (fact.range is not None and 0 in fact.range)


def _is_settled(name: str, fact: Fact[Any]) -> bool:
    """Test if a fact decides what a kernel may be and where its tiles lie: its program has used it."""
    return (
        fact.unit in _SETTLED_UNITS
        or name.endswith("max")
        or name.startswith(("sbuf_", "psum_"))
        or name == "hbm_bytes"
    )


def _number(name: str, value: object, least_is_zero: bool) -> float:
    """``value`` as a number that the fact or factor ``name`` may have."""
    number = float(value) if not isinstance(value, bool) and isinstance(value, Real) else -1.0
    if not 0.0 <= number < float("inf") or (number == 0.0 and not least_is_zero):
        raise WhatIfError(
            name,
            repr(value),
            f"this is no {'time or factor' if least_is_zero else 'positive number'}",
            fix=f"pass a number such as {name}=2.0",
        )
    most = LONGEST_NS if name.endswith("_ns") else MOST
    if number and not LEAST <= number <= most:
        raise WhatIfError(
            name, repr(value), "no hardware is like that", fix=f"pass a number between {LEAST:g} and {most:g}"
        )
    return number


def _unknown(name: str, target: Target) -> WhatIfError:
    timing = [n for n, fact in target.facts().items() if isinstance(fact.value, int | float) and fact.unit]
    near = difflib.get_close_matches(name, [*RESOURCES, *DELAYS, *timing], 3)
    return WhatIfError(
        name,
        "…",
        f"there is no such number of {target}",
        fix=(f"did you mean {' or '.join(near)}? " if near else "")
        + f"factors: {', '.join([*RESOURCES, *DELAYS])}; or a fact of docs/reference/targets.md",
    )
