"""The dialects of NKI: one for each of the releases 0.2 to 0.6, whose kernels are parsed; one for 0.7, whose kernels
are traced; and the default, which accepts what any release accepts and warns of what older ones refuse.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from nki.base.errors import NkiError
from nki.frontend import errors
from nki.frontend.device_loops import while_hook
from nki.frontend.dialect import Dialect, InstructionStyle, LaterNames, NewerPython, RemovedNames, TensorType
from nki.frontend.inlining import call_hook, nested_hook
from nki.frontend.rewrite import CALL, NESTED, WHILE
from nki.frontend.syntax_rules import RULES, kernel_signature, newer_syntax
from nki.language.advice import advise
from nki.language.advice.argument_order import by_kind
from nki.language.advice.beta1 import advise_removed
from nki.language.advice.other_libraries import KEYWORDS, OTHERS
from nki.language.releases.names import INSTEAD, OPERATORS_BEFORE, RELEASES, later_than
from nki.language.releases.removed_names import (
    NAMESPACE,
    REMOVED,
    REMOVED_ATTRIBUTES,
    REMOVED_KEYWORDS,
    REMOVED_PARAMETERS,
    REMOVED_SINCE_0_7,
    RESULT_FIX,
    SWAPPED,
    older_order,
)
from nki.language.tensor import NkiTensor

PARSED: Final = RELEASES[:-1]
TRACED: Final = RELEASES[-1:]

_REFUSED_UNTIL_0_6: Final[tuple[type[NkiError], ...]] = (
    errors.NoSourceError,
    errors.SourceChangedError,
    errors.GeneratorError,
    errors.WithError,
    errors.TryError,
    errors.RaiseError,
    errors.GlobalError,
    errors.DelError,
    errors.ImportInKernelError,
    errors.ClassInKernelError,
    errors.MatchError,
    errors.WalrusError,
    errors.LiteralError,
    errors.DictKeyError,
    errors.SignatureError,
    errors.SyntaxNotInNkiError,
    errors.DecoratorError,
    errors.HostBuiltinError,
    errors.OutsideChangedError,
)
"""Errors of the parser about Python that the tracer runs ("Announcing changes to NKI specialization", NKI 0.7)."""
_SINCE: Final[dict[type[NkiError], str]] = dict.fromkeys(_REFUSED_UNTIL_0_6, "0.7")

NKI_0_6: Final = Dialect(
    name="nki 0.6",
    releases=PARSED[-1:],
    namespaces=("nki",),
    tensor=TensorType(NkiTensor, NkiTensor),
    syntax_rules=RULES,
    unknown_syntax=newer_syntax,
    signature_rule=kernel_signature,
    hooks={CALL: call_hook, WHILE: while_hook},
    instructions=InstructionStyle("dst", RESULT_FIX, SWAPPED, "dtype", older_order, by_kind),
    removed=RemovedNames(
        REMOVED,
        REMOVED_ATTRIBUTES,
        REMOVED_KEYWORDS,
        REMOVED_PARAMETERS,
        {"neuronxcc": NAMESPACE},
        exact=advise_removed,
    ),
    imports={
        "math": "import math",
        "nccl": "import nki.collectives as nccl",
        "nisa": "import nki.isa as nisa",
        "nki": "import nki",
        "nl": "import nki.language as nl",
        "np": "import numpy as np",
    },
    advise=advise,
    others=OTHERS,
    keywords=KEYWORDS,
    later=LaterNames(later_than("0.6"), INSTEAD, OPERATORS_BEFORE),
)

_FIRST: Final[dict[str, Any]] = {
    "hooks": {**NKI_0_6.hooks, NESTED: nested_hook},
    "decorated": "`{0}` has a decorator of its own, and a kernel calls it: release 2.27 of NKI 0.2 refuses that, "
    "2.28 takes it. Leave the decorator out, and write `nki.jit({0})(…)` where the host calls it",
}
"""Rules of 0.2 alone (migration guide; the public library of 2.28 calls decorated kernels from kernels)."""

OLDER: Final = tuple(
    replace(
        NKI_0_6,
        name=f"nki {release}",
        releases=(release,),
        later=LaterNames(later_than(release), INSTEAD, OPERATORS_BEFORE),
        **(_FIRST if release == PARSED[0] else {}),
    )
    for release in PARSED[:-1]
)
"""Releases 0.2 to 0.5: the syntax of 0.6 with fewer names, and 0.2 with fewer forms."""

NKI: Final = replace(
    NKI_0_6, name="nki", releases=RELEASES, newer=NewerPython(_SINCE, warns=True), later=LaterNames()
)  # fmt: skip
"""The default: a portability warning names what releases before 0.7 refuse."""

NKI_0_7: Final = replace(
    NKI_0_6,
    name="nki 0.7",
    releases=TRACED,
    hooks={CALL: call_hook},
    removed=replace(NKI_0_6.removed, since=REMOVED_SINCE_0_7),
    newer=NewerPython(_SINCE),
    later=LaterNames(),
)
"""Silent about Python; without the loops that 0.7 has removed."""

RELEASED: Final = (*OLDER, NKI_0_6, NKI_0_7)
"""One for each release."""

__all__ = ["NKI", "NKI_0_6", "NKI_0_7", "RELEASED"]
