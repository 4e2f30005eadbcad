"""Bridges between kernels and array frameworks, one module each; a module is imported when its framework is first used.

A bridge module has an ``ADAPTER`` (see :class:`nki.frameworks.kernel.Adapter`) and a subclass of
:class:`nki.frameworks.kernel.FrameworkKernel`.
"""

from __future__ import annotations

from typing import Final

from nki.compiler.bridges import Bridge

BRIDGES: Final = (
    Bridge(f"{__name__}.numpy", (), 0),
    Bridge(f"{__name__}.torch", ("torch",), 1),
    Bridge(f"{__name__}.jax", ("jax", "jaxlib"), 2),
)
