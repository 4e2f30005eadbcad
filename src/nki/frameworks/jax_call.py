"""The JAX primitive of a kernel's call: its results' types, its rule for ``jax.vmap``, its lowering.

The primitive ``nki_call`` lowers to a custom call with target ``AwsNeuronCustomNativeKernel``. For Neuron devices it
has the form that the vendor's compiler reads (status-returning, ``backend_config`` as text). XLA on the CPU never
passed that text to status-returning calls and drops them, so there the same target is a call of XLA's typed interface
with the same text as an attribute; XLA's buffers go to the kernel without a copy. In programs of ``jax.export`` a
second attribute holds the compiled kernel (:mod:`nki.frameworks.embedded`).

Under ``jax.vmap`` the operands of one call get a first axis, the batch, and the call launches the kernel once per
element, on addresses inside XLA's buffers. A batch that is sharded over devices stays so: each device launches the
kernel on its own elements. For Neuron devices a batch is a loop of calls.
"""

# JAX declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import jax
import numpy as np
from jax.core import ShapedArray
from jax.experimental.custom_partitioning import custom_partitioning
from jax.extend.core import Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, get_abstract_mesh

from nki.base.errors import NotDifferentiableError
from nki.frameworks import embedded, xla_ffi
from nki.frameworks.config import CUSTOM_CALL_TARGET
from nki.frameworks.custom_call import HANDLER
from nki.frameworks.kernel import config_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nki.compiler.executable import Executable
    from nki.ir.types import TensorSpec

Axes = tuple[int, ...]
_STATUS_RETURNING: Final = 2  # API_VERSION_STATUS_RETURNING
_CONFIG: Final = xla_ffi.CONFIG.decode()
_KERNEL: Final = xla_ffi.KERNEL.decode()
_BATCH: Final = xla_ffi.BATCH.decode()

nki_call: Final = Primitive("nki_call")
"""Parameters: ``executable``; ``grid``, which the config mentions; ``batch``, the sizes of the batch axes; ``axes``,
for each operand the batch axes that it has; ``partitioned``, the same call for several devices (None: the call itself).

Results have all batch axes, before their own; an operand has those of ``axes``, in order.
"""
nki_call.multiple_results = True


def call(executable: Executable, grid: tuple[int, ...], operands: Sequence[Any]) -> list[Any]:
    """Record a call of ``executable`` in the program that JAX traces."""
    return nki_call.bind(*varying_alike(operands), **_parameters(executable, grid))


def _parameters(executable: Executable, grid: tuple[int, ...]) -> dict[str, Any]:
    axes = ((),) * len(executable.inputs)
    return {"executable": executable, "grid": grid, "batch": (), "axes": axes, "partitioned": None}


def varying_alike(tensors: Sequence[Any]) -> list[Any]:
    """The operands, marked as different from device to device on each axis of ``jax.shard_map`` where one is."""
    axes = [jax.typeof(t).manual_axis_type.varying for t in tensors]
    union = frozenset[Any]().union(*axes)
    if not union:
        return list(tensors)
    missing = [tuple(sorted(union - own)) for own in axes]
    return [jax.lax.pcast(t, m, to="varying") if m else t for t, m in zip(tensors, missing, strict=True)]


@nki_call.def_abstract_eval
def _result_types(
    *operands: ShapedArray, executable: Executable, batch: tuple[int, ...], axes: tuple[Axes, ...], **_: Any
) -> list[ShapedArray]:
    plain = [ShapedArray((*batch, *spec.shape), spec.dtype.plain) for spec in executable.outputs]
    mesh = get_abstract_mesh()
    if mesh.empty or not operands:
        return plain
    # Results differ from device to device as the operands do, which all vary alike.
    split = [None] * len(batch)
    for x, own in zip(operands, axes, strict=True):
        for axis, name in zip(own, x.sharding.spec, strict=False):
            split[axis] = split[axis] or name
    sharding, varying = NamedSharding(mesh, PartitionSpec(*split)), operands[0].manual_axis_type
    return [result.update(sharding=sharding, manual_axis_type=varying) for result in plain]


