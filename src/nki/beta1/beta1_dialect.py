"""The dialect of NKI Beta 1: the namespaces, the tensor, and the Python that its kernels may use."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any, Final, cast

from nki.base.beta1_errors import Beta1LaunchError
from nki.base.errors import ArgumentError, MemoryRegionError, NkiError
from nki.base.source import Where
from nki.beta1 import creation, moving
from nki.beta1.beta1_tensor import Tensor, state_of
from nki.beta1.mask_regions import left_of_and
from nki.beta1.shape_annotations import annotated
from nki.beta1.traced_loops import once
from nki.frontend.builder import Builder
from nki.frontend.dialect import Dialect, PythonRules, TensorType
from nki.frontend.inlining import call_hook
from nki.frontend.rewrite import ANNOTATED, CALL, LEFT, ONCE
from nki.frontend.syntax_rules import RULES, newer_syntax
from nki.ir.loop import changed, instructions
from nki.ir.types import Access, Buffer
from nki.ir.types import Tensor as Stored
from nki.isa.descriptors import static_where_free
from nki.language.advice.call import call_at
from nki.language.releases import BETA_1


def results(builder: Builder, returned: Any) -> Any:
    """The result of a kernel once every waiting instruction is recorded.

    A kernel that returns nothing, or has its outputs as its last arguments, returns the arguments that it wrote, in the
    order of its parameters.
    """
    waiting = state_of(builder).waiting
    if waiting is not None:
        waiting.settle()
    if isinstance(returned, Tensor):
        returned = _in_hbm(returned)
        _check_written(builder, [returned])
        return returned
    if isinstance(returned, tuple | list) and returned:
        items = [_in_hbm(item) if isinstance(item, Tensor) else item for item in cast("list[Any]", returned)]
        _check_written(builder, items)
        return tuple(items)
    if returned is not None and not isinstance(returned, tuple | list):
        return cast("object", returned)
    written = _written(builder)
    outputs = [Tensor.around(Access.whole(tensor)) for tensor in builder.tensors if tensor in written]
    return None if not outputs else outputs[0] if len(outputs) == 1 else tuple(outputs)


def _without_generators(builder: Builder, returned: Any) -> Any:
    """As :func:`results`; the transfers of the kernel with descriptors of the compiler's choice get static ones, in
    HBM.
    """
    result = results(builder, returned)
    state = state_of(builder)
    first = state.with_static_descriptors  # each program of a grid comes here
    builder.body[first:] = changed(builder.body[first:], lambda inst: [static_where_free(inst)])
    state.with_static_descriptors = len(builder.body)
    return result


def _check_written(builder: Builder, items: list[Any]) -> None:
    """Raise if the kernel returns a tensor that it never writes, or wrote an argument and returns others only."""
    returned = {item.access.tensor for item in items if isinstance(item, Tensor)}
    unwritten = returned - {access.tensor for inst in instructions(builder.body) for access in inst.writes()}
    for tensor in returned if _is_last(builder) else ():
        if tensor in unwritten and tensor.role != "input":
            raise Beta1LaunchError(
                f"the kernel returns '{tensor.name}' {tensor.shape} and never stores to it",
                fix=f"store the result: nl.store({tensor.name}, tile)",
                span=tensor.span,
            )
    for tensor, where in _written(builder).items():
        if tensor not in returned:
            raise Beta1LaunchError(
                f"mutable_parameter_not_returned: the kernel writes to its argument '{tensor.name}' and does not "
                "return it",
                fix=f"annotate it as nt.mutable_tensor and return {tensor.name} as well",
                span=where.span,
            )


def _is_last(builder: Builder) -> bool:
    """True if no other program of the grid may still store to what this one returns."""
    one_core = builder.grid[:1] in ((), (1,))
    return one_core and tuple(builder.index) == tuple(n - 1 for n in builder.programs)


def _in_hbm(tensor: Tensor) -> Tensor:
    """``tensor``, or an output that holds it if it is a tile on chip (the simulator of Beta 1 takes both)."""
    if tensor.buffer.is_hbm:
        return tensor
    tensor.settle()
    output = creation.new("a result", tensor.shape, tensor.kind, Buffer.shared_hbm, f"{tensor.name}_result")
    moving.store(output, tensor)
    return output


def _written(builder: Builder) -> dict[Stored, Where]:
    """The arguments that the kernel writes, and the place of the first write."""
    written: dict[Stored, Where] = {}
    for inst in instructions(builder.body):
        for access in inst.writes():
            if access.tensor.role == "input":
                written.setdefault(access.tensor, inst.where)
    return written


def _advise(exc: Exception, site: Any) -> NkiError | None:
    """The error for a function of ``nki`` in a kernel of ``neuronxcc.nki``: it does not know the tensors of that."""
    call = call_at(site, exc) if isinstance(exc, ArgumentError | MemoryRegionError) else None
    if call is None or not isinstance(exc, NkiError) or not call.module.startswith(("nki.isa", "nki.language")):
        return None
    name = ast.unparse(call.node.func)
    exc.fix = (
        f"`{name}` is of `nki`, this kernel of `neuronxcc.nki`: take the decorator and all functions from one of them"
    )
    return exc


BETA1: Final = Dialect(
    name="nki beta 1",
    releases=(BETA_1,),
    namespaces=("neuronxcc.nki",),
    tensor=TensorType(Tensor, Tensor.around),
    python=PythonRules(RULES, newer_syntax, traced=BETA_1.traced, accepted=BETA_1.accepts),
    hooks={CALL: call_hook, ONCE: lambda _: once, LEFT: lambda _: left_of_and, ANNOTATED: lambda _: annotated},
    imports={
        "nki": "import neuronxcc.nki as nki",
        "nl": "import neuronxcc.nki.language as nl",
        "nisa": "import neuronxcc.nki.isa as nisa",
        "nt": "import neuronxcc.nki.typing as nt",
        "np": "import numpy as np",
        "math": "import math",
    },
    advise=_advise,
    results=results,
    ignored_keywords=frozenset(
        {"buffer", "dge_mode", "directives", "lazy_initialization", "mode", "name", "precise_schedule"}
    ),
    propagates_undefined=True,
)

BETA1_STATIC: Final = replace(BETA1, name="nki beta 1, static descriptors", results=_without_generators)
"""Beta 1 under the options of the compiler that turn the generation of DMA descriptors off."""

__all__ = ["BETA1", "BETA1_STATIC", "results"]
