"""A kernel with the arguments and the target of a command."""

from __future__ import annotations

import inspect
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from nki import target as targets
from nki.base.errors import GridError, KernelArgumentError, UnknownTargetError
from nki.base.locks import imported
from nki.base.usage import UsageError, nearest
from nki.base.wording import plural
from nki.compilation import pipeline
from nki.compilation.float_arguments import for_values
from nki.ir.program import Program
from nki.ir.stage import Stage
from nki.ir.types import TensorSpec
from nki.jit import Kernel
from nki.target.model import Target
from nki.workload import arguments as argument
from nki.workload.arguments import Array, TensorArgument
from nki.workload.load_kernel import opened


@dataclass(frozen=True, slots=True)
class Work:
    """``kernel`` is a function to specialise or a program to start from; ``arguments`` are bound to its parameters."""

    kernel: Kernel | Program
    target: Target
    arguments: dict[str, Any]

    @property
    def name(self) -> str:
        return self.kernel.name if isinstance(self.kernel, Program) else self.kernel.func.__name__

    @property
    def tensors(self) -> list[TensorArgument]:
        """The tensors among the arguments, in the order of the kernel's inputs."""
        return [value for value in self.arguments.values() if isinstance(value, TensorArgument)]

    def arrays(self, seed: int) -> list[Array]:
        """The elements of :attr:`tensors`."""
        return [tensor.array(seed, index) for index, tensor in enumerate(self.tensors)]

    def compile(
        self,
        stop: str | None = None,
        *,
        stages: Sequence[Stage] = pipeline.STAGES,
        observe: pipeline.Observe = pipeline.ignore,
    ) -> Program:
        """The kernel after stage ``stop`` (None: the last); see :func:`nki.compilation.pipeline.compile`."""
        if isinstance(self.kernel, Program):
            return pipeline.compile(None, {}, self.target, start=self.kernel, stop=stop, stages=stages, observe=observe)
        return pipeline.compile(
            self.kernel.func,
            self.specs(),
            self.target,
            grid=self._grid(self.kernel),
            edges=self.kernel.schedule,
            stop=stop,
            stages=stages,
            observe=observe,
            configs=self.kernel.configs,
        )

    def simulate(self, arrays: list[Array]) -> tuple[Program, list[Array]]:
        """Run instruction by instruction, without native code; the kernel that ran, and its outputs."""
        if isinstance(self.kernel, Program):
            program = self.compile(pipeline.NATIVE_STOP)
            return program, imported("nki.compilation.simulated_run").run(program, arrays)
        kernel = self.kernel
        return imported("nki.compilation.eager").run(
            kernel.func, self.specs(), arrays, self.target, self._grid(kernel), kernel.schedule, kernel.configs
        )

    def _grid(self, kernel: Kernel) -> tuple[int, ...]:
        return kernel.launch_grid(self.target)

    def specs(self) -> dict[str, Any]:
        """The arguments with a :class:`TensorSpec` in place of each tensor."""
        return {n: v.spec(n) if isinstance(v, TensorArgument) else v for n, v in self.arguments.items()}


@contextmanager
def released(release: str | None) -> Generator[None]:
    """Context manager: kernels are read under the rules of ``release`` of NKI; None: under the environment's."""
    before = os.environ.get("NKI_VERSION")
    if release is not None:
        os.environ["NKI_VERSION"] = release
    try:
        yield
    finally:
        if release is not None:
            os.environ.pop("NKI_VERSION") if before is None else os.environ.update(NKI_VERSION=before)


def target_of(name: str | None) -> Target | None:
    """The target that ``--target`` names; None for none."""
    try:
        return targets.find(name) if name is not None else None
    except UnknownTargetError as error:
        several = "; give --target once for each" if "," in str(name) else ""
        raise UsageError(f"--target: {error.message}", error.fix + several) from None


@contextmanager
def prepared(
    source: str, texts: Sequence[str], target: str | None, cores: int | None = None, grid: tuple[int, ...] | None = None
) -> Generator[Work]:
    """The kernel that ``source`` names, for the arguments in ``texts``, for ``target`` (None: the kernel's own).

    ``cores``: the number of cores to run on; ``grid``: the launch grid of a Beta 1 kernel (None: the kernel's own).
    """
    with opened(source) as kernel:
        yield bound(kernel, source, texts, target_of(target), cores, grid)


