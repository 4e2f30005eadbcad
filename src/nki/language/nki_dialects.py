"""The dialects of NKI: one for each release, and the default, which accepts what any release accepts and warns of what
others refuse.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from nki.frontend.dialect import Dialect, ForeignNames, InstructionStyle, PythonRules, TensorType
from nki.frontend.inlining import call_hook
from nki.frontend.release import Release
from nki.frontend.rewrite import CALL
from nki.frontend.syntax_rules import RULES, kernel_signature, newer_syntax
from nki.language.advice import advise
from nki.language.advice.argument_order import by_kind
from nki.language.advice.beta1 import advise_removed
from nki.language.advice.older_order import older_order
from nki.language.advice.other_libraries import KEYWORDS, OTHERS
from nki.language.nki_tensor import NkiTensor
from nki.language.releases import RELEASES
from nki.language.releases.v0_2 import OF_BETA_1, RESULT_FIX, SWAPPED


def _dialect(release: Release) -> Dialect:
    """The rules of one release."""
    own = RELEASES.until(release)
    return Dialect(
        name=f"nki {release.version}",
        releases=(release,),
        namespaces=("nki",),
        tensor=TensorType(NkiTensor, NkiTensor),
        python=PythonRules(
            RULES,
            newer_syntax,
            kernel_signature,
            traced=release.traced,
            accepted=own.accepted(),
            portable_since=RELEASES.portable_since(),
        ),
        hooks={CALL: call_hook, **own.hooks()},
        instructions=InstructionStyle("dst", RESULT_FIX, SWAPPED, "dtype", older_order, by_kind),
        availability=RELEASES.availability(release),
        removed=replace(OF_BETA_1, exact=advise_removed),
        foreign=ForeignNames(OTHERS, KEYWORDS),
        imports={
            "math": "import math",
            "nccl": "import nki.collectives as nccl",
            "nisa": "import nki.isa as nisa",
            "nki": "import nki",
            "nl": "import nki.language as nl",
            "np": "import numpy as np",
        },
        warnings=own.warnings(),
        advise=advise,
    )


RELEASED: Final = tuple(map(_dialect, RELEASES))
"""One for each release."""

_STRICTEST: Final = _dialect(RELEASES.last_parsed)

NKI: Final = replace(
    _STRICTEST,
    name="nki",
    releases=tuple(RELEASES),
    python=replace(_STRICTEST.python, traced=True, accepted=frozenset(RELEASES.portable_since()), warns=True),
    availability=RELEASES.availability_in_any(),
)
"""The default. It has the rules of the last release with a parser, all names of all releases, and the Python that any
release takes, with a portability warning.
"""

__all__ = ["NKI", "RELEASED"]
