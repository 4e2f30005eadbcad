"""A step of generation with a cache, for a profile of the whole step.

``nki profile examples/llama/decode.py:decode --step torch --arg 1:int64 --target trn2``
"""

from __future__ import annotations

import torch
from torch import Tensor

from examples.llama.model import Sizes, first_weights, rotation, step_tables
from examples.llama.pytorch import WITH_KERNELS, forward

SIZES = Sizes()
WEIGHTS = {name: torch.from_numpy(array) for name, array in first_weights(SIZES).items()}
TABLES = [torch.from_numpy(table) for table in (*rotation(SIZES.tokens), *step_tables(SIZES.tokens))]
CACHES = [
    (torch.zeros(SIZES.features, SIZES.tokens), torch.zeros(SIZES.tokens, SIZES.features)) for _ in range(SIZES.layers)
]


@torch.inference_mode()
def decode(token: Tensor, position: int = 64) -> Tensor:
    """Logits [1, vocabulary] after the token at ``position``, which goes into the caches."""
    return forward(WEIGHTS, token, WITH_KERNELS, lambda qkv, n: WITH_KERNELS.step(qkv, TABLES, CACHES[n], position))
