"""Run a kernel's rewritten code for one set of argument types, recording its instructions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from nki.base.errors import SharedTensorError
from nki.base.source import Noted, user_frames_end
from nki.base.warning import NkiDeprecationWarning, NkiPortabilityWarning, under_release, warn_at
from nki.frontend.builder import Builder, CommonTensors, Observer
from nki.frontend.capture import Captured
from nki.frontend.diagnostics import explain
from nki.frontend.errors import DictKeyError
from nki.frontend.inlining import compile_function
from nki.frontend.objects import copied
from nki.frontend.python.arguments import gathered, joined
from nki.frontend.python.float_loads import is_open
from nki.frontend.release import LIST_ARGUMENT
from nki.frontend.report import portable_text
from nki.frontend.returned import Returned
from nki.ir.floats.runtime_float import RuntimeFloat
from nki.ir.program import Program
from nki.ir.recorder import recording
from nki.ir.types import Access, Buffer, Tensor, TensorSpec
from nki.target.model import Target


def specialise(
    captured: Captured,
    arguments: Mapping[str, Any],
    target: Target,
    *,
    grid: tuple[int, ...] = (),
    core: int = 0,
    programs: ProgramGrid | None = None,
    common: CommonTensors | None = None,
    observer: Observer | None = None,
) -> Program:
    """The kernel for ``arguments``: a :class:`TensorSpec` becomes an input tensor, anything else is a constant.

    Constants are copied, so the kernel may change its own and the caller's stay as they are. On a grid, this is the
    program of ``core``; ``common`` are the tensors that its cores share, to which it adds its own. Of a grid
    of ``programs``, the core runs its own one after the other. A :class:`RuntimeFloat` of one of the kernel's own
    parameters may become an immediate of instructions; otherwise its value is taken.
    ``observer`` sees all that is recorded. Errors carry the user's line and NKI call stack.
    """
    builder = Builder(captured.name, target, grid, core, observer, common or CommonTensors())
    builder.dialect = captured.dialect
    programs = programs or ProgramGrid()
    builder.programs = programs.axes
    inputs: dict[str, Tensor] = {}
    place = Buffer.shared_hbm if grid and grid[0] > 1 else Buffer.hbm  # "NKI CPU Simulator", LNC2
    for name, value in arguments.items():
        if isinstance(value, TensorSpec):
            inputs[name] = builder.tensor(name, value.shape, value.dtype, place, role="input")
        elif isinstance(value, list) and core == 0:
            _warn_of_list(captured, name)
    arguments, floats = _with_floats(captured, arguments)
    function = compile_function(captured, floats)
    result: Any = None
    views: list[Access] = []
    with under_release(captured.dialect.release):
        for index in programs.of_core(core):
            builder.begin_program(index)
            result = _recorded(builder, function, *gathered(captured.node.args, _values(captured, arguments, inputs)))
            views = _outputs(captured, builder, result, views)
    outputs = [view.tensor for view in views]
    return builder.finish(
        [*inputs.values()], outputs, isinstance(result, tuple | list), tuple((view.shape, view.dtype) for view in views)
    )


def _warn_of_list(captured: Captured, name: str) -> None:
    if text := captured.dialect.warnings.get(LIST_ARGUMENT):
        warn_at(captured.span(_parameter(captured, name)), text.format(name), NkiDeprecationWarning)


def _with_floats(captured: Captured, arguments: Mapping[str, Any]) -> tuple[Mapping[str, Any], frozenset[str]]:
    """The arguments, and the names of those that are run-time floats; without these where none can be kept."""
    floats = {name for name, value in arguments.items() if type(value) is RuntimeFloat}
    if not floats:
        return arguments, frozenset()
    args = captured.node.args
    kept = floats.intersection(arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs))
    if captured.unread is not None or is_open(captured.code):
        kept = set[str]()
    values = dict(arguments)
    for name in floats - kept:
        value: RuntimeFloat = arguments[name]
        if value.uses is not None:
            value.uses.setdefault(name, Noted(captured.span(_parameter(captured, name))))
        values[name] = value.plain()
    return values, frozenset(kept)


def sharded(axes: Sequence[int], axis: int, cores: int, stride: int) -> tuple[int, ...]:
    """The launch grid of programs ``axes`` that ``cores`` share along ``axis``: of every ``cores * stride`` programs
    there, the first ``stride`` belong to core 0, the next to core 1.

    Grids are keys of caches and texts, so it is a tuple of numbers as well; a negative one begins what is no axis.
    """
    return (*axes, -cores, axis, stride)


def launch_of(grid: tuple[int, ...], target: Target) -> tuple[tuple[int, ...], ProgramGrid]:
    """``grid`` as the cores and the programs of a launch.

    One axis that the cores of the target can hold is a grid of cores. The programs of any other grid are independent
    of each other ("nki.FrameworkKernel"), and one core runs them one after the other, or several cores share them
    (:func:`sharded`) if the target has these.
    """
    marked = next((place for place, number in enumerate(grid) if number < 0), None)
    if marked is not None:
        cores, axis, stride = -grid[marked], *grid[marked + 1 :]
        if cores > target.logical_core_max:
            return (), ProgramGrid((*grid[:marked], 1))
        return (cores,), ProgramGrid((*grid[:marked], 1), axis, cores, stride)
    if len(grid) > 1 or (grid and grid[0] > target.logical_core_max):
        return (), ProgramGrid(grid)
    return grid, ProgramGrid(())


@dataclass(frozen=True)
class ProgramGrid:
    """Programs that do not depend on each other, and the cores that share them as :func:`sharded` says."""

    axes: tuple[int, ...] = ()
    axis: int = 0
    cores: int = 1
    stride: int = 1

    def of_core(self, core: int) -> Iterator[tuple[int, ...]]:
        """The places of the programs that ``core`` runs, in order."""
        for place in product(*map(range, self.axes)):
            if self.cores == 1 or place[self.axis] // self.stride % self.cores == core:
                yield place


def _values(captured: Captured, arguments: Mapping[str, Any], inputs: Mapping[str, Tensor]) -> dict[str, Any]:
    """The arguments of one call: a view of each input, and copies of constants."""
    alias: dict[int, Any] = {}
    python = captured.dialect.python
    keys: list[Any] | None = [] if DictKeyError in python.accepted else None
    wrap = captured.dialect.tensor.wrap
    values = {
        name: wrap(Access.whole(inputs[name])) if name in inputs else copied(value, name, alias, keys)
        for name, value in arguments.items()
    }
    if keys and python.warns:
        message = (
            f"an argument holds a dictionary with the key {keys[0]!r:.60}; NKI's dictionaries have string keys only"
        )
        text = portable_text(DictKeyError, message, "use strings, or lists", python.portable_since[DictKeyError])
        warn_at(captured.span(captured.node), text, NkiPortabilityWarning)
    return joined(values)


def _recorded(builder: Builder, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of the kernel's Python, which ``builder`` records."""
    with recording(builder):
        try:
            result = _call(function, args, kwargs)
            if builder.dialect.results is not None:
                result = builder.dialect.results(builder, result)
            if builder.failed is not None:
                raise builder.failed
        except Warning:  # raised by a filter that the user has set; it is what it says
            raise
        except Exception as error:
            if error is builder.failed:  # which knows its place: what raised it now only came later
                raise
            explained = explain(error)
            raise explained from explained.__cause__
    return result


@user_frames_end
def _call(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call the rewritten kernel."""
    return function(*args, **kwargs)


def _outputs(captured: Captured, builder: Builder, result: Any, earlier: list[Access]) -> list[Access]:
    """The tensors that a kernel returned in ``earlier`` programs."""
    returned = Returned(captured, builder, result)
    views = returned.outputs()
    if earlier and [(v.tensor, v.shape, v.dtype) for v in views] != [(v.tensor, v.shape, v.dtype) for v in earlier]:
        raise SharedTensorError(
            f"programs of kernel {captured.name!r} return different tensors, '{earlier[0].name}' and '{views[0].name}'",
            fix="return, in every program, tensors that are allocated under the same names",
            span=returned.span,
        )
    for view in views:
        builder.returns(view.tensor)
    return views


def _parameter(captured: Captured, name: str) -> ast.AST:
    """The node that declares the parameter ``name``."""
    args = captured.node.args
    return next((arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs) if arg.arg == name), captured.node)


__all__ = ["specialise"]
