"""``neuronxcc.nki.compiler``: direct allocation, and directives that change no value here."""

from __future__ import annotations

from nki.beta1.allocation import (
    allocation_scope,
    enable_stack_allocator,
    force_auto_alloc,
    multi_buffer,
    psum,
    sbuf,
    skip_middle_end_transformations,
)
from nki.language import no_reorder

__all__ = [
    "allocation_scope", "enable_stack_allocator", "force_auto_alloc", "multi_buffer", "no_reorder", "psum", "sbuf",
    "skip_middle_end_transformations",
]  # fmt: skip
