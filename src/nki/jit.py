"""``nki.jit``: a kernel function that specialises itself for its arguments, compiles, caches and runs."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from nki import compiler
from nki import target as targets
from nki.base import knobs
from nki.base.dtype import DType
from nki.base.errors import NkiError
from nki.base.locks import Lock, imported
from nki.base.source import Span
from nki.base.warning import collecting, warn_at
from nki.compiler import jit_options, launch_grid, pipeline
from nki.compiler.cache import store as compiled
from nki.compiler.cache.captured_values import constant_key, seen, unchanged
from nki.compiler.cache.fingerprint import fingerprint
from nki.compiler.pickled_kernel import PickledByName
from nki.frontend.captured_state import Read, watching
from nki.frontend.diagnostics import misfit
from nki.frontend.dialect import under_dialect
from nki.frontend.errors import NotAFunctionError
from nki.frontend.inlining import invoke
from nki.frontend.python.stars import STARS, by_position, spread
from nki.ir.ordering import Pairs, pairs_of
from nki.ir.program import Program
from nki.ir.recorder import is_recording
from nki.ir.types import TensorSpec
from nki.numerics.floating_point import default_environment
from nki.target.model import Target

if TYPE_CHECKING:
    from nki.compiler.config import Configs
    from nki.compiler.executable import Executable


class TensorMap(Protocol):
    """Mapping of a framework's tensors to kernel arguments; see ``nki.frameworks.kernel.TensorMap``."""

    def is_framework_tensor(self, t: Any) -> bool: ...
    def map_framework_tensor(self, t: Any) -> tuple[tuple[int, ...], Any]: ...
    def translate_to_neuron_dtype(self, _dtype: Any) -> DType: ...