@functools.cache
def compiled(executable: Executable, grid: tuple[int, ...]) -> Any:
    """The call as a jitted function of concrete arrays."""
    return _jitted(**_parameters(executable, grid))


@functools.cache
def _jitted(**parameters: Any) -> Any:
    return jax.jit(functools.partial(nki_call.bind, **parameters))


@nki_call.def_impl
def _run(*operands: Any, **parameters: Any) -> Any:
    with jax.disable_jit(False):
        return _jitted(**parameters)(*operands)


def _refuse_derivative(*_: Any, executable: Executable, **__: Any) -> Any:
    raise NotDifferentiableError(
        f"kernel {executable.name!r} has no derivative",
        fix="call it in a function with jax.custom_vjp (or custom_jvp), or on values under jax.lax.stop_gradient",
    )


ad.primitive_jvps[nki_call] = _refuse_derivative


# Batches


def _add_batch(
    operands: Sequence[Any],
    mapped: Sequence[int | None],
    *,
    executable: Executable,
    grid: tuple[int, ...],
    batch: tuple[int, ...],
    axes: tuple[Axes, ...],
    **_: Any,
) -> tuple[list[Any], tuple[int, ...]]:
    """The rule of ``jax.vmap``: a new batch axis before all others. Operands without it are not copied."""
    (size,) = {x.shape[axis] for x, axis in zip(operands, mapped, strict=True) if axis is not None}
    changed = executable.changes.values()
    placed: list[Any] = []
    placed_axes: list[Axes] = []
    for i, (x, axis, own) in enumerate(zip(operands, mapped, axes, strict=True)):
        inner = tuple(a + 1 for a in own)
        if axis is not None:
            x, inner = jax.numpy.moveaxis(x, axis, 0), (0, *inner)
        if i in changed:  # each element of the batch changes one of its own
            x, inner = _spread(x, inner, (size, *batch)), tuple(range(1 + len(batch)))
        placed.append(x)
        placed_axes.append(inner)
    parameters = {"executable": executable, "grid": grid, "batch": (size, *batch), "axes": tuple(placed_axes)}
    results = nki_call.bind(*placed, **parameters, partitioned=_partitioned_call(parameters, placed))
    return results, (0,) * len(results)


def _spread(x: Any, axes: Axes, batch: tuple[int, ...]) -> Any:
    """``x``, which has some batch ``axes``, with all."""
    shape = x.shape[len(axes) :]
    own = tuple(size if axis in axes else 1 for axis, size in enumerate(batch))
    return jax.numpy.broadcast_to(x.reshape(*own, *shape), (*batch, *shape))


batching.primitive_batchers[nki_call] = _add_batch


def _partitioned_call(parameters: dict[str, Any], operands: Sequence[Any]) -> Any:
    """The call as a function that XLA may split along the batch; None where devices are split by hand already."""
    mesh = get_abstract_mesh()
    if not mesh.empty and any(kind is AxisType.Manual for kind in mesh.axis_types):
        return None
    types = tuple((tuple(x.shape), x.dtype) for x in operands)
    return _partitioned(types=types, **parameters)


@functools.cache
def _partitioned(
    executable: Executable,
    grid: tuple[int, ...],
    batch: tuple[int, ...],
    axes: tuple[Axes, ...],
    types: tuple[tuple[tuple[int, ...], Any], ...],
) -> Any:
    """A closed jaxpr whose one operation tells XLA that elements of the batch do not depend on each other."""
    parameters = {"executable": executable, "grid": grid, "axes": axes, "partitioned": None}

    def run(*operands: Any) -> Any:
        return tuple(nki_call.bind(*operands, batch=batch, **parameters))

    def partition(mesh: Any, _: Any, results: Any) -> Any:
        split: Any = results[0].sharding
        if isinstance(split, NamedSharding):
            names = [*split.spec, *[None] * len(batch)][: len(batch)]
        else:  # of no mesh that JAX knows: nothing is split
            mesh = Mesh(np.array(sorted(split.device_set, key=lambda device: device.id)), ("device",))
            names = [None] * len(batch)
        local = NamedSharding(mesh, PartitionSpec(*names))
        sizes = local.shard_shape(results[0].shape)[: len(batch)]

        def run_part(*parts: Any) -> Any:
            return tuple(nki_call.bind(*parts, batch=sizes, **parameters))

        whole = [NamedSharding(mesh, PartitionSpec(*(names[a] for a in own))) for own in axes]
        return mesh, run_part, (local,) * len(results), tuple(whole)

    rule, together = _sharding_rule(executable, len(batch), axes)
    splittable = custom_partitioning(run)
    splittable.def_partition(partition, sharding_rule=rule, need_replication_factors=together, decode_shardings=True)
    return jax.make_jaxpr(splittable)(*[jax.ShapeDtypeStruct(*kind) for kind in types])


