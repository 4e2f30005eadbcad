"""Kernels of a Python file, compiled for the arguments that the file itself shows."""

from __future__ import annotations

import ast
import contextlib
import signal
import threading
import traceback
import types
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from nki.base import element_types as dtypes
from nki.base.errors import NkiError, OutsideKernelError
from nki.base.source import Span
from nki.base.warning import NkiWarning, Warned, collecting
from nki.cli.host import arrays, signature_arguments
from nki.cli.host.host_expressions import Example, Refused
from nki.cli.host.numbers import numbers
from nki.cli.host.ranks import Dimensions, as_text, dimensions
from nki.cli.host.suspicion import is_suspicious
from nki.compilation import pipeline
from nki.frontend.capture import Captured, unwrap
from nki.frontend.frontend_errors import KernelErrors
from nki.ir.types import TensorSpec
from nki.jit import Kernel, adapter_for

Finding = NkiError | Warned

EXAMPLES: Final = 16
"""Sets of arguments of one kernel that are compiled."""
SECONDS: Final = 20.0
"""Time after which the compilation of one set of arguments is given up."""
_ASSUMED: Final = (((128, 512), dtypes.float32), ((64, 96), dtypes.bfloat16), ((32, 128), dtypes.float32))
"""The last two dimensions of arguments about which nothing is known, of a kernel that looks wrong whatever they are."""
_WHATEVER: Final = ("NKI-TN003", "NKI-KN004", "NKI-BU001", "NKI-FE032")
"""Errors that do not depend on shapes."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A kernel that was not compiled, the reason, and the options that name its arguments."""

    name: str
    span: Span
    reason: str
    arguments: str


@dataclass(slots=True)
class Compilations:
    """Kernels compiled and not compiled, and the findings."""

    findings: list[Finding] = field(default_factory=list[Finding])
    compiled: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    skipped: list[Skipped] = field(default_factory=list[Skipped])

    def kernels(self, module: types.ModuleType, captured: Iterable[Captured], examples: Iterable[Example]) -> None:
        """Compile the kernels of a file, and kernels of other files that its host code calls."""
        by_place: dict[tuple[str, int], list[Example]] = {}
        for example in examples:
            if isinstance(example.kernel, Kernel):
                by_place.setdefault(place_of(example.kernel), []).append(example)
            else:
                self.findings += _undecorated(example, example.kernel)
        kernels = {place_of(value): value for value in vars(module).values() if isinstance(value, Kernel)}
        for one in captured:
            place = (one.file, one.code.co_firstlineno)
            self._kernel(one, kernels.get(place), by_place.pop(place, []))
        for others in by_place.values():
            self._examples(others)

    def _kernel(self, captured: Captured, kernel: Kernel | None, examples: list[Example]) -> None:
        if self._examples(examples):
            return
        known = signature_arguments.parameters(captured)
        if (several := captured.node.args.vararg) is not None:
            self.skipped.append(_skipped(captured, kernel, {**known, f"*{several.arg}": []}, examples))
            return
        if kernel is not None and all(known.values()):
            rounds = signature_arguments.combinations(known)
            self.findings += _common([self._compiled(kernel, arguments) for arguments in rounds])
            return
        if kernel is not None and is_suspicious(captured):
            self.findings += _whatever(captured, kernel, known, self._compiled)
            self.compiled.discard(place_of(kernel))
        self.skipped.append(_skipped(captured, kernel, known, examples))

    def _examples(self, examples: list[Example]) -> bool:
        """Compile for each set of arguments that is known; True if there was one."""
        done: list[Any] = []
        for example in examples:
            if not example.known or not isinstance(example.kernel, Kernel):
                continue
            args = tuple(map(arrays.argument, example.args))
            kwargs = {name: arrays.argument(value) for name, value in example.kwargs.items()}
            refused = str(example.kernel.error) if isinstance(example.kernel, Refused) else ""
            key = repr([_key(value) for value in (*args, *kwargs.items())]), example.kernel.grid, refused
            if key in done or len(done) == EXAMPLES:
                continue
            done.append(key)
            if not example.called and not _fits(example.kernel, args):
                done.pop()
                continue
            self.findings += self._called(example.kernel, args, kwargs, example.span)
        return bool(done)

    def _called(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any], span: Span) -> list[Finding]:
        """Errors and warnings of one call, which stands at ``span``."""
        try:
            adapter = adapter_for(args, kwargs)
            arguments = kernel.bind(args, kwargs)
            kernel.key(arguments, adapter)  # refuses what cannot be compiled in
            specs = kernel.specs(arguments, adapter)
        except NkiError as error:
            self.compiled.add(place_of(kernel))
            return [error.at(span)]
        refused = [kernel.error.at(span)] if isinstance(kernel, Refused) else []
        return [*refused, *self._compiled(kernel, specs, span)]

    def _compiled(self, kernel: Kernel, specs: Mapping[str, Any], span: Span | None = None) -> list[Finding]:
        """Errors and warnings of a compilation."""
        self.compiled.add(place_of(kernel))
        with collecting(aside=True) as warned:
            try:
                with _given_up():
                    arguments = kernel.bind((), dict(specs))
                    target = kernel.chosen_target()
                    stop = pipeline.NATIVE_STOP
                    pipeline.compile(
                        kernel.func,
                        arguments,
                        target,
                        grid=kernel.grid,
                        edges=kernel.schedule,
                        stop=stop,
                        configs=kernel.configs,
                    )
            except NkiError as error:
                errors = error.errors if isinstance(error, KernelErrors) else [error]
                return [*warned, *(_called_from(one, span) for one in errors)]
            except _TooLong as slow:
                return [*warned, _endless(kernel, slow, span)]
        return list(warned)


