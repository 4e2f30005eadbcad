"""``nki.framework.kernel``: the class of what ``nki.jit`` returns."""

from nki.jit import Kernel

__all__ = ["Kernel"]
