"""``nki.jit``: a kernel function that specialises itself for its arguments, compiles, caches and runs."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from nki import target as targets
from nki.base import gc_pause, knobs
from nki.base import progress as progress_line
from nki.base.errors import NkiError
from nki.base.framework_errors import Unscriptable
from nki.base.locks import Lock, imported
from nki.base.source import Where
from nki.base.warning import collecting, warn_at
from nki.compilation import bridges, jit_options, launch_grid, pipeline, ranked_launch
from nki.compilation.bridges import Adapter, TensorMap, untraced
from nki.compilation.cache import specialized_entries
from nki.compilation.cache.captured_values import Seen, constant_key, seen, unchanged
from nki.compilation.cache.fingerprint import Fingerprint, fingerprint
from nki.compilation.executable_cache import NO_FLOATS, ExecutableCache
from nki.compilation.float_arguments import as_arguments, for_values
from nki.compilation.launch_errors import BugReports, note_version, strip_frames
from nki.compilation.pickled_kernel import PickledByName
from nki.frontend.captured_state import Read, watching
from nki.frontend.diagnostics import misfit
from nki.frontend.dialect import under_dialect
from nki.frontend.frontend_errors import NotAFunctionError
from nki.frontend.inlining import invoke, is_inlined
from nki.frontend.python.flattened_arguments import STARS, by_position, leaves, spread
from nki.ir.ordering import Pairs, pairs_of
from nki.ir.program import Program
from nki.ir.recorder import is_recording
from nki.ir.types import TensorSpec
from nki.numerics.floating_point import default_environment
from nki.target.model import Target

if TYPE_CHECKING:
    from nki.compilation.executable import Executable
    from nki.compilation.vendor_options import Configs


class Kernel(PickledByName, Unscriptable):
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
        self.names = tuple(self._signature.parameters)
        self._by_position = by_position(self._signature)
        self._cache = ExecutableCache()
        self._executables = self._cache.by_key
        self._lock = Lock()

    def __getitem__(self, grid: int | tuple[int, ...]) -> Kernel:
        _make_launched(self, grid, name := f"_grid_{grid}")
        return getattr(self, name)

    def with_schedule(self, edges: Iterable[tuple[str, str | Iterable[str]]]) -> Self:
        """The kernel with edges between its instructions: ``[("consumer", "producer" or ["p1", "p2"]), …]``.

        Names are given by ``name=``; each name belongs to one instruction. A consumer begins when its
        producers are complete; it may stand before them in the program, as long as no data say otherwise. The edges of
        this kernel stay. Raises :class:`ArgumentError` for what is no such list; names are looked up when the kernel is
        compiled.
        """
        return self.varied(schedule=(*self.schedule, *pairs_of(edges)))

    def __repr__(self) -> str:
        return f"<nki kernel {self.func.__qualname__}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_recording() and is_inlined(args, kwargs):
            self.check_inlining()
            return invoke(self.func, *args, **kwargs)
        try:
            if ranked_launch.active and (count := ranked_launch.requested()):
                return ranked_launch.run(self, count, args, kwargs, adapter_for, simulated=knobs.simulator())
            if knobs.simulator():
                return adapter_for(args, kwargs).simulate(self, args, kwargs)
            return adapter_for(args, kwargs).call(self, args, kwargs)
        except NkiError as error:
            __tracebackhide__ = True  # of pytest: it shows the caller's frame
            raise strip_frames(error)  # noqa: B904  # its cause is settled
        except Exception as error:
            note_version(error)
            raise

    def check_inlining(self) -> None:
        """Raise :class:`NestedConfigError` if this kernel must not become a part of the one that is being recorded."""
        if self.configs is not None:
            imported("nki.compilation.vendor_options").check_nested(self.func.__name__, self.configs)

    def chosen_target(self) -> Target:
        """The target to compile for: the decorator's, else the environment's, else trn3."""
        return self.target or targets.default()

    @property
    def lnc(self) -> int:
        """The number of cores of a launch: from the brackets, else from ``NEURON_LOGICAL_NC_CONFIG``, else 1."""
        grid = self.launch_grid()
        return grid[0] if grid else 1

    def launch_grid(self, target: Target | None = None) -> tuple[int, ...]:
        """The grid of a launch: from the brackets, else from ``NEURON_LOGICAL_NC_CONFIG``; () for one core."""
        if not knobs.logical_cores():
            return self.grid
        return launch_grid.of_launch(self.func.__name__, self.grid, target or self.chosen_target())

    def _to_subclass(self, cls: Callable[..., Any], **fields: Any) -> Any:
        """A ``CompileKernel`` of this kernel: harnesses make it so (``docs/harnesses.md``)."""
        return cls(func=self, lnc=self.grid[0] if len(self.grid) == 1 else None, **fields)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments by parameter name, defaults filled in."""
        if not kwargs and len(args) == self._by_position:
            return dict(zip(self.names, args))  # noqa: B905  # as many as names
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise misfit(self.func, self._signature, error) from None
        bound.apply_defaults()
        return spread(self._signature, bound.arguments) if self._by_position == STARS else bound.arguments

    def key(
        self,
        arguments: Mapping[str, Any],
        adapter: TensorMap,
        passed: Container[str] = NO_FLOATS,
        values: list[float] | None = None,
    ) -> tuple[Any, list[Any]]:
        """The cache key of a compilation, and the tensors among the arguments, in order.

        The values of floats named in ``passed`` go to ``values`` instead.
        """
        tensors: list[Any] = []
        key: list[Any] = [self.grid, knobs.of_compilation()]
        name = ""
        try:
            for name, value in arguments.items():  # read where the argument is refused
                if adapter.is_framework_tensor(value):
                    tensors.append(value)
                    key.append(adapter.map_framework_tensor(value))
                elif values is not None and type(value) is float and name in passed:
                    key.append(float)
                    values.append(value)
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
            executable.last_used = self._cache.clock
            return executable.native(), tensors
        with self._lock:
            executable = self._executables.get(key)
            if executable is None or not unchanged(executable.outside):
                executable = self._compile(arguments, adapter, pipeline.ignore)
                self._keep(key, executable, arguments)
        return executable.native(), tensors

    def launchable(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], adapter: TensorMap
    ) -> tuple[Executable, list[Any], Sequence[float]]:
        """Like :meth:`specialise`, for one launch: native code that takes floats where it can, and the floats of the
        launch.

        One executable serves all values of the floats that only instructions use.
        """
        arguments = self.bind(args, kwargs)
        try:
            ready = self._launchable(arguments, adapter)
            if ready is None:
                with self._lock:
                    ready = self._launchable(arguments, adapter) or self._compile_launchable(arguments, adapter)
        except ArithmeticError:  # compiled for its values, the kernel raises it at its line
            return *self.specialise(args, kwargs, adapter), ()
        return ready

    def kept(self, args: Sequence[Any], described: Sequence[Any]) -> Executable | None:
        """Native code that is in memory for a call with these positional arguments alone, ready to launch; else None.

        ``described`` has of each tensor what the adapter's ``map_framework_tensor`` gives, of each other argument what
        :func:`~nki.compilation.cache.captured_values.constant_key` does. None of the arguments is a float.
        """
        if len(args) != self._by_position:
            return None
        executable = self._executables.get((self.grid, knobs.of_compilation(), *described))
        if executable is None or (executable.outside and not unchanged(executable.outside)):
            return None
        executable.last_used = self._cache.clock
        return executable

    def _launchable(
        self, arguments: Mapping[str, Any], adapter: TensorMap
    ) -> tuple[Executable, list[Any], Sequence[float]] | None:
        for pattern in self._cache.patterns:
            values: list[float] = []
            key, tensors = self.key(arguments, adapter, pattern, values)
            executable = self._executables.get(key)
            if executable is not None and (not executable.outside or unchanged(executable.outside)):
                executable.last_used = self._cache.clock
                return executable, tensors, executable.floats_of(values) if values else values
        return None

    def _compile_launchable(
        self, arguments: Mapping[str, Any], adapter: TensorMap
    ) -> tuple[Executable, list[Any], Sequence[float]]:
        uses: dict[str, Where] = {}
        executable = self._compile(arguments, adapter, pipeline.ignore, uses=uses)
        self._cache.uses |= uses
        pattern = self._cache.pattern_of(executable, [n for n, value in arguments.items() if type(value) is float])
        values: list[float] = []
        key, tensors = self.key(arguments, adapter, pattern, values)
        self._keep(key, executable, arguments)
        return executable, tensors, executable.floats_of(values)

    def _keep(self, key: tuple[Any, ...], executable: Executable, arguments: Mapping[str, Any]) -> None:
        self._cache.keep(key, executable, arguments, self.func.__name__, self.func.__code__)

    def _compile(
        self,
        arguments: Mapping[str, Any],
        adapter: TensorMap,
        observe: pipeline.Observe,
        progress: Callable[[int, int], None] | None = None,
        uses: dict[str, Where] | None = None,
    ) -> Executable:
        """Native code for ``arguments``; with ``uses``, which gets the others, launches pass the floats if possible."""
        with gc_pause.paused(), default_environment(), progress_line.compiling(self.func.__name__):
            given = specs = self.specs(arguments, adapter)
            if uses is not None and float in map(type, specs.values()):
                specs = as_arguments(specs, uses)
            program, reads = self._program(specs, observe)
            progress_line.stage("native code")
            make = self._maker(progress, for_launch=uses is not None)
            executable = make(program)
            if uses and not uses.keys().isdisjoint(executable.float_names):  # taken by a stage
                executable = make(for_values(program, {}))
            executable.made_of = (self.varied(), given)
            executable.outside = seen(reads)
            if not knobs.hazards():  # so only the executables that it has let through look at it in each launch
                executable.outside += (Seen(knobs.hazards, False, None),)
            return executable

    def _maker(self, progress: Callable[[int, int], None] | None, for_launch: bool) -> Callable[[Program], Executable]:
        """The maker of executables of programs; those ``for_launch`` may be without native code at first."""
        if for_launch and not (self.check or knobs.check()):
            return imported("nki.compilation.first_call").InterpretedFirst
        executables: Any = imported("nki.compilation.executable")  # brings LLVM, which `import nki` does without
        kind = executables.CheckedExecutable if self.check or knobs.check() else executables.Executable
        return lambda program: kind(program, progress)

    def fingerprint(self, specs: Mapping[str, Any]) -> Fingerprint | None:
        """The name of the kernel compiled for ``specs``, in any process; None if it has none."""
        return fingerprint(self.func, specs, self.chosen_target(), self.launch_grid(), self.schedule, self.configs)

    def _program(self, specs: Mapping[str, Any], observe: pipeline.Observe) -> tuple[Program, Iterable[Read]]:
        """The compiled kernel and all that it read from outside, from the disk where that is possible.

        With ``observe``, the stages always run.
        """
        key = None if knobs.cache_disabled() or observe is not pipeline.ignore else self.fingerprint(specs)
        if key is not None and (kept := specialized_entries.load(key, specs, self.chosen_target())):
            for warned in kept[1]:
                warn_at(warned.span, warned.message, warned.category)
            return kept[0], key.reads
        with watching() as watched, collecting() as warnings:
            program = pipeline.compile(
                self.func,
                specs,
                self.chosen_target(),
                grid=self.launch_grid(),
                stop=pipeline.NATIVE_STOP,
                edges=self.schedule,
                observe=observe,
                configs=self.configs,
            )
        # State that the kernel's own Python changed, or reached on hidden ways, is not in the fingerprint.
        complete = key is not None and not watched.files and key.codes.issuperset(watched.codes)
        if key is not None and complete and self.fingerprint(specs) == key:
            specialized_entries.save(key, program, self.func.__code__, specs, warnings)
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
            raise strip_frames(error)  # noqa: B904  # its cause is settled
        return executable


