"""Pairs that were written without a look at the others, to see how far the identities of proofs reach."""

from __future__ import annotations

from tests.proofs.pair import Pair

from . import attention, layers, norms

FRESH: dict[str, Pair] = {}
for _module in (attention, norms, layers):
    for _pair in _module.PAIRS:
        assert _pair.name not in FRESH, _pair.name
        FRESH[_pair.name] = _pair
