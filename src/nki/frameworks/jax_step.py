"""The trace of a step in JAX: the equations of its jaxpr, and of the functions that it calls where it calls them.

Values do not change, so each one is a block of memory of its own.
"""

# JAX declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Final

import jax
import numpy as np
from jax.extend.core import Literal

from nki.base.profile_errors import StepTraceError
from nki.compilation.traced_step import Event, Launch, Note, Operation, TensorType
from nki.frameworks.jax_call import nki_call

COLLECTIVES: Final = {
    "all_gather", "all_gather_invariant", "all_gather_reduced", "all_to_all", "pmax", "pmin", "ppermute", "psum",
    "psum2", "psum_invariant", "psum_scatter", "ragged_all_to_all", "reduce_scatter", "unreduced_psum",
}  # fmt: skip
"""Primitives between devices."""
CALLS: Final = {
    "checkpoint", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "jit",
    "pjit", "remat", "remat2", "shard_map",
}  # fmt: skip
"""Primitives that call a function once, with their own operands and results."""
_SAME: Final = {"nki_argument", "pvary", "pcast", "reshard", "sharding_constraint", "optimization_barrier"}
"""Primitives with a result that is an operand."""

_Names = dict[Any, int]


def trace(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Event]:
    """The events of ``function``; see :meth:`nki.frameworks.kernel_adapter.Adapter.trace`."""
    leaves, tree = jax.tree.flatten((args, kwargs))
    traced = [n for n, leaf in enumerate(leaves) if isinstance(leaf, (np.ndarray, jax.Array))]

    def of_arrays(*arrays: Any) -> Any:
        values = list(leaves)
        for n, array in zip(traced, arrays, strict=True):
            values[n] = array
        given, named = jax.tree.unflatten(tree, values)
        return function(*given, **named)

    try:
        closed = jax.make_jaxpr(of_arrays)(*[jax.ShapeDtypeStruct(leaves[n].shape, leaves[n].dtype) for n in traced])
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
        name, reason = getattr(function, "__name__", type(function).__name__), str(error).partition("\n")[0]
        raise StepTraceError(
            f"{name} reads the contents of an array in Python, and a trace has only shapes: {reason}",
            fix="pass what it reads as a Python number, or decide with jax.lax.cond",
        ) from error
    walk = _Walk()
    walk.body(closed.jaxpr, walk.fresh(closed.jaxpr.invars))
    return walk.events


class _Walk:
    """Events of jaxprs, in the order of their equations."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._numbers = count()

    def fresh(self, variables: Iterable[Any]) -> list[int]:
        """A new block of memory for each of ``variables``."""
        return [next(self._numbers) for _ in variables]

    def body(self, jaxpr: Any, operands: Sequence[int | None]) -> list[int | None]:
        """The events of ``jaxpr``, and its results, for blocks (None: a constant) as its operands."""
        known: dict[Any, int | None] = dict(zip(jaxpr.invars, operands, strict=True))
        known.update(zip(jaxpr.constvars, self.fresh(jaxpr.constvars), strict=True))

        def block(atom: Any) -> int | None:
            return None if isinstance(atom, Literal) else known[atom]

        for equation in jaxpr.eqns:
            given = [block(atom) for atom in equation.invars]
            known.update(zip(equation.outvars, self._equation(equation, given), strict=True))
        return [block(atom) for atom in jaxpr.outvars]

    def _equation(self, equation: Any, given: list[int | None]) -> Sequence[int | None]:
        """The events of an equation, and its results."""
        name, parameters = equation.primitive.name, equation.params
        if name in _SAME:
            return given
        if name in CALLS:
            inner = next(parameters[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in parameters)
            return self.body(getattr(inner, "jaxpr", inner), given)
        if name == "scan":
            return self._scan(parameters, given)
        if name == "while":
            self.events.append(Note("a while loop runs a number of times that only the data says; it counts once"))
            skipped = parameters["cond_nconsts"]
            return self.body(parameters["body_jaxpr"].jaxpr, given[skipped:])
        if name == "cond":
            return self._branches([branch.jaxpr for branch in parameters["branches"]], given[1:])
        results = self.fresh(equation.outvars)
        reads = frozenset(number for number in given if number is not None)
        if equation.primitive is nki_call:
            batch = math.prod(parameters["batch"])
            self.events.append(Launch(parameters["executable"], reads, frozenset(results), batch))
        else:
            types = [tuple(_type(atom.aval) for atom in atoms) for atoms in (equation.invars, equation.outvars)]
            collective = name in COLLECTIVES
            self.events.append(Operation(name, types[0], types[1], reads, frozenset(results), collective))
        return results

    def _scan(self, parameters: Any, given: list[int | None]) -> Sequence[int | None]:
        """All iterations of a loop, one after the other. Each result that it stacks is one block."""
        body, constants, carried = parameters["jaxpr"].jaxpr, parameters["num_consts"], parameters["num_carry"]
        state = given[constants : constants + carried]
        stacked = self.fresh(body.outvars[carried:])
        for _ in range(parameters["length"]):
            found = self.body(body, [*given[:constants], *state, *given[constants + carried :]])
            state = found[:carried]
            stacked = found[carried:] or stacked
        return [*state, *stacked]

    def _branches(self, branches: Sequence[Any], given: list[int | None]) -> Sequence[int | None]:
        """The events of the branch with most of them."""
        before, longest, results = self.events, list[Event](), list[int | None]()
        for branch in branches:
            self.events = []
            found = self.body(branch, given)
            if not results or len(self.events) > len(longest):
                longest, results = self.events, found
        note = Note(f"only the data says which of {len(branches)} branches runs; the one with most operations counts")
        self.events = [*before, note, *longest]
        return results


def _type(aval: Any) -> TensorType:
    shape = tuple(getattr(aval, "shape", ()))
    dtype = getattr(aval, "dtype", None)
    size = getattr(dtype, "itemsize", 0)
    return TensorType(shape, str(dtype), math.prod(shape) * size if all(type(n) is int for n in shape) else 0)
