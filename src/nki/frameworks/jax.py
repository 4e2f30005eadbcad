"""Kernels on JAX arrays: concrete, inside ``jax.jit``, and in functions with derivatives of their own.

A kernel is one JAX primitive, ``nki_call``, which lowers to a custom call with target ``AwsNeuronCustomNativeKernel``.
For Neuron devices it has the form that the vendor's compiler reads (status-returning, ``backend_config`` as text). XLA
on the CPU never passed that text to status-returning calls and drops them, so there the same target is a call of XLA's
typed interface with the same text as an attribute; XLA's buffers go to the kernel without a copy. In programs of
``jax.export`` a second attribute holds the compiled kernel (:mod:`nki.frameworks.embedded`).
"""

# JAX declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import jax
import numpy as np
from jax.core import ShapedArray, Tracer
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import NamedSharding, PartitionSpec, get_abstract_mesh

from nki.base import dtype as dtypes
from nki.base.errors import BackendConfigError, EagerTraceError, NotBatchableError, NotDifferentiableError
from nki.frameworks import embedded, xla_ffi
from nki.frameworks.config import CUSTOM_CALL_TARGET, BackendConfig
from nki.frameworks.kernel import (
    Adapter,
    FrameworkKernel,
    Operand,
    check_operands,
    config_for,
    find,
    pack,
)
from nki.frameworks.numpy import NumPyTensors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nki.compiler.executable import Executable
    from nki.jit import Kernel

_STATUS_RETURNING: Final = 2  # API_VERSION_STATUS_RETURNING
_CONFIG: Final = xla_ffi.CONFIG.decode()
_KERNEL: Final = xla_ffi.KERNEL.decode()


class JAXTensors(NumPyTensors):
    """JAX arrays and tracers, and NumPy arrays, which JAX functions take as well."""

    def is_framework_tensor(self, t: Any) -> bool:
        return isinstance(t, jax.Array) or super().is_framework_tensor(t)


