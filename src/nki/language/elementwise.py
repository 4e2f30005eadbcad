"""Functions of elements: what ``nl.add(x, y)``, ``nl.exp(x)`` and the like emit.

Most have the name of an operator, which instructions take as ``op=``; there the function is what a call of the name
does. Results are new tiles in SBUF. Source: NKI reference, nki.language, and its known issues (NKI 0.3 to 0.4).
"""

from __future__ import annotations

import math
from typing import Any, Final

from nki import isa
from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.base.errors import ArgumentError, DTypeError
from nki.ir.floats.runtime_float import receives_floats
from nki.ir.types import Buffer
from nki.isa.tables.alu_operators import TRUTHS
from nki.isa.tables.operators import OPS, Op
from nki.language.nki_tensor import NkiTensor
from nki.language.operands import (
    Operand,
    aligned,
    in_sbuf,
    lifted,
    operand_of,
    promoted,
    result,
    scratch,
    tile_of,
)

_BINARY: Final = {
    "add": "``x + y``",
    "subtract": "``x - y``",
    "multiply": "``x * y``",
    "divide": "``x / y``",
    "maximum": "The larger of ``x`` and ``y``; NaN if one is",
    "minimum": "The smaller of ``x`` and ``y``; NaN if one is",
    "abs_max": "``x`` if ``|x| > |y|``, else ``y`` (gen4)",
    "abs_min": "``x`` if ``|x| < |y|``, else ``y`` (gen4)",
    "power": "``x`` to the power of ``y``",
    "fmod": "The remainder of ``x / y`` with the sign of ``x``",
    "mod": "The remainder of ``x / y`` with the sign of ``y``, as Python's ``%``",
    "equal": "1 where ``x == y``, else 0",
    "not_equal": "1 where ``x != y``, else 0",
    "less": "1 where ``x < y``, else 0",
    "less_equal": "1 where ``x <= y``, else 0",
    "greater": "1 where ``x > y``, else 0",
    "greater_equal": "1 where ``x >= y``, else 0",
    "logical_and": "1 where neither ``x`` nor ``y`` is 0, else 0",
    "logical_or": "1 where ``x`` or ``y`` is not 0, else 0",
    "logical_xor": "1 where just one of ``x`` and ``y`` is not 0, else 0",
    "bitwise_and": "The bits that ``x`` and ``y`` both have",
    "bitwise_or": "The bits that ``x`` or ``y`` has",
    "bitwise_xor": "The bits that just one of ``x`` and ``y`` has",
    "left_shift": "The bits of ``x`` moved left by ``y``; 0 for shifts of the width or more",
    "right_shift": "The bits of ``x`` moved right by ``y``, zeros entering; 0 for shifts of the width or more",
}

_UNARY: Final = {
    "abs": "The absolute value",
    "square": "``x * x``",
    "exp": "e to the power of ``x``",
    "log": "The natural logarithm; right from 2**-64 to 2**64 on the device",
    "sqrt": "The square root",
    "rsqrt": "``1 / sqrt(x)``, on GpSimd",
    "reciprocal": "``1 / x``, on the Vector engine",
    "tanh": "The hyperbolic tangent",
    "arctan": "The inverse tangent, in radians; right from -pi/2 to pi/2 on the device",
    "sigmoid": "``1 / (1 + exp(-x))``",
    "relu": "The larger of ``x`` and 0",
    "gelu": "``x`` times the normal distribution function of ``x``",
    "gelu_dx": "The derivative of gelu",
    "gelu_apprx_tanh": "gelu, approximated with tanh",
    "gelu_apprx_sigmoid": "gelu, approximated as ``x * sigmoid(1.702 * x)``",
    "gelu_apprx_sigmoid_dx": "The derivative of gelu_apprx_sigmoid",
    "silu": "``x * sigmoid(x)``",
    "silu_dx": "The derivative of silu",
    "softplus": "``log(1 + exp(x))``",
    "mish": "``x * tanh(softplus(x))``",
    "erf": "The error function",
    "erf_dx": "The derivative of erf",
    "sign": "-1, 0 or 1",
    "logical_not": "1 where ``x`` is 0, else 0",
    "invert": "All bits of ``x`` flipped; integers only",
    "copy": "``x`` itself, bit for bit if the dtype stays (``nisa.tensor_copy``)",
    "sin": "The sine of an angle in radians",
}


