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
from jax.core import ShapedArray, Tracer
from jax.experimental.jet import jet_rules
from jax.extend.core import Primitive, jaxpr_as_fun
from jax.extend.mlir import ir
from jax.interpreters import ad, batching, mlir
from jax.sharding import NamedSharding, PartitionSpec, get_abstract_mesh

from nki.base.framework_errors import NotDifferentiableError
from nki.compilation.executable_cache import CAPACITY
from nki.compilation.launch_errors import BugReports
from nki.frameworks import embedded, xla_ffi
from nki.frameworks.backend_config import CUSTOM_CALL_TARGET
from nki.frameworks.custom_call import HANDLER
from nki.frameworks.jax_partition import is_split_by_hand, ranks_here, split_axes, splittable
from nki.frameworks.kernel_adapter import config_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nki.compilation.executable import Executable

Axes = tuple[int, ...]
_STATUS_RETURNING: Final = 2  # API_VERSION_STATUS_RETURNING
_CONFIG: Final = xla_ffi.CONFIG.decode()
_KERNEL: Final = xla_ffi.KERNEL.decode()
_BATCH: Final = xla_ffi.BATCH.decode()
_RANKS: Final = xla_ffi.RANKS.decode()

nki_call: Final = Primitive("nki_call")
"""Parameters: ``executable``; ``grid``, which the config mentions; ``batch``, the sizes of the batch axes; ``axes``,
for each operand the batch axes that it has; ``partitioned``, the same call for several devices (None: the call itself);
``ranks``, the number of devices that are ranks of the launch, and then the last operand is the rank (0: the kernel has
no collectives, or one device calls it).

Results have all batch axes, before their own; an operand has the ones in ``axes``, in order.
"""
nki_call.multiple_results = True


def call(executable: Executable, grid: tuple[int, ...], operands: Sequence[Any], partitioned: Any = None) -> list[Any]:
    """Call ``executable``, or record the call in the program that JAX traces.

    ``partitioned``: the call as a function that XLA may split over devices (:mod:`nki.frameworks.jax_partition`).
    """
    parameters = _parameters(executable, grid) | {"partitioned": partitioned}
    if executable.kernel.meets_ranks and (count := ranks_here(executable.name)) > 1:
        operands = [*operands, jax.lax.axis_index(split_axes())]
        parameters |= {"ranks": count, "axes": (*parameters["axes"], ())}
    return nki_call.bind(*varying_alike(operands), **parameters)


def _parameters(executable: Executable, grid: tuple[int, ...]) -> dict[str, Any]:
    axes = ((),) * len(executable.inputs)
    return {"executable": executable, "grid": grid, "batch": (), "axes": axes, "partitioned": None, "ranks": 0}


def varying_alike(tensors: Sequence[Any]) -> list[Any]:
    """The operands, marked as different from device to device on each axis of ``jax.shard_map`` where one is."""
    axes = [jax.typeof(t).manual_axis_type.varying for t in tensors]
    union = frozenset[Any]().union(*axes)
    if not union:
        return list(tensors)
    missing = [tuple(sorted(union - own)) for own in axes]
    return [jax.lax.pcast(t, m, to="varying") if m else t for t, m in zip(tensors, missing, strict=True)]


@nki_call.def_abstract_eval
@BugReports()
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


@functools.lru_cache(CAPACITY)
def compiled(executable: Executable, grid: tuple[int, ...]) -> Any:
    """The call as a jitted function of concrete arrays."""
    return _jitted(**_parameters(executable, grid))


@functools.lru_cache(CAPACITY)
def _jitted(**parameters: Any) -> Any:
    return jax.jit(functools.partial(nki_call.bind, **parameters))


@nki_call.def_impl
def _run(*operands: Any, **parameters: Any) -> Any:
    with jax.disable_jit(False):
        return _jitted(**parameters)(*operands)


def _refuse_derivative(*_: Any, executable: Executable, **__: Any) -> Any:
    raise NotDifferentiableError(
        f"kernel {executable.name!r} has no derivative",
        fix="give it one, f = nki.jax.op(kernel, backward), and call f; "
        "or call it on values under jax.lax.stop_gradient",
    )


ad.primitive_jvps[nki_call] = _refuse_derivative
ad.primitive_transposes[nki_call] = _refuse_derivative
jet_rules[nki_call] = _refuse_derivative


# Operators with a backward alone


def reverse_only(tensor: Any, owner: str) -> Any:
    """``tensor``, an argument of ``owner``, which has a backward alone: forward mode is refused, and what needs it.

    JAX itself refuses that too, without the name of the function or a way out.
    """
    return _argument.bind(tensor, owner=owner) if isinstance(tensor, Tracer) else tensor


def _refuse_forward(*_: Any, owner: str, **__: Any) -> Any:
    raise NotDifferentiableError(
        f"{owner} has a backward alone, and forward mode (jax.jvp) needs the derivative of results",
        fix="use jax.grad or jax.vjp; for forward mode write a function with jax.custom_jvp",
    )


def _same(x: Any, **_: Any) -> Any:
    return x


def _lowered_to_itself(_: Any, x: Any, **__: Any) -> list[Any]:
    return [x]


def _transposed(gradient: Any, _: Any, **__: Any) -> list[Any]:
    return [gradient]


def _differentiated(primals: Any, tangents: Any, owner: str) -> tuple[Any, Any]:
    return _argument.bind(*primals, owner=owner), _tangent.bind(*tangents, owner=owner)


