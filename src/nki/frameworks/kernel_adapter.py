"""Common parts of all bridges: the adapter that ``kernel(...)`` calls, the public FrameworkKernel, loaded kernels.

A framework's tensors are described by three methods (:class:`TensorMap`), the documented extension point for framework
developers. An :class:`Adapter` adds how to run a kernel on those tensors; a :class:`FrameworkKernel` adds how to write
the kernel into an XLA graph.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np

from nki.base import element_types as dtypes
from nki.base.element_types import DType
from nki.base.errors import ArgumentError, ArtifactError, KernelArgumentError, UnknownDTypeError
from nki.base.framework_errors import EmptyTensorError, OperandError, ScalarTensorError
from nki.base.locks import Lock, imported
from nki.compilation import output_arguments
from nki.compilation.executable_cache import NamedExecutables
from nki.frameworks import embedded
from nki.frameworks.backend_config import BackendConfig
from nki.frontend.capture import capture
from nki.frontend.dialect import dialect_of, under_dialect
from nki.frontend.specialise import by_reference
from nki.jit import Kernel, jit, simulate_eagerly

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nki.compilation.executable import Executable
    from nki.compilation.traced_step import Event
    from nki.ir.program import Program
    from nki.ir.types import TensorSpec

T = TypeVar("T")
PLAIN_CONSTANTS: Final = frozenset({type(None), bool, int, str})
"""Types of arguments that count with type and value as a key."""
_RETRACE: Final = "clear the framework's compilation cache, so that the program is traced again"


class TensorMap(ABC):
    """Mapping of one framework's tensors to kernel arguments."""

    @abstractmethod
    def translate_to_neuron_dtype(self, _dtype: Any) -> Any:
        """The NKI dtype of a framework dtype, or NumPy's; raises UnknownDTypeError where NKI has none."""

    @abstractmethod
    def is_framework_tensor(self, t: Any) -> bool:
        """True if ``t`` is an input of the kernel; any other value is a compile-time constant."""

    @abstractmethod
    def map_framework_tensor(self, t: Any) -> tuple[tuple[int, ...], Any]:
        """Shape and framework dtype of a tensor; raises an NkiError for a tensor that no kernel can take."""


