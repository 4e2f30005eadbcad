"""Advice: for a mistake in a kernel, the code to write instead, with the user's own names.

``ANSWERS`` lists what users get wrong, in the order in which it is looked for. ``advise`` is the dialect's: it gets an
exception and the site at which it left the user's code, and returns the error to report, or None where nothing better
is known than the exception itself says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from nki.base.errors import (
    ArgumentError,
    IndexRangeError,
    MemoryRegionError,
    NkiError,
    RegisterUseError,
    TensorOperatorError,
    UnknownDTypeError,
)
from nki.frontend.frontend_errors import UnknownApiError
from nki.frontend.site import Site
from nki.language.advice import tensor_statements
from nki.language.advice.call_fixits import advise_call
from nki.language.advice.host_functions import advise_text
from nki.language.advice.local_names import advise_local
from nki.language.advice.operand_fixits import advise_operand
from nki.language.advice.quotients import advise_quotient
from nki.language.advice.runtime_indices import advise_runtime_index
from nki.language.advice.slices import advise_slice

_OURS: Final = (TensorOperatorError, UnknownApiError, RegisterUseError)
"""Errors of tensors and registers on Python that they do not have."""
_PYTHON: Final = (*_OURS, TypeError, AttributeError, ValueError)


@dataclass(frozen=True, slots=True)
class Answer:
    """A row: a mistake as code, the exceptions in which it ends, and the function that answers it, if it is that.

    ``tests/errors/test_fixits.py`` runs the mistake.
    """

    mistake: str
    on: tuple[type[Exception], ...]
    advise: Callable[[Any, Site], NkiError | None]

    def applies(self, exc: Exception) -> bool:
        """True if the mistake may end in ``exc``."""
        ours = isinstance(exc, NkiError)  # some of ours are errors of Python as well
        return isinstance(exc, tuple(kind for kind in self.on if issubclass(kind, NkiError) == ours))


ANSWERS: Final = (
    Answer("nl.ndarray((8, 16 / 2), dtype=nl.float32, buffer=nl.sbuf)", (NkiError, TypeError), advise_quotient),
    Answer("nl.fori_loop(0, 4, lambda i: nl.copy(a[:, i * 2 : i * 2 + 2]))", (RegisterUseError,), advise_runtime_index),
    Answer("nl.copy(a[:, 4:12])", (IndexRangeError,), advise_slice),
    Answer("nl.exp(x)", (ArgumentError, MemoryRegionError, UnknownDTypeError), advise_operand),
    Answer("nisa.nc_matmul(t, a, b)", (NkiError,), advise_call),
    Answer("t[3] = a[5]", (NkiError,), tensor_statements.advise_assignment),
    Answer("nl.load(x + 4)", _PYTHON, tensor_statements.advise_pointer),
    Answer("float(a)", _PYTHON, tensor_statements.advise_conversion),
    Answer("if a > 0: nl.store(out, a)", _PYTHON, tensor_statements.advise_control_flow),
    Answer("a.shape = (8, 4, 2)", _PYTHON, tensor_statements.advise_attribute),
    Answer("None.shape", (AttributeError,), tensor_statements.advise_no_tensor),
    Answer("print(f'{a:.3f}')", (TypeError,), advise_text),
    Answer("np.exp(a + 2 * b)", _PYTHON, tensor_statements.advise_python),
    Answer("def body(i):\n    a = nl.add(a, b)\nnl.fori_loop(0, 4, body)", (UnboundLocalError,), advise_local),
)  # fmt: skip


def advise(exc: Exception, site: Site) -> NkiError | None:
    """The error for ``exc``, with a fix that is code wherever the code is known."""
    for answer in ANSWERS:
        if answer.applies(exc) and (error := answer.advise(exc, site)) is not None:
            return error
    return None


__all__ = ["ANSWERS", "Answer", "advise"]