class Adapter(TensorMap, Protocol):
    """Interface of a framework's bridge; see ``nki.frameworks.kernel.Adapter``."""

    def call(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def to_numpy(self, t: Any) -> np.ndarray[Any, Any]: ...
    def update(self, t: Any, array: np.ndarray[Any, Any], name: str) -> Any: ...
    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any: ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bridge:
    """A module with an ``ADAPTER``, imported when a tensor of its framework is met first.

    ``roots`` are the root modules of the framework's tensor types; none: the bridge for everything else. Of several
    frameworks in one call, the bridge with the highest ``rank`` takes it.
    """

    module: str
    roots: tuple[str, ...]
    rank: int


_by_root: dict[str, Bridge] = {}


def register_bridges(bridges: Iterable[Bridge]) -> None:
    """Make bridges known; ``nki`` does so for those of ``nki.frameworks``."""
    for bridge in bridges:
        _by_root.update(dict.fromkeys(bridge.roots or ("",), bridge))


_MOST_KEPT: Final = 256
"""Limit on the executables that a kernel keeps in memory; the least recently used one is dropped."""
_VALUES: Final = 8
"""Compilations for other values of numbers alone before a kernel warns."""


class Kernel(PickledByName):
    """A function decorated with ``@nki.jit``.

    Call it with arrays of NumPy, PyTorch or JAX: it compiles itself for their shapes and dtypes, once, and runs
    natively. ``kernel[n]`` launches on n cores. Called inside another kernel it is inlined.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        grid: tuple[int, ...] = (),
        target: Target | None = None,
        schedule: Pairs = (),
        check: bool = False,
        configs: Configs | None = None,
    ) -> None:
        functools.update_wrapper(self, func)
        self.func = func
        self.grid = grid
        self.target = target
        self.schedule = schedule
        self.check = check
        """The first launch of each compiled kernel is checked; so it is with ``NKI_CHECK=1``."""
        self.configs = configs
        self._signature = inspect.signature(func)
        self._names = tuple(self._signature.parameters)
        self._by_position = by_position(self._signature)
        self._executables: dict[Any, Executable] = {}
        self._clock = 0
        """Advances with each compilation; executables have the time of their last use."""
        self._values: dict[Any, int] = {}
        """The number of compilations by their key without numbers."""
        self._lock = Lock()

    def __getitem__(self, grid: int | tuple[int, ...]) -> Kernel:
        name = f"_grid_{grid}"
        _make_launched(self, grid, name)
        return getattr(self, name)

    def with_schedule(self, edges: Iterable[tuple[str, str | Iterable[str]]]) -> Kernel:
        """The kernel with edges between its instructions: ``[("consumer", "producer" or ["p1", "p2"]), …]``.

        Names are those of ``name=``; each name belongs to one instruction. A consumer begins when its
        producers are complete; it may stand before them in the program, as long as no data say otherwise. The edges of
        this kernel stay. Raises :class:`ArgumentError` for what is no such list; names are looked up when the kernel is
        compiled.
        """
        return Kernel(self.func, self.grid, self.target, (*self.schedule, *pairs_of(edges)), self.check, self.configs)

    def __repr__(self) -> str:
        return f"<nki kernel {self.func.__qualname__}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_recording():
            self.check_inlining()
            return invoke(self.func, *args, **kwargs)
        try:
            if knobs.simulator():
                return _simulate(self, args, kwargs)
            return adapter_for(args, kwargs).call(self, args, kwargs)
        except NkiError as error:
            __tracebackhide__ = True  # of pytest: it shows the caller's frame
            raise _strip_frames(error)  # noqa: B904  # its cause is settled

    def check_inlining(self) -> None:
        """Raise :class:`NestedConfigError` if this kernel must not become a part of the one that is being recorded."""
        if self.configs is not None:
            compiler.config.check_nested(self.func.__name__, self.configs)

    def chosen_target(self) -> Target:
        """The target to compile for: the decorator's, else the environment's, else trn3."""
        return self.target or targets.default()

    @property
    def lnc(self) -> int:
        """The number of cores of a launch: that of the brackets, else of ``NEURON_LOGICAL_NC_CONFIG``, else 1."""
        grid = self.launch_grid()
        return grid[0] if grid else 1

    def launch_grid(self) -> tuple[int, ...]:
        """The grid of a launch: that of the brackets, else of ``NEURON_LOGICAL_NC_CONFIG``; () for one core."""
        return launch_grid.of_launch(self.func.__name__, self.grid, self.chosen_target())

    def _to_subclass(self, cls: Callable[..., Any], **fields: Any) -> Any:
        """A ``CompileKernel`` of this kernel: harnesses make it so (``docs/harnesses.md``)."""
        return cls(func=self, lnc=self.grid[0] if self.grid else None, **fields)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments by parameter name, defaults filled in."""
        if not kwargs and len(args) == self._by_position:
            return dict(zip(self._names, args, strict=True))
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise misfit(self.func, self._signature, error) from None
        bound.apply_defaults()
        return spread(self._signature, bound.arguments) if self._by_position == STARS else bound.arguments

    def key(self, arguments: Mapping[str, Any], adapter: TensorMap) -> tuple[Any, list[Any]]:
        """The cache key of a compilation, and the tensors among the arguments, in order."""
        tensors: list[Any] = []
        key: list[Any] = [
            self.target or os.environ.get(targets.ENVIRONMENT),
            knobs.precise_fp(),
            knobs.logical_cores(),
            knobs.version(),
            knobs.frontend(),
        ]
        name = ""
        try:
            for name, value in arguments.items():  # read where the argument is refused
                if adapter.is_framework_tensor(value):
                    tensors.append(value)
                    key.append(adapter.map_framework_tensor(value))
                else:
                    key.append(constant_key(name, value))
        except NkiError as error:
            raise self._of_argument(error, name)  # noqa: B904  # the same error
        return tuple(key), tensors

    def specs(self, arguments: Mapping[str, Any], adapter: TensorMap) -> dict[str, Any]:
        """The arguments with a :class:`TensorSpec` in place of each tensor."""
        result = dict(arguments)
        for name, value in arguments.items():
            if adapter.is_framework_tensor(value):
                shape, dtype = adapter.map_framework_tensor(value)
                try:
                    kind = adapter.translate_to_neuron_dtype(dtype)
                except NkiError as error:
                    raise self._of_argument(error, name)  # noqa: B904  # the same error
                result[name] = TensorSpec(name, tuple(shape), kind)
        return result

    def _of_argument(self, error: NkiError, name: str) -> NkiError:
        """``error``, about the argument ``name``, with the names of the argument and of this kernel in its text."""
        about, named = f"argument '{name}'", f"argument '{name}' of kernel '{self.func.__name__}'"
        message = error.message
        error.message = message.replace(about, named, 1) if about in message else f"{named}: {message}"
        error.fix = re.sub(r"\b(array|tensor)(?=\.)", name, error.fix)
        return error

    def specialise(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], adapter: TensorMap
    ) -> tuple[Executable, list[Any]]:
        """Native code for these arguments, compiled now or found in the cache; and the tensors, in input order."""
        arguments = self.bind(args, kwargs)
        key, tensors = self.key(arguments, adapter)
        executable = self._executables.get(key)
        if executable is not None and (not executable.outside or unchanged(executable.outside)):
            executable.last_used = self._clock
            return executable, tensors
        with self._lock:
            executable = self._executables.get(key)
            if executable is None or not unchanged(executable.outside):
                executable = self._compile(arguments, adapter, pipeline.ignore)
                self._keep(key, executable, arguments)
        return executable, tensors

    def _keep(self, key: tuple[Any, ...], executable: Executable, arguments: Mapping[str, Any]) -> None:
        """Keep ``executable`` under ``key``, drop the least recently used one, and warn of too many values."""
        if len(self._executables) >= _MOST_KEPT and key not in self._executables:
            del self._executables[min(self._executables, key=lambda kept: self._executables[kept].last_used)]
        self._executables[key] = executable
        self._clock += 2
        executable.last_used = self._clock - 1  # older than any that was used since
        pattern = _without_numbers(key)
        count = self._values[pattern] = self._values.get(pattern, 0) + 1
        if pattern != key and count == _VALUES + 1:
            self._warn_of_values([kept for kept in self._executables if _without_numbers(kept) == pattern], arguments)

    def _warn_of_values(self, keys: Sequence[tuple[Any, ...]], arguments: Mapping[str, Any]) -> None:
        columns = zip(arguments, zip(*[key[-len(arguments) :] for key in keys], strict=True), strict=True)
        changing = {name: values for name, values in columns if len(set(values)) > 1}
        if not changing:
            return
        name = ", ".join(changing)
        values = ", ".join(str(value[1]) for value in next(iter(changing.values()))[-3:])
        code = self.func.__code__
        warn_at(
            Span(code.co_filename, code.co_firstlineno),
            f"kernel '{self.func.__name__}' was compiled {len(keys)} times for other values of '{name}' alone "
            f"(…, {values}): a Python number is compiled in. Pass a number that changes from call to call as a tensor, "
            "such as one of shape (128, 1), whose tile is an operand of tensor_scalar",
        )

    def _compile(
        self,
        arguments: Mapping[str, Any],
        adapter: TensorMap,
        observe: pipeline.Observe,
        progress: Callable[[int, int], None] | None = None,
    ) -> Executable:
        with default_environment():
            specs = self.specs(arguments, adapter)
            program, reads = self._program(specs, observe)
            checks = self.check or knobs.check()
            kind = compiler.executable.CheckedExecutable if checks else compiler.executable.Executable
            executable = kind(program, progress)
            executable.outside = seen(reads)
            return executable

    def _program(self, specs: Mapping[str, Any], observe: pipeline.Observe) -> tuple[Program, Iterable[Read]]:
        """The compiled kernel and all that it read from outside, from the disk where that is possible.

        With ``observe``, the stages always run.
        """
        grid = self.launch_grid()
        inputs = (self.func, specs, self.chosen_target(), grid, self.schedule)
        key = None if knobs.cache_disabled() or observe is not pipeline.ignore else fingerprint(*inputs)
        if key is not None and (kept := compiled.load(key.digest, specs, self.chosen_target())):
            for warned in kept[1]:
                warn_at(warned.span, warned.message, warned.category)
            return kept[0], key.reads
        with watching() as watched, collecting() as warnings, _configured(self.configs):
            program = pipeline.compile(
                self.func,
                specs,
                self.chosen_target(),
                grid=grid,
                stop=pipeline.NATIVE_STOP,
                edges=self.schedule,
                observe=observe,
            )
        # State that the kernel's own Python changed, or reached on hidden ways, is not in the fingerprint.
        complete = key is not None and not watched.files and key.codes.issuperset(watched.codes)
        if key is not None and complete and fingerprint(*inputs) == key:
            compiled.store(key.digest, program, self.func.__code__, specs, warnings)
        return program, watched.reads

    def compile_anew(self, args: tuple[Any, ...], kwargs: dict[str, Any], adapter: TensorMap) -> Executable:
        """Native code for these arguments, compiled now and kept nowhere."""
        return self._compile(self.bind(args, kwargs), adapter, lambda _stage, _program: None)

    def compile(
        self,
        *args: Any,
        observe: pipeline.Observe = pipeline.ignore,
        progress: Callable[[int, int], None] | None = None,
        **kwargs: Any,
    ) -> Executable:
        """Compile for these arguments without running; later calls with such arguments find it in the cache.

        ``observe(stage, kernel)`` sees every stage; ``progress(done, all)`` counts compiled routines.
        """
        try:
            adapter = adapter_for(args, kwargs)
            arguments = self.bind(args, kwargs)
            executable = self._compile(arguments, adapter, observe, progress)
            with self._lock:
                self._keep(self.key(arguments, adapter)[0], executable, arguments)
        except NkiError as error:
            __tracebackhide__ = True
            raise _strip_frames(error)  # noqa: B904  # its cause is settled
        return executable