def bound(
    kernel: Kernel | Program,
    source: str,
    texts: Sequence[str],
    target: Target | None,
    cores: int | None = None,
    grid: tuple[int, ...] | None = None,
) -> Work:
    """``kernel``, which errors call ``source``, with the arguments in ``texts``; see :func:`prepared`."""
    arguments = [argument.parse(text) for text in texts]
    if isinstance(kernel, Program):
        own = targets.find(kernel.target)
        if target not in (None, own):
            raise UsageError(f"{source} was compiled for {own.name}", f"leave out --target {target}")
        if cores not in (None, len(kernel.cores)):
            own_cores = plural(len(kernel.cores), "core")
            raise UsageError(f"{source} was compiled for {own_cores}", f"leave out --cores {cores}")
        if grid is not None:
            raise UsageError(f"{source} is a compiled program", "leave out --grid")
        tensors, floats = _given(kernel, arguments)
        return Work(_for_values(kernel, floats), own, tensors)
    if cores is not None:
        kernel = _launched(kernel, target, cores)
    elif grid is not None:
        kernel = _on_grid(kernel, grid)
    return Work(kernel, target or kernel.chosen_target(), _bound(kernel, arguments))


def _launched(kernel: Kernel, target: Target | None, cores: int) -> Kernel:
    """``kernel`` launched on ``cores`` cores of ``target``."""
    try:
        return kernel.varied(target=target or kernel.target, grid=()).on_cores(cores)
    except GridError:
        chosen = target or kernel.chosen_target()
        most = chosen.logical_core_max
        limit = f"at most {most} core{'s'[: most > 1]}" if cores > 0 else "at least 1 core"
        raise UsageError(
            f"--cores {cores}: a kernel on {chosen} runs on {limit}",
            f"pass --cores {most if cores > 0 else 1}" + (" or --target trn2" if cores == 2 else ""),
        ) from None


def _on_grid(kernel: Kernel, grid: tuple[int, ...]) -> Kernel:
    """A kernel of Beta 1 launched on ``grid``; the programs of the grid run on one core."""
    if type(kernel) is Kernel:  # subclasses have grids of more than cores
        shown = "x".join(map(str, grid))
        raise UsageError(f"--grid {shown}: {kernel.func.__name__} is no kernel of Beta 1", "pass --cores N")
    return kernel[grid]


def _bound(kernel: Kernel, arguments: list[tuple[str, Any]]) -> dict[str, Any]:
    named = {name: value for name, value in arguments if name}
    if len(named) < sum(1 for name, _ in arguments if name):
        raise UsageError("a parameter is given twice")
    parameters = inspect.signature(kernel.func).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    unknown = [name for name in named if name not in parameters and not takes_any]
    if unknown:
        raise UsageError(
            f"kernel {kernel.func.__name__} has no parameter {unknown[0]!r}",
            nearest(unknown[0], parameters, "parameters"),
        )
    try:
        return kernel.bind(tuple(value for name, value in arguments if not name), named)
    except KernelArgumentError as error:
        names = [name for name in parameters if name not in named][len(arguments) - len(named) :]
        such = f", such as --arg {names[0]}=128x512:float32 or --arg {names[0]}=0.5" if names else ""
        fix = f"pass one --arg for each parameter, in order or as --arg NAME=…{such}"
        raise UsageError(error.message, fix) from None


def _for_values(program: Program, floats: dict[str, float]) -> Program:
    """``program`` for these values of its floats; other floats keep the values of the call that it was compiled for."""
    try:
        return for_values(program, floats)
    except ArithmeticError as error:
        shown = ", ".join(f"{name}={value}" for name, value in floats.items())
        raise UsageError(f"{program.name} computes with {shown}: {error}", "pass other numbers") from None


def _given(program: Program, arguments: list[tuple[str, Any]]) -> tuple[dict[str, Any], dict[str, float]]:
    """Inputs and floats of a compiled kernel; missing inputs are random."""
    names = {spec.name for spec in program.signature.floats}
    floats: dict[str, float] = {}
    for name, value in arguments:
        if name in names:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UsageError(f"{name} is a float, not {value!r}", f"pass {name}=0.5")
            floats[name] = float(value)
    arguments = [(name, value) for name, value in arguments if name not in names]
    specs = {spec.name: spec for spec in program.signature.input_specs()}
    result: dict[str, Any] = {name: argument.filled(spec.shape, spec.dtype) for name, spec in specs.items()}
    order = iter(specs)
    for name, value in arguments:
        name = name or next(order, "")
        if name not in specs:
            raise UsageError(
                f"{program.name} has no input {name!r}" if name else f"{program.name} has {len(specs)} inputs",
                nearest(name, [*specs, *names], "inputs"),
            )
        _check(specs[name], value)
        result[name] = value
    return result, floats


def _check(spec: TensorSpec, value: Any) -> None:
    wanted = f"{'x'.join(map(str, spec.shape))}:{spec.dtype}"
    if not isinstance(value, TensorArgument):
        raise UsageError(f"input {spec.name} is a tensor, not {value!r}", f"pass {spec.name}={wanted} or a .npy file")
    if value.shape != spec.shape or value.dtype is not spec.dtype:
        raise UsageError(
            f"input {spec.name} was compiled as {spec.dtype} {spec.shape}, not {value.dtype} {value.shape}",
            f"pass {spec.name}={wanted}, or compile the source for other shapes",
        )