_argument: Final = Primitive("nki_argument")
"""An argument: itself. In reverse mode JAX transposes its tangent and never computes it, in forward mode it does."""
_argument.def_impl(_same)
_argument.def_abstract_eval(_same)
batching.defvectorized(_argument)
mlir.register_lowering(_argument, _lowered_to_itself)
ad.primitive_jvps[_argument] = _differentiated
jet_rules[_argument] = _refuse_forward
_tangent: Final = Primitive("nki_tangent")
_tangent.def_impl(_refuse_forward)
_tangent.def_abstract_eval(_same)
batching.defvectorized(_tangent)
mlir.register_lowering(_tangent, _refuse_forward)
ad.deflinear2(_tangent, _transposed)


# Batches


@BugReports()
def _add_batch(
    operands: Sequence[Any],
    mapped: Sequence[int | None],
    *,
    executable: Executable,
    grid: tuple[int, ...],
    batch: tuple[int, ...],
    axes: tuple[Axes, ...],
    ranks: int,
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
    types = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in placed)
    partitioned = None if is_split_by_hand() else _splittable(types=types, **parameters)
    results = nki_call.bind(*placed, **parameters, partitioned=partitioned, ranks=ranks)
    return results, (0,) * len(results)


def _spread(x: Any, axes: Axes, batch: tuple[int, ...]) -> Any:
    """``x``, which has some batch ``axes``, with all."""
    shape = x.shape[len(axes) :]
    own = tuple(size if axis in axes else 1 for axis, size in enumerate(batch))
    return jax.numpy.broadcast_to(x.reshape(*own, *shape), (*batch, *shape))


batching.primitive_batchers[nki_call] = _add_batch


@functools.lru_cache(CAPACITY)
def _splittable(
    executable: Executable,
    grid: tuple[int, ...],
    batch: tuple[int, ...],
    axes: tuple[Axes, ...],
    types: tuple[jax.ShapeDtypeStruct, ...],
) -> Any:
    """The call as a function that XLA may split along the batch axes, which are named b0, b1 and so on."""

    def run(*operands: Any) -> tuple[Any, ...]:
        sizes = {a: x.shape[k] for x, own in zip(operands, axes, strict=True) for k, a in enumerate(own)}
        own_batch = tuple(sizes[a] for a in range(len(batch)))
        parameters = {"executable": executable, "grid": grid, "batch": own_batch, "axes": axes}
        return tuple(nki_call.bind(*operands, **parameters, partitioned=None, ranks=0))

    names = tuple(f"b{axis}" for axis in range(len(batch)))
    ins = [
        (*(names[a] for a in own), *(f"i{n}_{k}" for k in range(len(spec.shape))))
        for n, (own, spec) in enumerate(zip(axes, executable.inputs, strict=True))
    ]
    outs = [(*names, *(f"o{n}_{k}" for k in range(len(spec.shape)))) for n, spec in enumerate(executable.outputs)]
    return splittable(run, types, ins, outs, names)


# Lowering


@BugReports()
def _lower_for_cpu(
    ctx: Any,
    *operands: Any,
    executable: Executable,
    grid: tuple[int, ...],
    batch: tuple[int, ...],
    axes: tuple[Axes, ...],
    partitioned: Any,
    ranks: int,
) -> Any:
    for_export = ctx.module_context.lowering_parameters.for_export
    if not for_export:
        ctx.module_context.add_keepalive(executable)  # the program itself holds only a name
    if partitioned is not None and not for_export:
        results = mlir.lower_fun(jaxpr_as_fun(partitioned), multiple_results=True)(ctx, *operands)
        _name_kernel(results[0].owner, config_for(executable, grid).encode())
        return results
    attributes: dict[str, str] = {}
    reference = ""
    if for_export:
        reference, attributes[_KERNEL] = embedded.divided(embedded.embed(executable))
    attributes[_CONFIG] = config_for(executable, grid, reference).encode()
    if batch:
        attributes[_BATCH] = ",".join(" ".join(map(str, own)) for own in axes[: len(executable.inputs)])
    if ranks:
        attributes[_RANKS] = str(ranks)
    lower = jax.ffi.ffi_lowering(CUSTOM_CALL_TARGET, operand_output_aliases=_aliases(executable))
    return lower(ctx, *operands, **attributes)


def _name_kernel(operation: Any, config: str) -> None:
    """Write ``config`` at an ``operation`` that XLA will split, which shows only an address in this process.

    Without it programs with different kernels could have one key in JAX's compilation cache.
    """
    target = operation.attributes.get("call_target_name", None)
    if target is not None and target.value != CUSTOM_CALL_TARGET:
        operation.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get({"nki_kernel": ir.StringAttr.get(config)})


@BugReports()
def _lower_for_neuron(
    ctx: Any,
    *operands: Any,
    executable: Executable,
    grid: tuple[int, ...],
    batch: tuple[int, ...],
    axes: tuple[Axes, ...],
    ranks: int,
    **_: Any,
) -> Any:
    if ranks:  # the runtime of the device knows
        operands, axes, ctx = operands[:-1], axes[:-1], ctx.replace(avals_in=ctx.avals_in[:-1])
    if batch:
        parameters = {"executable": executable, "grid": grid, "batch": batch[1:], "partitioned": None, "ranks": 0}
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