def combine(dst: NkiTensor, op: Op, x: Operand, y: Operand) -> None:
    """``dst = x <op> y`` for tiles of one shape and at most one number."""
    if op.alu is None or not op.alu.bits:
        _emit(dst, op, x, y)
        return
    kind = _dtype(op, x, y)  # bits are combined in the type of the operands, and converted afterwards
    x, y = (_as_wide(side, kind) if isinstance(side, NkiTensor) else side for side in (x, y))
    computed = dst if dst.dtype.is_integer and dst.dtype.itemsize == kind.itemsize else scratch("bits", dst.shape, kind)
    _emit(computed, op, x, y)
    if computed is not dst:
        isa.tensor_copy(dst, computed)


def _emit(dst: NkiTensor, op: Op, x: Operand, y: Operand) -> None:
    if isinstance(x, NkiTensor) and isinstance(y, NkiTensor):
        if op.name == "power":  # it runs on GpSimd, which does not reach PSUM
            x, y = in_sbuf(x), in_sbuf(y)
        both = x.buffer is Buffer.psum and y.buffer is Buffer.psum
        isa.tensor_tensor(dst, x, in_sbuf(y) if both else y, op)
    elif isinstance(x, NkiTensor):
        isa.tensor_scalar(dst, x, op, y)
    elif isinstance(y, NkiTensor):
        isa.tensor_scalar(dst, y, op, x, reverse0=True)


def _as_wide(x: NkiTensor, kind: DType) -> NkiTensor:
    """``x``, or its values in ``kind`` if that has another width."""
    if x.dtype.itemsize == kind.itemsize:
        return x
    wider = scratch(f"{x.name}_wide", x.shape, kind)
    isa.tensor_copy(wider, x)
    return wider


def _dtype(op: Op, *sides: Operand) -> DType:
    """The type of the result by default: the tiles' own; of integers and a number with a point, float32."""
    kinds = [side.dtype for side in sides if isinstance(side, NkiTensor)]
    if op.alu is not None and op.alu.bits:
        return max(kinds, key=lambda kind: kind.itemsize)
    kind = promoted(*kinds) if len(kinds) == 2 else kinds[0]
    fraction = any(isinstance(side, float) for side in sides) and op.name not in TRUTHS
    return dt.float32 if fraction and not kind.is_float else kind


def _whole_numbers(what: str, **sides: Operand) -> None:
    for name, side in sides.items():
        if isinstance(side, NkiTensor) and not side.dtype.is_integer:
            raise DTypeError(
                f"{what}: {name} '{side.name}' {side.shape} is {side.dtype}; only integers have bits to combine",
                fix=f"look at its bits as integers: {side.name}.view(nl.uint{8 * side.dtype.itemsize})",
            )