def _sharding_rule(executable: Executable, rank: int, axes: tuple[Axes, ...]) -> tuple[str, tuple[str, ...]]:
    """The einsum-like rule of a batched call, and its axes that devices must not split: all but those of the batch."""
    together: list[str] = []

    def names(spec: TensorSpec, own: Axes) -> str:
        fresh = [f"d{len(together) + number}" for number in range(len(spec.shape))]
        together.extend(fresh)
        return " ".join([*(f"b{axis}" for axis in own), *fresh])

    ins = ", ".join(names(spec, own) for spec, own in zip(executable.inputs, axes, strict=True))
    outs = ", ".join(names(spec, tuple(range(rank))) for spec in executable.outputs)
    return f"{ins} -> {outs}", tuple(together)


# Lowering


def _lower_for_cpu(
    ctx: Any,
    *operands: Any,
    executable: Executable,
    grid: tuple[int, ...],
    batch: tuple[int, ...],
    axes: tuple[Axes, ...],
    partitioned: Any,
) -> Any:
    for_export = ctx.module_context.lowering_parameters.for_export
    if partitioned is not None and not for_export:
        return mlir.lower_fun(jaxpr_as_fun(partitioned), multiple_results=True)(ctx, *operands)
    attributes: dict[str, str] = {}
    reference = ""
    if for_export:
        reference, attributes[_KERNEL] = embedded.divided(embedded.embed(executable))
    attributes[_CONFIG] = config_for(executable, grid, reference).encode()
    if batch:
        attributes[_BATCH] = ",".join(" ".join(map(str, own)) for own in axes)
    lower = jax.ffi.ffi_lowering(CUSTOM_CALL_TARGET, operand_output_aliases=_aliases(executable))
    return lower(ctx, *operands, **attributes)


def _lower_for_neuron(
    ctx: Any,
    *operands: Any,
    executable: Executable,
    grid: tuple[int, ...],
    batch: tuple[int, ...],
    axes: tuple[Axes, ...],
    **_: Any,
) -> Any:
    if batch:
        parameters = {"executable": executable, "grid": grid, "batch": batch[1:], "partitioned": None}
        inner = tuple(tuple(a - 1 for a in own if a) for own in axes)

        def loop(*arrays: Any) -> Any:
            def one(element: tuple[Any, ...]) -> Any:
                rest = iter(element)
                parts = [next(rest) if 0 in own else x for x, own in zip(arrays, axes, strict=True)]
                return tuple(nki_call.bind(*parts, axes=inner, **parameters))

            return jax.lax.map(one, tuple(x for x, own in zip(arrays, axes, strict=True) if 0 in own))

        return mlir.lower_fun(loop, multiple_results=True)(ctx, *operands)
    lower = jax.ffi.ffi_lowering(
        CUSTOM_CALL_TARGET,
        api_version=_STATUS_RETURNING,
        backend_config=config_for(executable, grid).encode(),
        operand_output_aliases=_aliases(executable),
    )
    return lower(ctx, *operands)


def _aliases(executable: Executable) -> dict[int, int]:
    """The result that shares the storage of an operand, by the operand's position."""
    return {i: o for o, i in executable.changes.items()}


mlir.register_lowering(nki_call, _lower_for_cpu, platform="cpu")
mlir.register_lowering(nki_call, _lower_for_neuron)


jax.ffi.register_ffi_target(CUSTOM_CALL_TARGET, jax.ffi.pycapsule(HANDLER), platform="cpu")
