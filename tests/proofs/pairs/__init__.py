"""The pairs by family: each module has kernels, and ``PAIRS`` of them."""

from __future__ import annotations

from tests.proofs.pair import Pair

from . import (
    attention,
    beta1,
    heads,
    jax_references,
    layouts,
    masks,
    mlp,
    models,
    norms,
    numpy_references,
    products,
    pytorch_references,
    reductions,
    scans,
    softmax,
)

MODULES = (
    softmax,
    products,
    norms,
    attention,
    heads,
    mlp,
    scans,
    masks,
    reductions,
    layouts,
    beta1,
    numpy_references,
    pytorch_references,
    jax_references,
    models,
)
PAIRS: dict[str, Pair] = {}
for _module in MODULES:
    for _pair in _module.PAIRS:
        assert _pair.name not in PAIRS, _pair.name
        PAIRS[_pair.name] = _pair
