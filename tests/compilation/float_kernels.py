"""Kernels with float parameters: some need one executable for all values, others one for each value."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.kernel_parts import returned

SCALE = nisa.tensor_scalar
"""An instruction under a name of this module."""


def one_operand(x, lr):
    t = nl.load(x)
    nisa.tensor_scalar(t, t, nl.multiply, lr)
    return returned(t)


def by_keyword(x, lr):
    t = nl.load(x)
    nisa.activation(dst=t, op=nl.copy, data=t, scale=lr)
    return returned(t)


def by_another_name(x, lr):
    t = nl.load(x)
    SCALE(t, t, nl.multiply, lr)
    return returned(t)


def in_the_language(x, lr):
    t = nl.multiply(nl.load(x), lr)
    t = nl.add(lr, t)
    bias = nl.full((x.shape[0], 1), lr, nl.float32)
    nisa.tensor_scalar(t, t, nl.add, bias)
    return returned(t)


def computed(x, lr):
    t = nl.load(x)
    keep, rate = 1 - lr, -lr * 2.0 / 3
    rest = keep - rate
    nisa.tensor_scalar(t, t, nl.multiply, keep, op1=nl.add, operand1=rate)
    nisa.tensor_scalar(t, t, nl.multiply, (True + lr) * (lr - rest), op1=nl.subtract, operand1=rest)
    return returned(t)


def assigned_anew(x, lr):
    t = nl.load(x)
    for _ in range(3):
        nisa.tensor_scalar(t, t, nl.multiply, lr)
        lr = lr * 0.5
    lr += 1
    nisa.tensor_scalar(t, t, nl.add, lr)
    return returned(t)


def of_two(x, lr, use_first: bool = True):
    t = nl.load(x)
    chosen = lr if use_first else 0.25
    nisa.tensor_scalar(t, t, nl.multiply, chosen)
    return returned(t)


def scaled(t: Any, by: Any, *, plus: Any = 0.0) -> Any:
    nisa.tensor_scalar(t, t, nl.multiply, by, op1=nl.add, operand1=plus)
    return t


@nki.jit
def inner(t, by):
    nisa.tensor_scalar(t, t, nl.multiply, by)
    return t


class Scaler:
    def __init__(self, times: int) -> None:
        self.times = times

    def apply(self, t: Any, by: Any) -> None:
        for _ in range(self.times):
            scaled(t, by, plus=-by)

    def __call__(self, t: Any, by: Any) -> None:
        inner(t, by)


def in_helpers(x, lr):
    t = scaled(nl.load(x), lr, plus=lr * 2)
    inner(t, lr)
    Scaler(2).apply(t, lr)
    return returned(t)


def in_a_nested_function(x, lr):
    t = nl.load(x)

    def step(n: int) -> None:
        for _ in range(n):
            nisa.tensor_scalar(t, t, nl.multiply, lr)

    step(2)
    return returned(t)


def in_a_loop_of_the_device(x, lr):
    t = nl.load(x)

    def body(_: Any) -> None:
        nisa.tensor_scalar(t, t, nl.multiply, lr)

    nl.fori_loop(0, 4, body)
    return returned(t)


def swapped(x, lr):
    t = nl.load(x)
    one, two = lr, 2.0 * lr
    one, two = two, one
    nisa.tensor_scalar(t, t, nl.multiply, one, op1=nl.add, operand1=two)
    return returned(t)


def unused(x, lr):
    return returned(nl.load(x))


def on_a_branch(x, lr, mode: int = 0):
    t = nl.load(x)
    if mode == 1:
        nisa.tensor_scalar(t, t, nl.multiply, 2.0 if lr > 0.5 else 3.0)
    else:
        nisa.tensor_scalar(t, t, nl.multiply, lr)
    return returned(t)


AT_RUN_TIME = (one_operand, by_keyword, by_another_name, in_the_language, computed, assigned_anew, of_two, in_helpers,
               in_a_nested_function, in_a_loop_of_the_device, swapped, unused, on_a_branch)  # fmt: skip


# Kernels that use the value in Python.


def multiplied(x: Any, by: Any, plus: Any = 0.0) -> Any:
    return returned(scaled(nl.load(x), by, plus=plus))


def compared(x, lr):
    return multiplied(x, lr if lr > 0.3 else 7.0)


def tested(x, lr):
    t = nl.load(x)
    if lr:
        nisa.tensor_scalar(t, t, nl.multiply, 2.0)
    return returned(t)


def converted(x, lr):
    t = nl.load(x)
    nisa.tensor_scalar(t, t, nl.multiply, float(lr))
    for _ in range(int(lr * 4) % 5):
        nisa.tensor_scalar(t, t, nl.add, 1.0)
    return returned(t)


def through_math(x, lr):
    return multiplied(x, math.sqrt(abs(lr)))


def through_a_list(x, lr):
    values = [lr, 1.0]
    return multiplied(x, math.fsum(values))


def formatted(x, lr):
    return multiplied(x, float(len("%.9f" % lr)), float(len(f"{lr}")))  # noqa: UP031


def as_a_key(x, lr):
    table = {str(lr): 3.0}
    return multiplied(x, table.get("0.5", 1.0))


def of_numpy(x, lr):
    return multiplied(x, np.float32(2) * lr + np.float64(3) * lr)


def named_numpy(x, lr):
    rate = np.float32(2)
    rate = rate * lr
    return multiplied(x, rate)


def powers(x, lr):
    t = nl.load(x)
    nisa.tensor_scalar(t, t, nl.multiply, lr**2, op1=nl.add, operand1=2.0**lr)
    nisa.tensor_scalar(t, t, nl.multiply, lr // 0.25 + lr % 0.3)
    return returned(t)


class Config(nki.language.NKIObject):
    rate: float


def in_an_object(x, lr):
    config = Config(lr)
    return multiplied(x, math.exp(config.rate))


def in_an_attribute(x, lr):
    config = Config(1.0)
    config.rate = lr
    return multiplied(x, math.exp(config.rate))


def result_of(value: Any) -> Any:
    return value


def through_a_result(x, lr):
    return multiplied(x, math.exp(result_of(lr)))


def packed_up(*values: Any, **more: Any) -> float:
    return math.fsum((*values, *more.values()))


def through_stars(x, lr):
    return multiplied(x, packed_up(lr, 1.0, more=lr))


def with_a_default(x, lr):
    def value(of: Any = lr) -> Any:
        return math.exp(of)

    return multiplied(x, value())


def through_a_lambda(x, lr):
    t = nl.load(x)
    nisa.tensor_scalar(t, t, nl.multiply, (lambda: math.exp(lr))())
    nisa.tensor_scalar(t, t, nl.multiply, (lambda v: math.exp(v))(lr))
    return returned(t)


def through_partial(x, lr):
    t = nl.load(x)
    functools.partial(scaled, t, by=lr)()
    return returned(t)


def through_locals(x, lr):
    return multiplied(x, math.exp(locals()["lr"]))


def through_a_comprehension(x, lr):
    return multiplied(x, math.fsum(lr for _ in range(3)))


def walrus(x, lr):
    t = nl.load(x)
    nisa.tensor_scalar(t, t, nl.multiply, (rate := lr))
    nisa.tensor_scalar(t, t, nl.multiply, math.exp(rate))
    return returned(t)


def in_a_class(x, lr):
    class Holder:
        rate = lr

    return multiplied(x, math.exp(Holder.rate))


def unpacked(x, lr):
    rate, other = lr, 2.0
    return multiplied(x, math.exp(rate * other))


def matched(x, lr):
    match lr:
        case 0.5:
            return multiplied(x, 3.0)
        case other:
            return multiplied(x, math.exp(other))


def as_a_shape(x, lr):
    u = nl.full((x.shape[0], int(lr * 4) % 5 + 1), 1.0, nl.float32)
    return multiplied(x, u[:, 0:1])


def yielding(lr: Any) -> Any:
    yield lr


def through_a_generator(x, lr):
    t = nl.load(x)
    for value in yielding(lr):
        nisa.tensor_scalar(t, t, nl.multiply, math.exp(value))
    return returned(t)


def asserted(x, lr):
    assert -100 < lr < 100 or lr != lr or abs(lr) == math.inf, "out of range"
    return multiplied(x, lr)


def many_operators(x, lr):
    for _ in range(40):
        lr = lr * 0.5 + 0.25
    return multiplied(x, lr)


def as_a_whole_number(x, lr):
    t = nl.load(x)
    whole = nl.full(x.shape, lr * 0 if lr == lr and abs(lr) < 9e9 else 1, nl.int32)
    nisa.tensor_tensor(t, t, whole, nl.add)
    return returned(t)


def type_asked(x, lr):
    return multiplied(x, 2.0 if type(lr) is float else 3.0)


@functools.wraps(nisa.tensor_scalar)
def wrapping(*args: Any) -> None:
    *rest, value = args
    nisa.tensor_scalar(*rest, math.exp(value))


def through_a_wrapper_of_an_instruction(x, lr):
    t = nl.load(x)
    wrapping(t, t, nl.multiply, lr)
    return returned(t)


def through_an_inner_parameter(x, lr):
    t = nl.load(x)

    def step(rate: Any) -> None:
        nisa.tensor_scalar(t, t, nl.multiply, math.exp(rate))

    step(lr)
    return returned(t)


def through_a_dictionary(x, lr):
    options = dict(rate=lr)  # noqa: C408
    return multiplied(x, math.exp(options["rate"]))


def through_setattr(x, lr):
    config = Config(1.0)
    setattr(config, "rate", lr)  # noqa: B010
    return multiplied(x, math.exp(config.rate))


def negated_in_a_list(x, lr):
    rates = []
    for n in range(2):
        rates.append(-lr * n)  # noqa: PERF401
    return multiplied(x, math.fsum(rates))


def chained(x, lr):
    rate = other = lr
    values = {}
    values["rate"] = first = lr
    return multiplied(x, math.exp(rate * other), math.exp(values["rate"] + first))


COMPILED_IN = (through_a_wrapper_of_an_instruction, through_an_inner_parameter,
               through_a_dictionary, through_setattr, negated_in_a_list, chained,
               compared, tested, converted, through_math, through_a_list, formatted, as_a_key, of_numpy, named_numpy,
               powers, in_an_object, in_an_attribute, through_a_result, through_stars, with_a_default,
               through_a_lambda, through_partial, through_locals, through_a_comprehension, walrus, in_a_class, unpacked,
               matched, as_a_shape, through_a_generator, asserted, many_operators, as_a_whole_number,
               type_asked)  # fmt: skip
