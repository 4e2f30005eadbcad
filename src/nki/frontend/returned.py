"""The result of a kernel: the tensors that it returns, or the mistake in what it returns, with the code to write."""

from __future__ import annotations

import ast
import builtins
from dataclasses import replace
from typing import Any, cast

from nki.base.errors import ReturnError
from nki.base.warning import NkiDeprecationWarning, warn_at
from nki.frontend.builder import Builder
from nki.frontend.capture import Captured
from nki.frontend.code_objects import FunctionNode
from nki.frontend.dialect import Dialect
from nki.frontend.scopes import bound_names
from nki.ir.access_overlap import is_contiguous
from nki.ir.loop import instructions
from nki.ir.types import Access, Buffer, Tensor

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
    todo: list[ast.AST] = list(ast.iter_child_nodes(captured.node))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Return):
            returns.append(node)
        elif not isinstance(node, FunctionNode):
            todo.extend(ast.iter_child_nodes(node))
    return returns


__all__ = ["Returned", "by_reference", "returns_nothing", "written_arguments"]
