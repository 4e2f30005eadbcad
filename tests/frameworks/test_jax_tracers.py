"""Every tracer and transformation of JAX, around a kernel, an operator with a gradient and a kernel that may be split.

Each is right, also for other values than those that it traced, or ends in one NkiError; JAX's own where JAX itself
refuses a function with a backward alone.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.experimental import jet
from jax.extend.core import jaxpr_as_fun

import nki.jax
from nki.base.framework_errors import FixedShapeError, NotDifferentiableError
from nki.frameworks.jax_program import CHECKS

from .kernels import add, multiply, scale_in_place, sum_and_scaled

A = jnp.arange(24, dtype=jnp.float32).reshape(4, 6) / 8
B = A[::-1] * 3 + 1

OPERATOR = nki.jax.op(multiply, backward=lambda a, b, dy: (multiply(dy, b), multiply(dy, a)))
SPLIT = nki.jax.partitioned(add, "n d, n d -> n d", split="n")


def of_kernel(a, b):
    return add(a, b) * 2


def of_two_results(a, b):
    total, scaled = sum_and_scaled(a, b, scale=3.0)
    return total - scaled


def of_changed_argument(a, b):
    return scale_in_place(a, 3.0) + b


def of_operator(a, b):
    return OPERATOR(a, b) * 2


def of_split_kernel(a, b):
    return SPLIT(a, b) * 2


EXPECTED = {
    of_kernel: lambda a, b: (a + b) * 2,
    of_two_results: lambda a, b: a + b - a[:1] * 3,
    of_changed_argument: lambda a, b: 3 * a + b,
    of_operator: lambda a, b: a * b * 2,
    of_split_kernel: lambda a, b: (a + b) * 2,
}
FUNCTIONS = pytest.mark.parametrize("function", EXPECTED, ids=lambda f: f.__name__)


def without_jit(function):
    def run(a, b):
        with jax.disable_jit():
            return jax.jit(function)(a, b)

    return run


def at_compile_time(function):
    def run(a, b):
        def inside():
            with jax.ensure_compile_time_eval():
                return function(a, b)

        return jax.jit(inside)()

    return run


def shaped(function):
    def run(a, b):
        types = jax.eval_shape(function, a, b)
        result = function(a, b)
        assert (types.shape, types.dtype) == (result.shape, result.dtype)
        return result

    return run


def exported(function, *arguments):
    return export.export(jax.jit(function), disabled_checks=CHECKS)(*arguments).call


def symbolic(text):
    return [jax.ShapeDtypeStruct(export.symbolic_shape(text), jnp.float32)] * 2


def in_loop(function):
    return lambda a, b: jax.lax.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, function(a, b)), (0, a))[1]


RIGHT = {
    "concrete": lambda f: f,
    "jit": jax.jit,
    "make_jaxpr": lambda f: lambda a, b: jaxpr_as_fun(jax.make_jaxpr(f)(A, B))(a, b)[0],
    "eval_shape": shaped,
    "ahead of time": lambda f: jax.jit(f).lower(A, B).compile(),
    "export": lambda f: exported(f, A, B),
    "vmap": lambda f: lambda a, b: jax.vmap(f)(a[None], b[None])[0],
    "export of an open batch": lambda f: lambda a, b: exported(jax.vmap(f), *symbolic("n, 4, 6"))(a[None], b[None])[0],
    "sequential_vmap": lambda f: lambda a, b: jax.vmap(jax.custom_batching.sequential_vmap(f))(a[None], b[None])[0],
    "vectorize": lambda f: lambda a, b: jnp.vectorize(f, signature="(i,j),(i,j)->(i,j)")(a[None], b[None])[0],
    "checkpoint": jax.checkpoint,
    "cond": lambda f: lambda a, b: jax.lax.cond(a.sum() > -1e9, f, lambda a, b: a, a, b),
    "scan": lambda f: lambda a, b: jax.lax.scan(lambda c, _: (c, f(a, b)), 0, jnp.zeros(2))[1][1],
    "while_loop": in_loop,
    "map": lambda f: lambda a, b: jax.lax.map(lambda x: f(*x), (a[None], b[None]))[0],
    "associative_scan": lambda f: lambda a, b: jax.lax.associative_scan(jax.vmap(f), jnp.stack([a, b]))[1],
    "disable_jit": without_jit,
    "ensure_compile_time_eval": at_compile_time,
    "closure": lambda f: lambda a, b: jax.jit(lambda a: f(a, b))(a),
    "named_call": lambda f: jax.named_call(f, name="f"),
}


@FUNCTIONS
@pytest.mark.parametrize("tracer", RIGHT.values(), ids=RIGHT)
def test_what_records_a_kernel_is_right_for_other_values(tracer, function):
    traced = tracer(function)
    for a, b in ((A, B), (B, A + 1)):
        assert np.array_equal(traced(a, b), EXPECTED[function](a, b))


@FUNCTIONS
@pytest.mark.parametrize("text", ["n, 6", "4, m", "n, m", "2*n, 6"])
def test_an_open_size_is_refused(function, text):
    with pytest.raises(FixedShapeError, match=r"kernel '\w+': its shape \(.* has .*compiled for fixed shapes"):
        exported(function, *symbolic(text))


@FUNCTIONS
def test_an_open_size_inside_a_batch_is_refused(function):
    with pytest.raises(FixedShapeError, match=r"its shape \(4, m\) has m"):
        exported(jax.vmap(function), *symbolic("3, 4, m"))


REVERSE_MODE = {
    "grad": lambda f: jax.grad(lambda a: f(a, B).sum())(A),
    "vjp": lambda f: jax.vjp(lambda a: f(a, B), A)[1](jnp.ones_like(A))[0],
    "jacrev": lambda f: jax.jacrev(lambda a: f(a, B).sum())(A),
    "linearize": lambda f: jax.linear_transpose(jax.linearize(lambda a: f(a, B), A)[1], A)(jnp.ones_like(A))[0],
    "grad of checkpoint": lambda f: jax.grad(lambda a: jax.checkpoint(f)(a, B).sum())(A),
    "vmap of grad": lambda f: jax.vmap(jax.grad(lambda a: f(a, B).sum()))(A[None])[0],
}


@pytest.mark.parametrize("derivative", REVERSE_MODE.values(), ids=REVERSE_MODE)
def test_reverse_mode_is_right_with_a_gradient_and_refused_without(derivative):
    assert np.array_equal(derivative(of_operator), 2 * B)
    for function in (of_kernel, of_split_kernel):
        with pytest.raises(NotDifferentiableError, match="'add' has no derivative"):
            derivative(function)


FORWARD_MODE = {
    "jvp": lambda f: jax.jvp(f, (A, B), (A, B)),
    "jacfwd": lambda f: jax.jacfwd(f)(A, B),
    "hessian": lambda f: jax.hessian(lambda a: f(a, B).sum())(A),
    "jvp of jit": lambda f: jax.jvp(jax.jit(f), (A, B), (A, B)),
    "jit of jvp": lambda f: jax.jit(lambda a: jax.jvp(f, (a, B), (a, B)))(A),
    "jvp of scan": lambda f: jax.jvp(lambda a: jax.lax.scan(lambda c, _: (f(c, B), None), a, None, 2)[0], (A,), (A,)),
    "jvp of checkpoint": lambda f: jax.jvp(jax.checkpoint(f), (A, B), (A, B)),
    "vmap of jvp": lambda f: jax.vmap(lambda a: jax.jvp(lambda a: f(a, B), (a,), (a,)))(jnp.stack([A, B])),
    "linearize": lambda f: jax.linearize(f, A, B)[1](A, B),
    "jet": lambda f: jet.jet(f, (A, B), ([A], [B])),
    "jet of jit": lambda f: jet.jet(jax.jit(f), (A, B), ([A], [B])),
}


@FUNCTIONS
@pytest.mark.parametrize("derivative", FORWARD_MODE.values(), ids=FORWARD_MODE)
def test_forward_mode_is_refused(derivative, function):
    reason = "has (a backward alone, and forward mode|no derivative)"
    with pytest.raises(NotDifferentiableError, match=reason):
        derivative(function)


def test_a_kernel_is_not_linear():
    with pytest.raises(NotDifferentiableError, match="'add' has no derivative"):
        jax.linear_transpose(lambda a: add(a, B), A)(A)