class JAXAdapter(JAXTensors, Adapter):
    """Runs kernels on concrete arrays, and records them while JAX traces."""

    def call(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        executable, tensors = kernel.specialise(args, kwargs, self)
        if any(isinstance(t, Tracer) for t in tensors):
            varying = _varying_alike(tensors)
            return pack(executable, _nki_call.bind(*varying, executable=executable, grid=kernel.launch_grid()))
        try:
            return pack(executable, _compiled(executable, kernel.launch_grid())(*tensors))
        except Exception:
            _handle_signals()
            raise

    def to_numpy(self, t: Any) -> NDArray[Any]:
        if isinstance(t, Tracer):
            raise EagerTraceError(
                "the eager simulator needs values, and inside jax.jit there are none", fix="call it outside jax.jit"
            )
        return np.asarray(t)

    def update(self, t: Any, array: NDArray[Any], name: str) -> Any:  # noqa: ARG002  # arrays of JAX never change
        return self.from_numpy(array)

    def from_numpy(self, array: NDArray[Any]) -> Any:
        return jax.numpy.asarray(array.view(dtypes.of(array.dtype).plain))


class JAXFrameworkKernel(JAXTensors, FrameworkKernel):
    """A :class:`FrameworkKernel` whose example arguments are JAX or NumPy arrays."""


def _handle_signals() -> None:
    """Let Python raise the KeyboardInterrupt that has ended a kernel, of which XLA has made an error of its own."""


# The primitive. Its parameters: the executable, and the grid that the config mentions.

_nki_call: Final = Primitive("nki_call")
_nki_call.multiple_results = True


def _varying_alike(tensors: Sequence[Any]) -> list[Any]:
    """The operands, marked as different from device to device on each axis of ``jax.shard_map`` where one is."""
    axes = [jax.typeof(t).manual_axis_type.varying for t in tensors]
    union = frozenset[Any]().union(*axes)
    if not union:
        return list(tensors)
    missing = [tuple(sorted(union - own)) for own in axes]
    return [jax.lax.pcast(t, m, to="varying") if m else t for t, m in zip(tensors, missing, strict=True)]


@_nki_call.def_abstract_eval
def _result_types(*operands: ShapedArray, executable: Executable, **_: Any) -> list[ShapedArray]:
    plain = [ShapedArray(spec.shape, spec.dtype.plain) for spec in executable.outputs]
    mesh = get_abstract_mesh()
    if mesh.empty or not operands:
        return plain
    # Results differ from device to device as the operands do, which all vary alike.
    whole, varying = NamedSharding(mesh, PartitionSpec()), operands[0].manual_axis_type
    return [result.update(sharding=whole, manual_axis_type=varying) for result in plain]


@functools.cache
def _compiled(executable: Executable, grid: tuple[int, ...]) -> Any:
    return jax.jit(functools.partial(_nki_call.bind, executable=executable, grid=grid))


@_nki_call.def_impl
def _run(*operands: Any, executable: Executable, grid: tuple[int, ...]) -> Any:
    with jax.disable_jit(False):
        return _compiled(executable, grid)(*operands)


def _refuse_derivative(*_: Any, executable: Executable, **__: Any) -> Any:
    raise NotDifferentiableError(
        f"kernel {executable.name!r} has no derivative",
        fix="call it in a function with jax.custom_vjp (or custom_jvp), or on values under jax.lax.stop_gradient",
    )


def _refuse_batch(*_: Any, executable: Executable, **__: Any) -> Any:
    raise NotBatchableError(
        f"kernel {executable.name!r} cannot run under jax.vmap: it is compiled for the shapes of one call",
        fix="use jax.lax.map, or write the batch axis into the kernel",
    )


ad.primitive_jvps[_nki_call] = _refuse_derivative
batching.primitive_batchers[_nki_call] = _refuse_batch


def _lower_for_cpu(ctx: Any, *operands: Any, executable: Executable, grid: tuple[int, ...]) -> Any:
    if ctx.module_context.lowering_parameters.for_export:
        reference, encoded = embedded.divided(embedded.embed(executable))
        attributes = {_CONFIG: config_for(executable, grid, reference).encode(), _KERNEL: encoded}
    else:
        attributes = {_CONFIG: config_for(executable, grid).encode()}
    return jax.ffi.ffi_lowering(CUSTOM_CALL_TARGET)(ctx, *operands, **attributes)


def _lower_for_neuron(ctx: Any, *operands: Any, executable: Executable, grid: tuple[int, ...]) -> Any:
    config = config_for(executable, grid).encode()
    lower = jax.ffi.ffi_lowering(CUSTOM_CALL_TARGET, api_version=_STATUS_RETURNING, backend_config=config)
    return lower(ctx, *operands)


mlir.register_lowering(_nki_call, _lower_for_cpu, platform="cpu")
mlir.register_lowering(_nki_call, _lower_for_neuron)


# The custom call on the CPU


_kernels: Final[dict[bytes, Executable]] = {}
"""The kernel of each config. That of an embedded kernel holds its digest, so that its bytes are looked at once."""


def _kernel_of(config: bytes, kernel: Callable[[], bytes]) -> Executable:
    decoded = BackendConfig.decode(config)
    decoded.check_runnable()
    binary = decoded.binary
    executable = find(f"{binary}:{kernel().decode('latin-1')}" if binary.startswith(embedded.MARK) else binary)
    if decoded.platform_target and decoded.platform_target != executable.kernel.target:
        raise BackendConfigError(
            f"the graph calls kernel {decoded.func_name!r} for {decoded.platform_target}; its artifact is for "
            f"{executable.kernel.target}",
            fix="trace or export the program again",
        )
    _kernels[config] = executable
    return executable


def _execute(
    config: bytes, kernel: Callable[[], bytes], arguments: Sequence[Operand], results: Sequence[Operand]
) -> None:
    """Run a kernel on XLA's buffers. Operands after the kernel's inputs are constants of the graph that it ignores."""
    executable = _kernels.get(config) or _kernel_of(config, kernel)
    check_operands(executable.name, executable.inputs, arguments)
    check_operands(executable.name, executable.outputs, results)
    buffers = (*arguments[: len(executable.inputs)], *results)
    executable.launch([address for address, _, _ in buffers])


_handler: Final = xla_ffi.handler(_execute)
jax.ffi.register_ffi_target(CUSTOM_CALL_TARGET, jax.ffi.pycapsule(_handler), platform="cpu")

ADAPTER: Final = JAXAdapter()
