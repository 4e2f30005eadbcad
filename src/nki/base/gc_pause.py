"""Keep Python's garbage collector from slowing down work that makes many objects and drops few."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def paused() -> Generator[None]:
    """No cyclic garbage collection inside.

    Compiling makes hundreds of thousands of objects that all stay alive; the collector would go over them again and
    again, which doubles the time of a large kernel.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