def _configured(configs: Configs | None) -> AbstractContextManager[None]:
    return nullcontext() if configs is None else compiler.config.configured(configs)


def _without_numbers(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """``key`` with the numbers among the arguments replaced by their type."""
    return tuple([part[0] if type(part) is tuple and part[0] in (float, int) else part for part in key])


def _make_launched(kernel: Kernel, grid: int | tuple[int, ...], name: str) -> None:
    """Give ``kernel`` the attribute ``name``: itself on ``grid``, kept with all that it compiled."""
    degrees = launch_grid.of_brackets(grid, kernel.chosen_target())
    if name not in kernel.__dict__:
        launched = Kernel(kernel.func, degrees, kernel.target, kernel.schedule, kernel.check, kernel.configs)
        setattr(kernel, name, launched)


def _strip_frames(error: NkiError) -> NkiError:
    """``error`` without the frames of this package, for its text says where in the kernel it arose (``NKI_DEBUG=1``: as
    it is). Raise the result as it is, without ``from``: a Python exception of the kernel's own code stays its cause.
    """
    if knobs.debug():
        return error
    error.__suppress_context__ = True
    return error.with_traceback(None)


_adapters: dict[str, Adapter] = {}
_bridges: dict[tuple[type[Any], ...], str] = {}


def adapter_for(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Adapter:
    """The bridge of the framework whose tensors are among the arguments; that of NumPy if there is none."""
    kinds: list[type[Any]] = [type(value) for value in (*args, *kwargs.values())]
    return _adapters[_bridge_of(*kinds)]


def _bridge_of(*kinds: type[Any]) -> str:
    """The bridge for arguments of these types, imported."""
    module = _bridges.get(kinds)
    if module is None:
        roots = (base.__module__.partition(".")[0] for kind in kinds for base in kind.__mro__)
        candidates = [_by_root[root] for root in roots if root in _by_root]
        module = max(candidates, key=lambda bridge: bridge.rank, default=_by_root[""]).module
        _adapters[module] = imported(module).ADAPTER
        _bridges[kinds] = module
    return module


# What torch.compiler.assume_constant_result sets, without an import of torch: the compiler of PyTorch, which traces the
# call of a kernel, runs these functions as they are and takes their results as given.
for _opaque in (_bridge_of, _make_launched):
    setattr(_opaque, "_dynamo_marked_constant", True)  # noqa: B010


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a kernel of a function; use as ``@nki.jit``, ``@nki.jit(...)`` or ``nki.jit(fn)``.

    ``check=True``: the simulator runs the first call of each compiled kernel too, with the same data; it raises the
    errors of hazards (``docs/hazards.md``), and its bits are compared with those of native code.
    ``compile_config`` and ``specialization_config`` are those of NKI 0.7; see :mod:`nki.compiler.config`.
    ``nki_version``: the release of NKI, such as "0.3", under whose rules this kernel and the functions that it calls
    are read, whatever ``NKI_VERSION`` says (``docs/language.md``).
    ``platform_target``: trn1, trn2 or trn3 (deprecated; set NEURON_PLATFORM_TARGET_OVERRIDE). ``mode`` (deprecated),
    ``debug_kernel``, ``show_compiler_tb`` and ``experimental_flags`` are accepted for old kernels and do nothing.
    ``func`` is the name of ``fn`` in NKI 0.2.
    """
    fn = options.pop("func", fn)
    chosen = jit_options.checked(options)
    return functools.partial(_decorate, chosen) if fn is None else _decorate(chosen, fn)


def _decorate(chosen: jit_options.JitOptions, func: Callable[..., Any]) -> Kernel:
    plain = _plain(func)
    if chosen.dialect is not None:
        plain = under_dialect(plain, chosen.dialect)
    return Kernel(plain, target=chosen.target, check=chosen.check, configs=chosen.configs)


def _plain(func: Any) -> Callable[..., Any]:
    if isinstance(func, Kernel):
        return func.func
    if isinstance(func, type) or not callable(func):
        raise NotAFunctionError(f"nki.jit was given {func!r}, which is not a function", fix="decorate a function")
    try:
        inspect.signature(func)
    except (TypeError, ValueError):
        raise NotAFunctionError(f"nki.jit was given {func!r}, which has no Python source", fix="write it out") from None
    return func


def simulate(kernel: Kernel | Callable[..., Any]) -> Callable[..., Any]:
    """``nki.simulate(kernel)(...)``: run eagerly, one instruction after the other, without compiling.

    Results are those of the compiled kernel, bit for bit; ``print(tile)`` inside the kernel shows values.
    """
    launched = kernel if isinstance(kernel, Kernel) else Kernel(_plain(kernel))

    @functools.wraps(launched.func)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return _simulate(launched, args, kwargs)
        except NkiError as error:
            __tracebackhide__ = True
            raise _strip_frames(error)  # noqa: B904  # its cause is settled

    return run


def _simulate(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    adapter = adapter_for(args, kwargs)
    arguments = kernel.bind(args, kwargs)
    _, tensors = kernel.key(arguments, adapter)  # refuses what cannot be compiled in
    specs = kernel.specs(arguments, adapter)
    arrays = [np.ascontiguousarray(adapter.to_numpy(t)) for t in tensors]
    with default_environment(), _configured(kernel.configs):
        program, outputs = compiler.eager.run(
            kernel.func, specs, arrays, kernel.chosen_target(), kernel.launch_grid(), kernel.schedule
        )
    changes = program.signature.changed_inputs()
    results = [
        adapter.update(tensors[changes[i]], array, program.outputs[i].name)
        if i in changes
        else adapter.from_numpy(array)
        for i, array in enumerate(outputs)
    ]
    return tuple(results) if program.signature.sequence else results[0]