class Adapter(TensorMap):
    """Runs kernels on one framework's tensors."""

    @abstractmethod
    def call(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Specialise ``kernel`` for the arguments, run it (or record it, while tracing) and return its results."""

    def check_changes(self, program: Program) -> None:
        """Raise if tensors of this framework cannot change where ``program`` changes and does not return an input."""

    def simulate(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run ``kernel`` in the eager simulator and return its results."""
        return simulate_eagerly(kernel, args, kwargs, self)

    def carried(self) -> Callable[[], AbstractContextManager[Any]]:
        """The framework's state of this thread, for another one to enter that runs a part of the same call."""
        return nullcontext

    def extent(self, t: Any) -> tuple[int, int]:  # noqa: ARG002  # tensors that never change
        """The address of the first byte of a tensor that kernels can change, and of the byte behind its last one."""
        return 0, 0

    @abstractmethod
    def to_numpy(self, t: Any) -> NDArray[Any]:
        """The elements of a tensor in its NKI dtype, for the eager simulator."""

    @abstractmethod
    def update(self, t: Any, array: NDArray[Any], name: str) -> Any:
        """The tensor ``t``, the input ``name``, after a kernel has changed its elements to the ones in ``array``."""

    @abstractmethod
    def from_numpy(self, array: NDArray[Any]) -> Any:
        """A tensor of the framework with the elements of ``array``."""

    def trace(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Event]:  # noqa: ARG002
        """The events of ``function``, without data: launches of kernels and operations of the framework, in order.

        Arguments are tensors of the framework or arrays of NumPy, of which only shape and dtype count; any other value
        is passed as it is. Kernels are compiled as in a call. Raises :class:`StepTraceError` if it cannot be traced.
        """
        raise imported("nki.base.profile_errors").StepTraceError(  # which no launch needs
            f"{getattr(function, '__name__', 'this function')} has no tensors of PyTorch or JAX, which trace a step",
            fix="pass such tensors, or say which framework traces it: nki.profile_step(step, framework='torch')(…)",
        )


class FrameworkKernel(TensorMap):
    """Writes a kernel into an XLA graph, as a custom call with target ``AwsNeuronCustomNativeKernel``.

    Subclass it for a framework, with the three methods of :class:`TensorMap`; dtypes may come from NKI or NumPy.
    ``func`` is a kernel function, decorated or not; ``func_name`` the name that the graph shows. ``grid`` is a number
    of cores, or a grid of independent programs of any size and rank, which one core runs one after the other; for a
    kernel of Beta 1 it is what its brackets take. One object serves any number of argument shapes; each gets a config
    of its own.

    ``enable_cache``, also an attribute of the class: False compiles anew in each call of :meth:`dump_config`.
    """

    enable_cache: bool = True
    make_kernel = staticmethod(jit)
    """Makes a kernel of a plain function; ``neuronxcc.nki`` has one for Beta 1."""

    def __init__(
        self,
        func_name: str | None = None,
        func: Callable[..., Any] | Kernel | None = None,
        grid: int | Sequence[int] = (),
        *,
        enable_cache: bool | None = None,
        **kernel_attrs: Any,
    ) -> None:
        if func is None:
            raise TypeError(f"{type(self).__name__} needs func=, the kernel function")
        kernel = func if isinstance(func, Kernel) else self.make_kernel(func, **kernel_attrs)
        self.grid = kernel.grid_of(grid) or kernel.grid
        self._given = kernel.varied(grid=self.grid)
        self.kernel = _by_reference(self._given)
        self.func_name: Final = func_name or kernel.func.__name__
        if enable_cache is not None:
            self.enable_cache = enable_cache

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "kernel"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.kernel = _by_reference(self._given)

    @property
    def func(self) -> Callable[..., Any]:
        """The kernel's function."""
        return self.kernel.func

    def dump_config(self, *args: Any, **kwargs: Any) -> tuple[str, list[str], list[str]]:
        """Compile for these arguments; returns the ``backend_config`` text, the input names and the output names.

        A kernel that returns nothing returns the arguments that it writes. One of these is an output alone, and no
        input of the graph's call, if the kernel writes all of it before it reads any.
        Only shapes and dtypes of the tensors matter, not their contents. With ``enable_cache``, equal shapes, dtypes
        and constants get the kernel that was compiled for them first.
        """
        tensors = _Described(self)
        if self.enable_cache:
            executable, _ = self.kernel.specialise(args, kwargs, tensors)
            executable = output_arguments.without_operands(executable, capture(self.func))
            binary = remember(executable)
        else:
            executable = self.kernel.compile_anew(args, kwargs, tensors)
            executable = output_arguments.without_operands(executable, capture(self.func))
            binary = str(executable.artifact())
        if not Path(binary).is_file():
            executable.artifact()  # the cache was cleared since
        if not Path(binary).is_file():
            raise ArtifactError(
                f"{binary} cannot be written, so no other process could run the kernel",
                fix="set OPEN_NKI_CACHE to a folder that can be written to",
            )
        config = _config(executable, binary, executable.kernel.grid, self.func_name)
        return config.encode(), list(config.input_names), list(config.output_names)


def _by_reference(kernel: Kernel) -> Kernel:
    """``kernel``, which may return nothing: its results are then the arguments that it writes."""
    dialect = dialect_of(kernel.func)
    referenced = by_reference(dialect)
    return kernel if referenced is dialect else kernel.varied(func=under_dialect(kernel.func, referenced))


class _Described:
    """The tensors of a framework as its :class:`FrameworkKernel` describes them, in the words of this package."""

    def __init__(self, framework: FrameworkKernel) -> None:
        self.framework = framework

    def is_framework_tensor(self, t: Any) -> bool:
        return bool(self.framework.is_framework_tensor(t))

    def map_framework_tensor(self, t: Any) -> tuple[tuple[int, ...], Any]:
        shape, dtype = self.framework.map_framework_tensor(t)
        shape = tuple(map(operator.index, shape))
        check_shape(shape)
        return shape, self.translate_to_neuron_dtype(dtype)

    def translate_to_neuron_dtype(self, _dtype: Any) -> DType:
        if isinstance(_dtype, DType):  # of map_framework_tensor, above
            return _dtype
        translated: Any = self.framework.translate_to_neuron_dtype(_dtype)
        if isinstance(translated, np.dtype) and cast("np.dtype[Any]", translated).str == "|V2":
            return dtypes.bfloat16  # NumPy's own representation: two bytes without a meaning
        try:
            return dtypes.of(translated)
        except (TypeError, UnknownDTypeError):
            raise UnknownDTypeError(
                f"{type(self.framework).__name__}.translate_to_neuron_dtype makes {translated!r:.60} of {_dtype}; that "
                "is no dtype of NKI",
                fix='return one of nki.language, such as nl.bfloat16, or one of NumPy, such as np.dtype("float32")',
            ) from None


def check_shape(shape: Sequence[int]) -> None:
    """Refuse the shapes that no kernel can take: rank 0, and no elements."""
    if not shape:
        raise ScalarTensorError(
            "a tensor of rank 0 has no partition axis",
            fix="reshape it to (1,) to pass it as data, or pass a Python number to compile it in",
        )
    if 0 in shape:
        raise EmptyTensorError(
            f"a tensor of shape {tuple(shape)} has no elements, so there is nothing to run the kernel on",
            fix="leave the call out for empty inputs",
        )


def check_elements(name: str, shape: Sequence[int], strides: Sequence[int]) -> None:
    """Raise :class:`KernelArgumentError` if a tensor that a kernel changes has one element in several places."""
    if 0 in strides and any(not stride and size > 1 for size, stride in zip(shape, strides, strict=True)):
        raise KernelArgumentError(
            f"the kernel changes {name!r}, a broadcast tensor, which has one element in several places",
            fix="pass a copy of it",
        )


def check_gradient(
    maker: str,
    backward: Callable[..., Any] | None,
    reference: Callable[..., Any] | None,
    save: str,
    changes: Sequence[str] = (),
) -> None:
    """Raise :class:`ArgumentError` unless one of both is given, and ``save`` and ``changes`` go with it."""
    if (backward is None) == (reference is None):
        raise ArgumentError(
            f"{maker} was given {'neither a backward nor a reference' if backward is None else 'both'}",
            fix=f"write {maker}(kernel, backward), or {maker}(kernel, reference=f) for the gradient of a function f",
        )
    if reference is not None and save != "inputs":
        raise ArgumentError(
            f"{maker}(reference=…, save={save!r}): the gradient of a reference needs the inputs", fix="leave save out"
        )
    if reference is not None and changes:
        raise ArgumentError(
            f"{maker}(reference=…, changes={list(changes)!r}): a reference changes no argument", fix="write a backward"
        )


def pack(executable: Executable, outputs: Sequence[T]) -> T | tuple[T, ...]:
    """Outputs in the form in which the kernel returned them, one or a tuple, without those that it did not return."""
    return tuple(outputs[: executable.returned]) if executable.returns_sequence else outputs[0]


def _is_lasting(path: str, executable: Executable) -> bool:
    """True if the file at ``path`` gives ``executable`` again."""
    if not executable.precise:  # under the present knobs, maybe another one
        return False
    if not Path(path).is_file():
        executable.artifact()  # the cache was cleared since
    return Path(path).is_file()


_named: Final = NamedExecutables(_is_lasting)
_lock: Final = Lock()


def remember(executable: Executable) -> str:
    """The path by which graphs name ``executable``; this process finds it while it is in memory, or else on disk."""
    path = executable.path
    if path is None:
        path = executable.path = str(executable.artifact())
    if _named.get(path) is None:
        _named.add(path, executable)
    return path


def config_for(executable: Executable, grid: Sequence[int], binary: str = "") -> BackendConfig:
    """The config of a custom call to ``executable``, which :func:`find` will find by its ``binary``.

    That is a path, or the reference of an embedded kernel if the caller gives it.
    """
    return _config(executable, binary or remember(executable), grid, executable.name)


def _config(executable: Executable, binary: str, grid: Sequence[int], func_name: str) -> BackendConfig:
    return BackendConfig(
        func_name=func_name,
        binary=binary,
        input_names=tuple(spec.name for spec in executable.inputs),
        output_names=tuple(spec.name for spec in executable.outputs),
        grid=tuple(grid),
        platform_target=executable.kernel.target,
        aliases=tuple((i, o) for o, i in sorted(executable.changes.items())),
    )


def find(path: str) -> Executable:
    """The kernel that a graph names or, in an exported program, holds (:mod:`nki.frameworks.embedded`).

    It comes from this process or, in a graph from another process's cache, from disk.
    """
    if path.startswith(embedded.MARK):
        return embedded.load(path)
    found = _named.get(path)
    if found is not None:
        return found
    with _lock:
        found = _named.get(path)
        if found is None:
            if not Path(path).is_file():
                raise ArtifactError(
                    f"the graph calls the compiled kernel {path}, which does not exist",
                    fix=_RETRACE,
                )
            found = imported("nki.compilation.executable").Executable.load(path)
            _named.add(path, found)
        return found


Operand = tuple[int, Sequence[int], "DType | None"]
"""Address, shape and element type (None for one that NKI does not have) of a row-major buffer of a graph."""


def check_operands(name: str, specs: Sequence[TensorSpec], operands: Sequence[Operand], surplus: bool = False) -> None:
    """Refuse operands that differ from the ``specs`` of kernel ``name``; ``surplus``: there may be more of them.

    A graph that comes from a cache or a file may disagree with the artifact that it names, and a kernel trusts its
    pointers.
    """
    if len(operands) < len(specs) or (len(operands) > len(specs) and not surplus):
        raise OperandError(
            f"kernel {name!r} has {len(specs)} tensors here; the graph passes {len(operands)}", fix=_RETRACE
        )
    for spec, (_, shape, dtype) in zip(specs, operands, strict=False):
        if tuple(shape) != spec.shape or dtype is None or dtype.plain != spec.dtype.plain:
            raise OperandError(
                f"kernel {name!r} was compiled for {spec.name} of {spec.dtype} {spec.shape}; the graph passes "
                f"{dtype or 'another dtype'} {tuple(shape)}",
                fix=_RETRACE,
            )
