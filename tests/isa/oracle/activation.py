"""nki.isa.activation (Scalar Engine).

Chosen where the reference is silent or contradicts itself:

- ``data * scale + bias`` may be rounded once or twice (fused or not): the bound admits both;
- the accumulator adds the float32 results, before they are cast to ``dst``, one after the other, onto what it holds;
- the reference's pseudo code for ``reduce`` would count the old value twice; its prose ("reduce activated data over
  existing values") and the architecture guide's loop (``reduce_res[lane] += out[lane][k]``) agree with each other and
  are followed here; ``load_reduce`` is not listed for this instruction and is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import functions, numerics, verdict
from .numerics import Array
from .tile import broadcast, rows
from .vectors import bf16, f32, vector

TOLERANCE = (
    "per function in functions.py (0 or 4 ulp of float32, some with an absolute part); sums n * 2**-24 * sum |x|"
)
_COMMANDS = ("idle", "reset", "reduce", "reset_reduce")


def _argument(data: Array, scale: Any, bias: Any) -> tuple[Array, Array]:
    """The argument of the function with two roundings, after the product and after the sum, and with one."""
    values = numerics.read(rows(data))
    scales = broadcast(scale, values)
    with np.errstate(all="ignore"):
        product = values * scales  # 48 bits: exact
        rounded = numerics.round32(product)
        if bias is None:
            return rounded, rounded
        offsets = broadcast(bias, values)
        return numerics.round32(rounded + offsets), numerics.round32(numerics.sum_to_odd(product, offsets))


def _activate(op: str, data: Array, scale: Any = 1.0, bias: Any = None, **_: Any) -> tuple[Array, Array, Array]:
    """Real results, how far float32 results may lie from them, and where anything goes.

    That is outside of the function's range, and where the product alone overflows float32 and ``bias`` would bring it
    back, or is the opposite infinity: one rounding then gives another number than two.
    """
    x, fused = _argument(data, scale, bias)
    y = functions.evaluate(op, x)
    reach = functions.error(op, x, y)
    other = (x != fused) & ~(np.isnan(x) & np.isnan(fused))
    with np.errstate(all="ignore"):
        at, value = fused[other], functions.evaluate(op, fused[other])
        reach[other] = np.maximum(reach[other], np.abs(value - y[other]) + functions.error(op, at, value))
    either = other & ~(np.isfinite(x) & np.isfinite(fused))
    return y, np.where(np.isnan(reach), np.inf, reach), functions.open_inputs(op, x) | either


def _sum(values: Array, registers: Array) -> Array:
    total = registers
    with np.errstate(all="ignore"):
        for i in range(values.shape[1]):
            total = numerics.round32(total + values[:, i])
    return total


def _registers(reduce_cmd: str, reduce_regs: Array | None, partitions: int) -> Array:
    assert reduce_cmd in _COMMANDS
    if reduce_cmd in ("reset", "reset_reduce") or reduce_regs is None:
        return np.zeros(partitions)
    return numerics.read(reduce_regs).reshape(-1)[:partitions]


def oracle(
    dst: Array,
    *,
    reduce_op: str | None = None,
    reduce_res: Array | None = None,
    reduce_cmd: str = "idle",
    reduce_regs: Array | None = None,
    **asked: Any,
) -> Array | tuple[Array, Array]:
    """``op(data * scale + bias)`` in float32; with it ``reduce_res``, if given, reads the accumulator registers.

    ``reduce_regs`` is the state of the registers before (float32, one per partition): pass the same array to a chain of
    calls through :func:`after`. Reference: nki.isa.activation; Trainium/Inferentia2 architecture guide, "Pipelined
    Reduction".
    """
    assert reduce_op in (None, "add")
    y = numerics.round32(_activate(**asked)[0])
    result = numerics.write(y, dst.dtype).reshape(dst.shape)
    if reduce_res is None:
        return result
    registers = _registers(reduce_cmd, reduce_regs, y.shape[0])
    total = _sum(y, registers) if reduce_cmd in ("reduce", "reset_reduce") else registers
    return result, numerics.write(total, reduce_res.dtype).reshape(reduce_res.shape)


def after(dst: Array, **arguments: Any) -> Array:
    """The accumulator registers after the instruction, float32, one per partition."""
    res = np.zeros((dst.shape[0], 1), np.float32)
    return oracle(dst, **{**arguments, "reduce_res": res})[1].reshape(-1)


def bounds(
    dst: Array, *, reduce_res: Array | None = None, reduce_cmd: str = "idle", **asked: Any
) -> verdict.Bounds | tuple[verdict.Bounds, verdict.Bounds]:
    y, reach, open_ = _activate(**asked)
    elements = verdict.around(y, reach, dst, open_)
    if reduce_res is None:
        return elements
    registers = _registers(reduce_cmd, asked.get("reduce_regs"), y.shape[0])
    if reduce_cmd not in ("reduce", "reset_reduce"):
        return elements, verdict.around(registers, np.zeros(registers.shape), reduce_res)
    with np.errstate(all="ignore"):
        size = np.abs(registers) + np.sum(np.abs(y), axis=1)
        slack = np.sum(reach, axis=1) + (y.shape[1] + 1) * 2.0**-24 * size
        total = registers + np.sum(y, axis=1)
        finite = np.sum(np.where(np.isfinite(y), np.abs(y), 0.0), axis=1)
        finite = finite + np.where(np.isfinite(registers), np.abs(registers), 0.0)
    return elements, verdict.around(total, slack, reduce_res, open_.any(axis=1) | verdict.overflows(finite))


_x = f32(0, 1, -2, 3)
_res = np.zeros((1, 1), np.float32)
VECTORS = [
    vector(f32(1, 2.7182817, 0), op="exp", data=f32(0, 1, -np.inf)),
    # The reference's second example: square(2 x + c), cast to bfloat16. 11**2 = 121 fits, 301**2 rounds to 90624.
    vector(bf16(121, 90624), op="square", data=f32(5, 150), bias=f32(1), scale=2.0),
    vector(f32(0, 0, 2, 0), op="relu", data=_x, scale=-1.0),
    vector(f32(-1, 0, 1), op="sign", data=f32(-5, 0, 7)),
    # -2**-160 is no float32 number: rounded once or twice, the argument is a zero.
    vector(f32(0), dst=f32(7), op="sign", data=f32(-(2.0**-60)), scale=2.0**-100, bias=f32(-0.0)),
    vector(f32(0.5, 1, 0), op="sigmoid", data=f32(0, np.inf, -np.inf)),
    # Tabulated values: erf(1), tanh(1), Phi(1), ln 2, arctan(1) = pi/4.
    vector(f32(0.84270079), op="erf", data=f32(1)),
    vector(f32(0.76159416), op="tanh", data=f32(1)),
    vector(f32(0.84134475), op="gelu", data=f32(1)),
    vector(f32(0.69314718), op="log", data=f32(2)),
    vector(f32(0.78539816), op="arctan", data=f32(1)),
    vector(f32(0.69314718), op="softplus", data=f32(0)),
    vector(f32(0.5), op="gelu_dx", data=f32(0)),
    vector(f32(0.5), op="silu_dx", data=f32(0)),
    vector(f32(1.1283792), op="erf_dx", data=f32(0)),
    vector(f32(0.5), op="rsqrt", data=f32(4)),
    # Published: no range reduction, a cubic continues past pi.
    vector(f32(27.65, -27.65), op="sin", data=f32(9.0, -9.0)),
    vector(
        (_x, f32(2)),
        op="copy",
        data=_x,
        reduce_op="add",
        reduce_res=_res,
        reduce_cmd="reset_reduce",
        reduce_regs=f32(7),
    ),
    vector(
        (f32(0, 1, 2, 3), f32(13)),
        op="abs",
        data=_x,
        reduce_op="add",
        reduce_res=_res,
        reduce_cmd="reduce",
        reduce_regs=f32(7),
    ),
    vector((_x, f32(7)), op="copy", data=_x, reduce_res=_res, reduce_cmd="idle", reduce_regs=f32(7)),
    vector((_x, f32(0)), op="copy", data=_x, reduce_res=_res, reduce_cmd="reset", reduce_regs=f32(7)),
]
