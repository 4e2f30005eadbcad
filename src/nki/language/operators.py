"""The operator names of ``nki.language``: what ``op=`` arguments take. Written out, so that editors know them."""

from __future__ import annotations

from nki.isa.tables.operators import OPS

abs = OPS["abs"]
abs_max = OPS["abs_max"]
abs_min = OPS["abs_min"]
add = OPS["add"]
arctan = OPS["arctan"]
average = OPS["average"]
bitwise_and = OPS["bitwise_and"]
bitwise_or = OPS["bitwise_or"]
bitwise_xor = OPS["bitwise_xor"]
bypass = OPS["bypass"]
copy = OPS["copy"]
divide = OPS["divide"]
equal = OPS["equal"]
erf = OPS["erf"]
erf_dx = OPS["erf_dx"]
exp = OPS["exp"]
fmod = OPS["fmod"]
gelu = OPS["gelu"]
gelu_apprx_sigmoid = OPS["gelu_apprx_sigmoid"]
gelu_apprx_sigmoid_dx = OPS["gelu_apprx_sigmoid_dx"]
gelu_apprx_tanh = OPS["gelu_apprx_tanh"]
gelu_dx = OPS["gelu_dx"]
greater = OPS["greater"]
greater_equal = OPS["greater_equal"]
invert = OPS["invert"]
left_shift = OPS["left_shift"]
less = OPS["less"]
less_equal = OPS["less_equal"]
log = OPS["log"]
logical_and = OPS["logical_and"]
logical_not = OPS["logical_not"]
logical_or = OPS["logical_or"]
logical_xor = OPS["logical_xor"]
maximum = OPS["maximum"]
minimum = OPS["minimum"]
mish = OPS["mish"]
mod = OPS["mod"]
multiply = OPS["multiply"]
not_equal = OPS["not_equal"]
power = OPS["power"]
prelu = OPS["prelu"]
reciprocal = OPS["reciprocal"]
relu = OPS["relu"]
right_shift = OPS["right_shift"]
rsqrt = OPS["rsqrt"]
sigmoid = OPS["sigmoid"]
sign = OPS["sign"]
silu = OPS["silu"]
silu_dx = OPS["silu_dx"]
sin = OPS["sin"]
softplus = OPS["softplus"]
sqrt = OPS["sqrt"]
square = OPS["square"]
subtract = OPS["subtract"]
tanh = OPS["tanh"]

__all__ = [
    "abs",
    "abs_max",
    "abs_min",
    "add",
    "arctan",
    "average",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bypass",
    "copy",
    "divide",
    "equal",
    "erf",
    "erf_dx",
    "exp",
    "fmod",
    "gelu",
    "gelu_apprx_sigmoid",
    "gelu_apprx_sigmoid_dx",
    "gelu_apprx_tanh",
    "gelu_dx",
    "greater",
    "greater_equal",
    "invert",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mish",
    "mod",
    "multiply",
    "not_equal",
    "power",
    "prelu",
    "reciprocal",
    "relu",
    "right_shift",
    "rsqrt",
    "sigmoid",
    "sign",
    "silu",
    "silu_dx",
    "sin",
    "softplus",
    "sqrt",
    "square",
    "subtract",
    "tanh",
]
