"""The dialect of NKI 0.2 to 0.6: the newest release, which accepts what any of them accepts."""

from __future__ import annotations

from typing import Final

from nki.frontend.device_loops import while_hook
from nki.frontend.dialect import Dialect, InstructionStyle, RemovedNames, TensorType
from nki.frontend.inlining import call_hook
from nki.frontend.rewrite import CALL, WHILE
from nki.frontend.syntax_rules import RULES, kernel_signature, newer_syntax
from nki.language.advice import advise
from nki.language.removed_names import (
    NAMESPACE,
    REMOVED,
    REMOVED_ATTRIBUTES,
    REMOVED_KEYWORDS,
    REMOVED_PARAMETERS,
    SWAPPED,
    result_fix,
)
from nki.language.tensor import NkiTensor

NKI: Final = Dialect(
    name="nki",
    releases=("0.2", "0.3", "0.4", "0.5", "0.6"),
    namespaces=("nki",),
    tensor=TensorType(NkiTensor, NkiTensor),
    syntax_rules=RULES,
    unknown_syntax=newer_syntax,
    signature_rule=kernel_signature,
    hooks={CALL: call_hook, WHILE: while_hook},
    instructions=InstructionStyle("dst", result_fix, SWAPPED, "dtype"),
    removed=RemovedNames(REMOVED, REMOVED_ATTRIBUTES, REMOVED_KEYWORDS, REMOVED_PARAMETERS, {"neuronxcc": NAMESPACE}),
    imports={
        "math": "import math",
        "nccl": "import nki.collectives as nccl",
        "nisa": "import nki.isa as nisa",
        "nki": "import nki",
        "nl": "import nki.language as nl",
        "np": "import numpy as np",
    },
    advise=advise,
)

__all__ = ["NKI"]
