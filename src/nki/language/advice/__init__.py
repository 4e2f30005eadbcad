"""Advice: for a mistake in a kernel, the code to write instead, with the user's own names.

``advise`` is the dialect's. It gets an exception and the site at which it left the user's code, and returns the error
to report, or None where nothing better is known than the exception itself says.
"""

from __future__ import annotations

from nki.base.errors import IndexRangeError, NkiError
from nki.frontend.site import Site
from nki.language.advice.calls import advise_call
from nki.language.advice.local_names import advise_local
from nki.language.advice.operands import advise_operand
from nki.language.advice.quotients import advise_quotient
from nki.language.advice.runtime_indices import advise_runtime_index
from nki.language.advice.slices import advise_slice
from nki.language.advice.statements import advise_python


def advise(exc: Exception, site: Site) -> NkiError | None:
    """The error for ``exc``, with a fix that is code wherever the code is known."""
    if (error := advise_quotient(exc, site) or advise_runtime_index(exc, site)) is not None:
        return error
    if isinstance(exc, NkiError):
        if isinstance(exc, IndexRangeError):
            return advise_slice(exc, site)
        return advise_operand(exc, site) or advise_call(exc, site) or advise_python(exc, site)
    return advise_local(exc, site) or advise_python(exc, site)


__all__ = ["advise"]