def _binary(name: str) -> None:
    op, what = OPS[name], f"nl.{name}"

    def function(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        left, right = operand_of(x, what, "x"), operand_of(y, what, "y")
        if op.alu is not None and op.alu.bits:
            _whole_numbers(what, x=left, y=right)
        if isinstance(left, NkiTensor) and isinstance(right, NkiTensor):
            left, right = aligned(what, x=left, y=right)
        elif name == "power":
            lifted("nl.power of a tile and a number: NKI's own takes two tiles (known issues of NKI 0.3)")
        tile = left if isinstance(left, NkiTensor) else right
        if not isinstance(tile, NkiTensor):
            raise ArgumentError(
                f"{what}: x={x!r} and y={y!r} are both numbers", fix="compute with Python, or pass a tile"
            )
        dst = result(name, tile.shape, _dtype(op, left, right) if dtype is None else dtype)
        combine(dst, op, left, right)
        return dst

    function.__doc__ = f"{_BINARY[name]}, element by element, as a new tile.\n\n{_BINARY_DOC}"
    op.bind(receives_floats(function))


_BINARY_DOC: Final = """\
``x`` and ``y``: tiles in SBUF or PSUM; one may be a number. Dimensions of size 1 are repeated where the other
tile is larger, and a (partitions, 1) tile goes with any number of dimensions (with a :class:`NkiPortabilityWarning`).
``dtype``: of the result; by default what both tiles' types make together (see docs/language.md). Raises
:class:`ArgumentError` for two numbers, :class:`MemoryRegionError` for a tensor in HBM, :class:`ShapeError` for
shapes that do not fit; bit operators want integers. Emits ``nisa.tensor_tensor``, or for a number
``nisa.tensor_scalar``."""

_UNARY_DOC: Final = """\
``x``: a tile in SBUF or PSUM. ``dtype``: of the result; by default the dtype of ``x``. Raises
:class:`ArgumentError` for anything but a tile and :class:`MemoryRegionError` for a tensor in HBM. Emits """


def apply(dst: NkiTensor, name: str, x: NkiTensor) -> None:
    """``dst = name(x)``, by the instruction that is meant for it."""
    op = OPS[name]
    if name == "copy":
        isa.tensor_copy(dst, x)
    elif name == "reciprocal":
        isa.reciprocal(dst, x)
    elif name == "rsqrt":
        if x.buffer is Buffer.psum:
            lifted("nl.rsqrt of a tile in PSUM: NKI's own takes SBUF only (migration guide to NKI 0.5)")
        isa.tensor_scalar(dst, in_sbuf(x), op, 0.0, engine=isa.engine.gpsimd)
    elif name == "invert":
        _whole_numbers("nl.invert", x=x)
        computed = dst if dst.dtype.itemsize == x.dtype.itemsize else scratch("bits", x.shape, x.dtype)
        isa.tensor_scalar(computed, x, op, 0)
        if computed is not dst:
            isa.tensor_copy(dst, computed)
    elif name == "sin":
        sine(dst, x, 0.0)
    elif name == "logical_not":
        isa.tensor_scalar(dst, x, op, 0.0)
    else:
        isa.activation(dst, op, x)


_EMITS: Final = {"copy": "nisa.tensor_copy", "reciprocal": "nisa.reciprocal", "rsqrt": "nisa.tensor_scalar",
                 "invert": "nisa.tensor_scalar", "logical_not": "nisa.tensor_scalar",
                 "sin": "nisa.tensor_scalar and nisa.scalar_tensor_tensor, which bring the angle between -pi and pi, "
                        "then nisa.activation"}  # fmt: skip


def _unary(name: str) -> None:
    what = f"nl.{name}"

    def function(x: Any, dtype: Any = None) -> NkiTensor:
        tile = tile_of(x, what)
        dst = result(name, tile.shape, tile.dtype if dtype is None else dtype)
        apply(dst, name, tile)
        return dst

    function.__doc__ = f"{_UNARY[name]}, as a new tile.\n\n{_UNARY_DOC}{_EMITS.get(name, 'nisa.activation')}."
    OPS[name].bind(function)


_TURN: Final = 2 * math.pi
_TURN_PARTS: Final = (6.28125, 0.00193023681640625, 5.070363386039389e-06)
"""2 pi as a sum; the first two have eight bits, so that their products with up to 2**16 quarter turns are exact."""
_ROUND: Final = 1.5 * 2.0**23
"""Added and subtracted again, it leaves a float32 below 2**22 rounded to a whole number."""


def sine(dst: NkiTensor, x: NkiTensor, turns: float) -> None:
    """``dst = sin(x + turns * 2 * pi)``; ``turns`` is a multiple of a quarter.

    The number of whole turns is taken off in three steps, each of them exact or nearly so, because the Scalar engine
    knows the sine only between -pi and pi (NKI reference, Supported Activation Functions). The angle that is left is
    wrong by less than 5e-7 up to 2**16, and more and more beyond.
    """
    whole, angle, left = scratch("turns", x.shape), scratch("angle", x.shape), x
    for ahead in (turns, 0.0):  # of a large angle, the first count may be one off
        isa.tensor_scalar(whole, left, OPS["multiply"], 1 / _TURN, op1=OPS["add"], operand1=ahead)
        isa.tensor_scalar(whole, whole, OPS["add"], _ROUND, op1=OPS["subtract"], operand1=_ROUND)
        if ahead:
            isa.tensor_scalar(whole, whole, OPS["subtract"], ahead)
        for part in _TURN_PARTS:
            isa.scalar_tensor_tensor(angle, whole, OPS["multiply"], -part, OPS["add"], left)
            left = angle
    isa.tensor_scalar(angle, angle, OPS["minimum"], math.pi, op1=OPS["maximum"], operand1=-math.pi)
    isa.activation(dst, OPS["sin"], angle)


def cos(x: Any, dtype: Any = None) -> NkiTensor:
    """The cosine of an angle in radians: as ``nl.sin``, a quarter turn ahead.

    ``x``: a tile in SBUF or PSUM; ``dtype``: of the result, by default the dtype of ``x``.
    """
    tile = tile_of(x, "nl.cos")
    dst = result("cos", tile.shape, tile.dtype if dtype is None else dtype)
    sine(dst, tile, 0.25)
    return dst


def tan(x: Any, dtype: Any = None) -> NkiTensor:
    """The tangent of an angle in radians: sine times the reciprocal of the cosine.

    ``x``: a tile in SBUF or PSUM; ``dtype``: of the result, by default the dtype of ``x``.
    """
    tile = tile_of(x, "nl.tan")
    dst = result("tan", tile.shape, tile.dtype if dtype is None else dtype)
    up, down = scratch("sine", tile.shape), scratch("cosine", tile.shape)
    sine(up, tile, 0.0)
    sine(down, tile, 0.25)
    isa.reciprocal(down, down)
    isa.tensor_tensor(dst, up, down, OPS["multiply"])
    return dst


def negative(x: Any, dtype: Any = None) -> NkiTensor:
    """``-x``: ``nisa.tensor_scalar``, in float32.

    ``x``: a tile in SBUF or PSUM; ``dtype``: of the result, by default the dtype of ``x``.
    """
    tile = tile_of(x, "nl.negative")
    dst = result("negative", tile.shape, tile.dtype if dtype is None else dtype)
    isa.tensor_scalar(dst, tile, OPS["multiply"], -1.0)
    return dst


def floor(x: Any, dtype: Any = None) -> NkiTensor:
    """The largest whole number that is not above ``x``; infinities and NaN as they are.

    ``x``: a tile in SBUF or PSUM; ``dtype``: of the result, by default the dtype of ``x``. ``x`` is converted to int32
    and back, and 1 is subtracted where that rounded up (``nisa.tensor_copy``, ``nisa.tensor_tensor``,
    ``nisa.tensor_scalar``, ``nisa.tensor_copy_predicated``).
    """
    tile = tile_of(x, "nl.floor")
    dst = result("floor", tile.shape, tile.dtype if dtype is None else dtype)
    _whole(dst, tile, "greater", "subtract")
    return dst


def ceil(x: Any, dtype: Any = None) -> NkiTensor:
    """The smallest whole number that is not below ``x``; as :func:`floor`, but 1 is added where it rounded down.

    ``x``: a tile in SBUF or PSUM; ``dtype``: of the result, by default the dtype of ``x``.
    """
    tile = tile_of(x, "nl.ceil")
    dst = result("ceil", tile.shape, tile.dtype if dtype is None else dtype)
    _whole(dst, tile, "less", "add")
    return dst


def trunc(x: Any, dtype: Any = None) -> NkiTensor:
    """``x`` without what is behind the point: the floor of its absolute value, times its sign.

    ``x``: a tile in SBUF or PSUM; ``dtype``: of the result, by default the dtype of ``x``. Emits what :func:`floor`
    does and ``nisa.activation``.
    """
    tile = tile_of(x, "nl.trunc")
    dst = result("trunc", tile.shape, tile.dtype if dtype is None else dtype)
    if not tile.dtype.is_float:
        isa.tensor_copy(dst, tile)
        return dst
    size, sign = scratch("size", tile.shape), scratch("sign", tile.shape)
    isa.activation(size, OPS["abs"], tile)
    _whole(size, size, "greater", "subtract")
    isa.activation(sign, OPS["sign"], tile)
    isa.tensor_tensor(dst, size, sign, OPS["multiply"])
    return dst


def _whole(dst: NkiTensor, x: NkiTensor, wrong: str, correct: str) -> None:
    """``dst`` = ``x`` rounded to a whole number and, where the result compares ``wrong`` with ``x``, corrected by 1.

    From 2**23 on every float32 is whole; those stay, because not all of them are int32.
    """
    if not x.dtype.is_float:
        isa.tensor_copy(dst, x)
        return
    rounded, step, whole = scratch("rounded", x.shape, dt.int32), scratch("step", x.shape), scratch("whole", x.shape)
    isa.tensor_copy(rounded, x)
    isa.tensor_copy(whole, rounded)
    isa.tensor_tensor(step, whole, x, OPS[wrong])
    isa.tensor_tensor(whole, whole, step, OPS[correct])
    small, kept = scratch("small", x.shape, dt.uint8), scratch("kept", x.shape)
    isa.tensor_scalar(small, x, OPS["abs"], 0.0, op1=OPS["less"], operand1=2.0**23)
    isa.tensor_copy(kept, x)
    isa.tensor_copy_predicated(kept, whole, small)
    isa.tensor_copy(dst, kept)


for _name in _BINARY:
    _binary(_name)
for _name in _UNARY:
    _unary(_name)

__all__ = ["ceil", "cos", "floor", "negative", "tan", "trunc"]