class SimulatedKernel(Kernel):
    """A kernel of ``nki.jit(mode="simulation")``: calls run in the simulator."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        inlined = is_recording() and is_inlined(args, kwargs)
        return super().__call__(*args, **kwargs) if inlined else simulate(self)(*args, **kwargs)


@untraced
def _make_launched(kernel: Kernel, grid: int | tuple[int, ...], name: str) -> None:
    """Give ``kernel`` the attribute ``name``: itself on ``grid``."""
    degrees = launch_grid.of_brackets(grid, kernel.chosen_target())
    if name not in kernel.__dict__:
        setattr(kernel, name, kernel.varied(grid=degrees).beside(kernel))


_adapters: dict[str, Adapter] = {}
_bridges: dict[tuple[type[Any], ...], str] = {}


def adapter_for(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Adapter:
    """The bridge of the framework that has tensors among the arguments; NumPy's if there is none."""
    values = (*args, *kwargs.values()) if kwargs else args
    kinds: list[type[Any]] = [type(value) for value in values]
    if tuple in kinds or list in kinds or dict in kinds:
        kinds = [type(value) for value in leaves(values)]
    return _adapters[_bridge_of(*kinds)]


@untraced
def _bridge_of(*kinds: type[Any]) -> str:
    """The bridge for arguments of these types, imported."""
    module = _bridges.get(kinds)
    if module is None:
        module = bridges.module_for(kinds)
        _adapters[module] = imported(module).ADAPTER
        _bridges[kinds] = module
    return module


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a kernel of a function; use as ``@nki.jit``, ``@nki.jit(...)`` or ``nki.jit(fn)``.

    ``check=True``: the simulator runs the first call of each compiled kernel too, with the same data; it raises the
    errors of hazards (``docs/hazards.md``), and its bits are compared with native code's.
    ``compile_config`` and ``specialization_config`` are the ones of NKI 0.7; see :mod:`nki.compiler`.
    ``nki_version``: the release of NKI, such as "0.3", with the rules for this kernel and the functions that it calls,
    whatever ``NKI_VERSION`` says (``docs/language.md``).
    ``platform_target``: trn1, trn2 or trn3 (deprecated; set NEURON_PLATFORM_TARGET_OVERRIDE). ``mode="simulation"``
    (deprecated): calls run in the simulator. Other modes, ``debug_kernel``, ``show_compiler_tb`` and
    ``experimental_flags`` are accepted for old kernels and do nothing. ``func`` is the name of ``fn`` in NKI 0.2.
    """
    fn = options.pop("func", fn)
    chosen = jit_options.checked(options) if options else jit_options.JitOptions()
    return functools.partial(_decorate, chosen) if fn is None else _decorate(chosen, fn)


def _decorate(chosen: jit_options.JitOptions, func: Callable[..., Any]) -> Kernel:
    if isinstance(func, Kernel) and chosen.dialect is None:
        configs = func.configs if chosen.configs is None else chosen.configs
        kernel = func.varied(target=chosen.target or func.target, check=chosen.check or func.check, configs=configs)
        return kernel.of_class(SimulatedKernel) if chosen.simulated else kernel
    plain = _plain(func)
    if chosen.dialect is not None:
        plain = under_dialect(plain, chosen.dialect)
    made = SimulatedKernel if chosen.simulated else Kernel
    return made(plain, target=chosen.target, check=chosen.check, configs=chosen.configs)


def _plain(func: Any) -> Callable[..., Any]:
    if isinstance(func, Kernel):
        return func.func
    if isinstance(func, type) or not callable(func):
        raise NotAFunctionError(f"nki.jit was given {func!r}, which is not a function", fix="decorate a function")
    if isinstance(func, functools.partial):
        raise NotAFunctionError(
            "a functools.partial object is no kernel",
            fix="pass the function, and its arguments when you call the kernel",
        )
    try:
        inspect.signature(func)
    except (TypeError, ValueError):
        raise NotAFunctionError(f"nki.jit was given {func!r}, which has no Python source", fix="write it out") from None
    return func


def simulate(kernel: Kernel | Callable[..., Any], *, ranks: int | None = None) -> Callable[..., Any]:
    """``nki.simulate(kernel)(...)``: run eagerly, with the bits of native code; ``print(tile)`` shows values.
    ``ranks``: on so many, with arguments and results as in :class:`nki.ranks`.
    """
    launched = kernel if isinstance(kernel, Kernel) else Kernel(_plain(kernel))

    @functools.wraps(launched.func)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            if count := ranks or ranked_launch.requested():
                return ranked_launch.run(launched, count, args, kwargs, adapter_for, simulated=True)
            return adapter_for(args, kwargs).simulate(launched, args, kwargs)
        except NkiError as error:
            __tracebackhide__ = True
            raise strip_frames(error)  # noqa: B904  # its cause is settled

    return run


def simulation(
    kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any], adapter: Adapter
) -> tuple[list[Any], Callable[[list[Any]], tuple[Program, list[Any]]]]:
    """The tensors among the arguments, and the function that simulates the kernel for their values as arrays."""
    arguments = kernel.bind(args, kwargs)
    _, tensors = kernel.key(arguments, adapter)  # refuses what cannot be compiled in
    specs = kernel.specs(arguments, adapter)
    launch = kernel.chosen_target(), kernel.launch_grid(), kernel.schedule, kernel.configs

    def run(arrays: list[Any]) -> tuple[Program, list[Any]]:
        with BugReports(), default_environment():
            return imported("nki.compilation.eager").run(kernel.func, specs, arrays, *launch)

    return tensors, run


def simulate_eagerly(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any], adapter: Adapter) -> Any:
    """Results of the eager simulator for tensors that have values."""
    tensors, run = simulation(kernel, args, kwargs, adapter)
    program, outputs = run([np.ascontiguousarray(adapter.to_numpy(t)) for t in tensors])
    adapter.check_changes(program)
    changes = program.signature.changed_inputs()
    ranked_launch.check_apart(program.signature.input_specs(), tensors, changes.values())
    results = [
        adapter.update(tensors[changes[i]], array, program.outputs[i].name)
        if i in changes
        else adapter.from_numpy(array)
        for i, array in enumerate(outputs)
    ]
    return tuple(results[: len(program.signature.returned)]) if program.signature.sequence else results[0]
