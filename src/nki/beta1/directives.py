"""Decorators and context managers of ``nki.compiler`` that direct Beta 1's compiler. Here none changes anything."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from nki.language import no_reorder


def _same(func: Any = None, **_: Any) -> Any:
    return _itself if func is None else func


def _itself(func: Any) -> Any:
    return func


def skip_middle_end_transformations(func: Any = None, **options: Any) -> Any:
    """The function itself."""
    return _same(func, **options)


def enable_stack_allocator(func: Any = None, log_level: Any = None, **options: Any) -> Any:
    """The function itself."""
    del log_level
    return _same(func, **options)


def force_auto_alloc(func: Any = None, **options: Any) -> Any:
    """The function itself."""
    return _same(func, **options)


@contextmanager
def multi_buffer(factor: int = 1) -> Generator[None]:
    """Nothing: the compiler decides how many tiles are alive."""
    del factor
    yield


@contextmanager
def allocation_scope(*_: Any, **__: Any) -> Generator[None]:
    """Nothing: tiles live from their first use to their last."""
    yield


__all__ = [
    "allocation_scope", "enable_stack_allocator", "force_auto_alloc", "multi_buffer", "no_reorder",
    "skip_middle_end_transformations",
]  # fmt: skip
