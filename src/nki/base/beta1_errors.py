"""Errors of the Beta 1 dialect. Each message begins with the name that Beta 1's documentation gives the error."""

from __future__ import annotations

from nki.base.errors import NkiError


class Beta1IndexError(NkiError):
    """An index expression that Beta 1 does not have, or that leaves the tensor."""

    code = "NKI-B1001"


class Beta1MaskError(NkiError):
    """A mask that is no comparison of index expressions, or does not fit the operation."""

    code = "NKI-B1002"


class Beta1TensorError(NkiError):
    """A tensor with a shape, memory or initial value that Beta 1 does not allow."""

    code = "NKI-B1003"


class Beta1OperandError(NkiError):
    """An operand of a function that has the wrong kind, shape or memory."""

    code = "NKI-B1004"


class Beta1LaunchError(NkiError):
    """A launch, an option of it, or a use of arguments that Beta 1 does not allow."""

    code = "NKI-B1005"


class Beta1FlowError(NkiError):
    """Control flow that depends on an index or on values of a tile."""

    code = "NKI-B1006"


class Beta1AllocationError(NkiError):
    """A direct allocation that names an address outside its memory, or the wrong number of tiles."""

    code = "NKI-B1007"