class _TooLong(BaseException):
    """The end of a compilation that takes too long; no error that a kernel, or the compiler, could handle."""


@contextlib.contextmanager
def _given_up() -> Generator[None]:
    """Context manager: ends what takes longer than ``SECONDS``, where the system has such a clock."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: Any) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _called_from(error: NkiError, call: Span | None) -> NkiError:
    """The error of a kernel that host code calls at ``call``: there, unless it is at a line of the kernel."""
    if error.span is not None and call is not None:
        error.stack = (call, *error.stack)
    return error.at(call)


def _endless(kernel: Kernel, slow: _TooLong, span: Span | None) -> Warned:
    """The warning about a kernel that may never end, at its line that was running."""
    code = kernel.func.__code__
    lines = [
        line for frame, line in traceback.walk_tb(slow.__traceback__) if frame.f_code.co_filename == code.co_filename
    ]
    place = Span(code.co_filename, lines[-1] if lines else code.co_firstlineno)
    called = f", called in line {span.line}," if span is not None else ""
    message = f"the compilation of `{kernel.func.__name__}`{called} takes longer than {SECONDS:.0f} s and was given up"
    return Warned(place, f"{message}: a loop here may have no end", NkiWarning)


def _undecorated(example: Example, function: Callable[..., Any]) -> list[Finding]:
    """A function for the device that host code calls without ``nki.jit``."""
    if not any(map(arrays.is_array, example.args)):
        return []
    name = function.__name__
    fix = f"write @nki.jit in the line above `def {name}`"
    if example.called:
        text = f"`{name}` is called as a plain Python function, and calls instructions, which exist only in kernels"
        return [OutsideKernelError(text, fix=fix, span=example.span)]
    text = f"`{name}` calls instructions and stands beside arrays as if it were a kernel; it is not decorated: {fix}"
    return [Warned(example.span, text, NkiWarning)]


def place_of(kernel: object) -> tuple[str, int]:
    """File and first line of a kernel's function."""
    function = unwrap(kernel)
    code = getattr(function, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if isinstance(code, types.CodeType) else ("", id(kernel))


def _key(value: Any) -> Any:
    """A value as part of the text that tells sets of arguments apart."""
    if arrays.is_array(value):
        return type(value).__name__, tuple(value.shape), str(value.dtype)
    return [_key(part) for part in value] if isinstance(value, list | tuple) else repr(value)  # pyright: ignore


def _fits(kernel: Kernel, args: tuple[Any, ...]) -> bool:
    try:
        kernel.bind(args, {})
    except NkiError:
        return False
    return True


def _common(rounds: list[list[Finding]]) -> list[Finding]:
    """The findings that every round has."""
    first, *others = rounds
    return [one for one in first if all(any(_same(one, each) for each in other) for other in others)]


def _same(one: Finding, other: Finding) -> bool:
    return type(one) is type(other) and one.span == other.span


def _whatever(
    captured: Captured,
    kernel: Kernel,
    known: dict[str, list[Any]],
    compiled: Callable[[Kernel, Mapping[str, Any]], list[Finding]],
) -> list[Finding]:
    """The errors of a kernel that are there whatever its arguments are, found with several assumed ones.

    An error about an assumed argument itself does not count, for that may be no tensor at all.
    """
    rounds: list[list[Finding]] = []
    told, plain = dimensions(captured, list(known)), numbers(captured, [n for n, values in known.items() if not values])
    known = {n: values or ([ast.literal_eval(plain[n])] if n in plain else []) for n, values in known.items()}
    for base, dtype in _ASSUMED:
        assumed = {n: values[0] if values else TensorSpec(n, told[n].shape(base), dtype) for n, values in known.items()}
        rounds.append(compiled(kernel, assumed))
    names = [f"'{name}'" for name, values in known.items() if not values]
    shapes: dict[str, str] = {}
    for name in known:
        if not known[name]:
            shape = as_text(told[name].shape())
            shapes[shape] = f"{shapes[shape]}, {name}" if shape in shapes else name
    words = ", ".join(
        [f"{several} assumed as {shape}:float32" for shape, several in shapes.items()]
        + [f"{name} as {literal}" for name, literal in plain.items()]
    )
    findings: list[Finding] = []
    for one in _common(rounds):
        if isinstance(one, NkiError) and one.code in _WHATEVER and not any(name in one.message for name in names):
            one.message += f" (with {words})"
            findings.append(one)
    return findings


def _listed(known: dict[str, list[Any]], told: Mapping[str, Dimensions]) -> str:
    """The parameters without any facts, each with the names that the kernel gives its dimensions."""
    shown = {name: f"({', '.join(told[name].names)})" if told[name].names else "" for name in told}
    return ", ".join(f"{name} {shown[name]}".rstrip() for name, values in known.items() if not values)


def _unknown(missing: dict[str, list[Any]], told: Mapping[str, Dimensions], plain: Mapping[str, str]) -> str:
    """The reason why a kernel was not compiled: tensors without shapes, numbers without values."""
    tensors = _listed({name: values for name, values in missing.items() if name not in plain}, told)
    parts = [f"the shape of {tensors}"] if tensors else []
    return " and ".join(parts + ([f"the value of {', '.join(plain)}"] if plain else []))


def _skipped(
    captured: Captured, kernel: Kernel | None, known: dict[str, list[Any]], examples: list[Example]
) -> Skipped:
    missing = [name for name, values in known.items() if not values]
    told, plain = dimensions(captured, list(known)), numbers(captured, missing)
    if kernel is None:
        reason = "it exists only when the function around it runs"
    elif examples:
        reason = f"the arguments of its call in line {examples[0].span.line} are not known before the file runs"
    else:
        reason = f"nothing in the file shows {_unknown({n: v for n, v in known.items() if not v}, told, plain)}"
    by_name = not missing or not missing[-1].startswith("*")
    values = {name: plain.get(name) or f"{as_text(told[name].shape())}:float32" for name in missing}
    shown = " ".join(f"--arg {f'{name}=' if by_name else ''}{values[name]}" for name in missing)
    shown = shown if kernel is not None else ""
    return Skipped(captured.name, captured.span(captured.node), reason, shown)


__all__ = ["Compilations", "Finding", "Skipped", "place_of"]
