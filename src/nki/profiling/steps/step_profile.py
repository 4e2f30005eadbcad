"""``nki.profile_step``: predict the time of a whole step of a framework, and say which kernels take it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nki import target as targets
from nki.base.errors import NkiError
from nki.base.locks import imported
from nki.base.profile_errors import ProfileFileError, StepTraceError, TripCountError
from nki.compilation import bridges, pipeline
from nki.compilation.launch_errors import strip_frames
from nki.compilation.traced_step import Launch
from nki.frontend.frontend_errors import NotAFunctionError
from nki.jit import Adapter, Kernel, adapter_for
from nki.profiling.assumptions import compiled
from nki.profiling.compiling import Given, Inputs, checked_target, compiled_for, origin_for, trips_of
from nki.profiling.kernel_profile import Profile, of_program
from nki.profiling.origin import Origin
from nki.profiling.shapes import is_shape_only, placeholder
from nki.profiling.steps import step_record, step_text, step_trace
from nki.profiling.steps.step_run import StepKernel, StepRun
from nki.target.model import Target

if TYPE_CHECKING:
    from nki.compilation.executable import Executable

FRAMEWORKS = ("torch", "jax")
"""The frameworks that can trace a step, by the names of their packages."""


class StepProfile(StepRun):
    """The predicted run of a step on one target, with its reports."""

    def what_if(self, **changes: float) -> StepProfile:
        """The step if the hardware had other numbers; see :meth:`nki.profiling.kernel_profile.Profile.what_if`.

        Raises :class:`WhatIfError` for an unknown name.
        """
        events, kernels = self.mapped(lambda profile: profile.what_if(**changes))
        target = kernels[0].profile.target if kernels else self.target
        return StepProfile(self.name, target, events, kernels)

    def record(self) -> dict[str, Any]:
        """The step as ``nki profile --step --json`` prints it, times in seconds."""
        return cast("dict[str, Any]", step_record.record(self))

    def to_html(self, path: str | Path) -> list[Path]:
        """Write the report to ``path`` and one for each kernel beside it, as ``NAME-KERNEL.html``; the files.

        Raises :class:`ProfileFileError` if one of them cannot be written.
        """
        file = Path(path)
        pages = imported("nki.profiling.steps.step_page").pages(self, file.stem)
        written: list[Path] = []
        for name, page in pages.items():
            written.append(file.with_name(name) if name else file)
            try:
                written[-1].write_text(page, encoding="utf-8")
            except OSError as error:
                fix = "choose a file that can be written"
                raise ProfileFileError(f"{written[-1]}: {error.strerror or error}", fix=fix) from None
        return written

    def to_trace(self, path: str | Path) -> Path:
        """Write a Perfetto trace of the step to the file ``path``, with the engines in the first launch of each kernel.

        Raises :class:`MissingPackageError` without the package ``perfetto``.
        """
        return step_trace.write(self, Path(path))

    def __str__(self) -> str:
        return step_text.report(self)

    def _repr_html_(self) -> str:
        return step_text.notebook(self)

    def __repr__(self) -> str:
        return f"<profile of the step {self.name} on {self.target}: {self.latency * 1e6:.2f} us>"


def profile_step(
    step: Callable[..., Any],
    target: str | Target | None = None,
    framework: str | None = None,
    trips: Mapping[str, Given] | None = None,
) -> Callable[..., StepProfile]:
    """``nki.profile_step(step, target="trn2")(*args)``: the predicted run of a function that launches kernels.

    ``step`` is a function or module of PyTorch, or a function of JAX. It is traced without data, so it may not look at
    the contents of tensors, and none of them changes; kernels are compiled as in a call. ``args`` are tensors, anything
    with ``shape`` and ``dtype``, and other values as they are. ``framework`` ("torch" or "jax") says who traces it if
    no argument does. ``trips`` states, by the name of a kernel, the iterations of its loops that depend on data.

    Raises :class:`StepTraceError` for a step that cannot be traced, or launches no kernel.
    """
    if not callable(step):
        raise NotAFunctionError(
            f"nki.profile_step was given {step!r:.60}, which is not a function",
            fix="pass the function itself, and its arguments in a second pair of parentheses: nki.profile_step(f)(x)",
        )

    def predict(*args: Any, **kwargs: Any) -> StepProfile:
        try:
            chosen = target if target is None or isinstance(target, Target) else targets.find(str(target))
            return predicted(step, args, kwargs, chosen, framework, trips or {})
        except NkiError as error:
            __tracebackhide__ = True
            raise strip_frames(error)  # noqa: B904  # its cause is settled

    return predict


def predicted(
    step: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    target: Target | None,
    framework: str | None,
    trips: Mapping[str, Given],
    tell: Callable[[str], None] = lambda _: None,
) -> StepProfile:
    """The profile of ``step``; ``tell`` hears what is going on."""
    name = str(getattr(step, "__name__", type(step).__name__))
    tell(f"tracing {name}")
    adapter = _adapter(step, args, kwargs, framework)
    events = adapter.trace(step, _without_shapes(args), _without_shapes(kwargs))
    executables = [event.executable for event in events if isinstance(event, Launch)]
    if not executables:
        raise StepTraceError(
            f"{name} launches no kernel, so nothing in it has a price", fix="call kernels in it: functions of @nki.jit"
        )
    known: dict[int, StepKernel] = {}
    for executable in executables:
        if id(executable) not in known:
            tell(f"predicting {executable.name}")
            known[id(executable)] = StepKernel(_profile(executable, target, trips.get(executable.name)))
            target = target or next(iter(known.values())).profile.target
    assert target is not None
    return StepProfile(name, target, events, [known[id(each)] for each in executables])


def _without_shapes(value: Any) -> Any:
    """``value`` with arrays of the same shape for what describes tensors without data, also in lists and the like."""
    if isinstance(value, dict):
        return {key: _without_shapes(each) for key, each in cast("dict[Any, Any]", value).items()}
    if type(value) in (tuple, list):
        return type(value)(map(_without_shapes, value))
    return placeholder(value) if is_shape_only(value) else value


def _adapter(step: Any, args: tuple[Any, ...], kwargs: dict[str, Any], framework: str | None) -> Adapter:
    """The bridge of the framework that traces ``step``: the given one, of the arguments, or of the callable itself."""
    if framework is None:
        return adapter_for((*args, step), kwargs)
    if framework not in FRAMEWORKS:
        raise StepTraceError(
            f"framework={framework!r} traces no step", fix=f"use one of {', '.join(map(repr, FRAMEWORKS))}"
        )
    try:
        return imported(bridges.module_named(framework)).ADAPTER
    except ImportError as error:
        raise StepTraceError(f"framework={framework!r}: {error}", fix=f"install {framework}") from None


def _profile(executable: Executable, target: Target | None, trips: Given | None) -> Profile:
    """The profile of a kernel as ``nki.profile`` makes it; of one from a file, of its program."""
    if executable.made_of is None:
        own = targets.find(executable.kernel.target)
        if target not in (None, own):
            raise StepTraceError(
                f"kernel {executable.name!r} comes from a file and was compiled for {own}, not for {target}",
                fix=f"profile the step for {own}",
            )
        start, origin = executable.kernel, Origin()
        found = compiled(lambda observe: pipeline.compile(None, {}, own, start=start, observe=observe), own)
        inputs = frozenset(spec.name for spec in executable.inputs)
    else:
        kernel, specs = cast("tuple[Kernel, dict[str, Any]]", executable.made_of)
        found, origin = compiled_for(kernel, specs, checked_target(kernel, target)), origin_for(kernel, specs)
        inputs = frozenset(specs)
    try:
        least, most = trips_of(found.timed.program, Inputs({}, inputs), trips)
        return of_program(found, most, least, origin)
    except TripCountError as error:
        error.fix = f"state it: nki.profile_step(step, trips={{{executable.name!r}: 64}})"
        raise
