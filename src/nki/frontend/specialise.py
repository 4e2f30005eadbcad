"""Run a kernel's rewritten code for one set of argument types, recording its instructions; :class:`Returned` has the
tensors that it returns, or the mistake in what it returns, with the code to write.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, cast

from nki.base.errors import ReturnError, SharedTensorError
from nki.base.source import Noted, keeping_frames, user_frames_end
from nki.base.warning import NkiDeprecationWarning, NkiPortabilityWarning, under_release, warn_at
from nki.frontend.builder import Builder, CommonTensors, Observer
from nki.frontend.capture import Captured
from nki.frontend.code_objects import FunctionNode
from nki.frontend.diagnostics import explain
from nki.frontend.dialect import Dialect
from nki.frontend.frontend_errors import DictKeyError
from nki.frontend.inlining import compile_function
from nki.frontend.objects import copied
from nki.frontend.python.flattened_arguments import gathered, joined
from nki.frontend.python.float_loads import is_open
from nki.frontend.release import LIST_ARGUMENT
from nki.frontend.report import portable_text
from nki.frontend.scopes import bound_names
from nki.frontend.syntax_tree import children
from nki.ir.floats.runtime_float import RuntimeFloat
from nki.ir.loop import instructions
from nki.ir.program import Program
from nki.ir.recorder import recording
from nki.ir.types import Access, Buffer, Tensor, TensorSpec
from nki.ir.windows import is_contiguous
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
    with recording(builder), keeping_frames():
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


_ALLOCATE = "allocate it with nl.ndarray(…, buffer=nl.shared_hbm), copy the result into it and return it"


def written_arguments(builder: Builder) -> list[Tensor]:
    """The arguments that a kernel writes, in the order of its parameters."""
    written = {access.tensor for inst in instructions(builder.body) for access in inst.writes()}
    return [tensor for tensor in builder.tensors if tensor.role == "input" and tensor in written]


def by_reference(dialect: Dialect) -> Dialect:
    """``dialect``, in which a kernel that returns nothing returns the arguments that it writes.

    It is ``dialect`` itself if that has a rule of its own for results.
    """
    if dialect.results is not None:
        return dialect
    return replace(dialect, name=f"{dialect.name}, outputs by reference", results=_or_written)


def _is_nothing(result: Any) -> bool:
    return result is None or (isinstance(result, tuple | list) and not result)


def _or_written(builder: Builder, result: Any) -> Any:
    if not _is_nothing(result):
        return result
    wrap = builder.dialect.tensor.wrap
    outputs = tuple(wrap(Access.whole(tensor)) for tensor in written_arguments(builder))
    return outputs[0] if len(outputs) == 1 else outputs


class Returned:
    """The result of ``captured``, and its return statement: the only one, or None."""

    def __init__(self, captured: Captured, builder: Builder, result: Any) -> None:
        self.captured = captured
        self.builder = builder
        self.result = result
        self.statement = _return_statement(captured)
        self.span = captured.span(self.statement or captured.node)

    def outputs(self) -> list[Access]:
        """The tensors that the kernel returned, each of them whole, maybe in another shape or dtype."""
        result = self.result
        if _is_nothing(result):
            written = [tensor.name for tensor in written_arguments(self.builder)]
            what = f", and writes to its argument{'s'[: len(written) > 1]} {', '.join(map(repr, written))}"
            raise ReturnError(
                f"kernel {self.captured.name!r} returns nothing{what if written else ''}",
                fix=self._end_with(written),
                span=self.span,
            )
        items: list[Any] = list(result) if isinstance(result, tuple | list) else [result]  # pyright: ignore[reportUnknownArgumentType]
        views: list[Access] = []
        for index, item in enumerate(items):
            views.append(self._output(index, item, views))
        return views

    def _output(self, index: int, item: Any, before: list[Access]) -> Access:
        name, span = self.captured.name, self.span
        if not isinstance(item, self.captured.dialect.tensor.kind):
            raise ReturnError(
                f"kernel {name!r} returns {_shown(item)}; only HBM tensors reach the caller",
                fix=self._tensors_of(item),
                span=span,
            )
        view: Access = item.access
        tensor = view.tensor
        if not tensor.buffer.is_hbm:
            raise ReturnError(
                f"kernel {name!r} returns '{tensor.name}', which is in {tensor.buffer.value}",
                fix=self._copied_out(index, view),
                span=span if self.statement else tensor.span,
            )
        if tensor.data is not None:
            raise ReturnError(
                f"kernel {name!r} returns the constant '{tensor.name}'; results are tensors of their own",
                fix="copy it to an output with nisa.dma_copy, or leave it out: the caller can have it without a kernel",
                span=span,
            )
        if any(tensor is other.tensor for other in before):
            raise ReturnError(
                f"kernel {name!r} returns '{tensor.name}' twice", fix="return each tensor once", span=span
            )
        if not _is_all(view):
            kind = f" as {view.dtype}" if view.dtype is not tensor.dtype else ""
            other = f" with steps {view.strides}{kind}" if view.size == tensor.elements else ""
            raise ReturnError(
                f"kernel {name!r} returns a view {view.shape}{other} of '{tensor.name}' {tensor.shape}",
                fix=self._copied_out(index, view),
                span=span if self.statement else tensor.span,
            )
        if tensor.buffer is not Buffer.shared_hbm and tensor.role != "input":
            message = f"'{tensor.name}' is returned and in nl.{tensor.buffer.value}: since NKI 0.3 results are in "
            warn_at(tensor.span or span, message + "nl.shared_hbm", NkiDeprecationWarning, since="0.3")
        return view

    def _end_with(self, written: list[str]) -> str:
        """The statement that returns all outputs that the kernel has allocated, and the arguments that it writes."""
        if self.statement is not None and self.statement.value is not None:
            return _ALLOCATE
        own = [t for t in self.builder.tensors if t.buffer is Buffer.shared_hbm and not t.role]
        names = [*[t.name for t in own if t.name in bound_names(self.captured.node)], *written]
        if not names:
            return _ALLOCATE
        code = f"return {', '.join(names)}"
        if self.statement is not None:
            return f"write `{code}`"
        return f"end the kernel with `{code}`"

    def _tensors_of(self, item: Any) -> str:
        """The return statement with only the tensors of a dictionary."""
        value = self.statement.value if self.statement is not None else None
        if not isinstance(value, ast.Dict) or not isinstance(item, dict):
            return _ALLOCATE
        kind = self.captured.dialect.tensor.kind
        parts = zip(value.values, cast("dict[Any, Any]", item).values(), strict=False)
        texts = [ast.unparse(node) for node, part in parts if isinstance(part, kind)]
        return f"return tensors alone: write `return {', '.join(texts)}`" if texts else _ALLOCATE

    def _copied_out(self, index: int, view: Access) -> str:
        """Code that copies a returned tile or view to an output of its own, and returns that."""
        value = self.statement.value if self.statement is not None else None
        parts = list(value.elts) if isinstance(value, ast.Tuple | ast.List) else [value]
        if value is None or index >= len(parts) or view.dynamic is not None or view.dtype.name not in _OUTPUTS:
            return _ALLOCATE
        source = ast.unparse(cast("ast.expr", parts[index]))
        taken = {*bound_names(self.captured.node), *dir(builtins)}
        name = next(n for n in ("out", "result", *(f"out{i}" for i in range(99))) if n not in taken)
        lines = [f"{name} = nl.ndarray({view.shape}, dtype=nl.{view.dtype.name}, buffer=nl.shared_hbm)"]
        staged = f"nl.copy({source})" if view.buffer is Buffer.psum else source
        lines.append(f"nisa.dma_copy(dst={name}, src={staged})")
        texts = [name if i == index else ast.unparse(cast("ast.expr", part)) for i, part in enumerate(parts)]
        lines.append(f"return {', '.join(texts)}")
        return "copy it to an output: write `\n" + "\n".join(f"        {line}" for line in lines) + "`"


_OUTPUTS = frozenset({
    "float32", "float16", "bfloat16", "int32", "int16", "int8", "uint32", "uint16", "uint8", "float8_e5m2",
    "float8_e4m3fn",
})  # fmt: skip
"""The dtypes that results of a kernel usually have."""


def _shown(item: Any) -> str:
    """A result in a message; the tensors in a container would show their values in the simulator."""
    kind = type(item).__name__
    if isinstance(item, dict):
        return f"a dict with the keys {', '.join(map(repr, cast('dict[Any, Any]', item))):.60}"
    return f"a {kind}" if isinstance(item, list | tuple) else f"{kind} {item!r:.60}"


def _is_all(view: Access) -> bool:
    """True if a view is its whole tensor, byte for byte in the order in which they are stored.

    A result may have another dtype than its storage, an argument keeps the caller's.
    """
    tensor = view.tensor
    same = view.size * view.dtype.itemsize == tensor.nbytes
    same = same and (view.dtype is tensor.dtype or tensor.role != "input")
    return same and view.offset == 0 and is_contiguous(view) and view.dynamic is None


def returns_nothing(captured: Captured) -> bool:
    """True if no return statement of the kernel has a value."""
    return all(statement.value is None or ast.unparse(statement.value) == "None" for statement in _returns(captured))


def _return_statement(captured: Captured) -> ast.Return | None:
    """The kernel's return statement if it has just one."""
    returns = _returns(captured)
    return returns[0] if len(returns) == 1 else None


def _returns(captured: Captured) -> list[ast.Return]:
    """The return statements of the kernel itself."""
    returns: list[ast.Return] = []
    todo = children(captured.node)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Return):
            returns.append(node)
        elif not isinstance(node, FunctionNode):
            todo += children(node)
    return returns


__all__ = ["Returned", "by_reference", "returns_nothing", "specialise", "written_arguments"]
