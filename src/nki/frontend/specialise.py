"""Run a kernel's rewritten code for one set of argument types, recording its instructions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from nki.base.errors import ReturnError
from nki.base.source import Span, user_frames_end
from nki.base.warning import NkiDeprecationWarning, warn_at
from nki.frontend.builder import Builder, Observer
from nki.frontend.capture import Captured
from nki.frontend.code_objects import FunctionNode
from nki.frontend.diagnostics import explain
from nki.frontend.inlining import compile_function
from nki.frontend.objects import copied
from nki.ir.program import Program
from nki.ir.recorder import recording
from nki.ir.types import Access, Buffer, Tensor, TensorSpec, is_contiguous
from nki.target.model import Target


def specialise(
    captured: Captured,
    arguments: Mapping[str, Any],
    target: Target,
    *,
    grid: tuple[int, ...] = (),
    core: int = 0,
    common: dict[str, Tensor] | None = None,
    observer: Observer | None = None,
) -> Program:
    """The kernel for ``arguments``: a :class:`TensorSpec` becomes an input tensor, anything else is a constant.

    Constants are copied, so the kernel may change its own and the caller's stay as they are. On a grid, this is the
    program of ``core``; ``common`` are the tensors that its cores share, by name, to which it adds its own.
    ``observer`` sees all that is recorded. Errors carry the user's line and NKI call stack.
    """
    builder = Builder(captured.name, target, grid, core, observer, {} if common is None else common)
    builder.dialect = captured.dialect
    alias: dict[int, Any] = {}
    values = {name: copied(value, name, alias) for name, value in arguments.items()}
    inputs: list[Tensor] = []
    place = Buffer.shared_hbm if grid and grid[0] > 1 else Buffer.hbm  # "NKI CPU Simulator", LNC2
    for name, value in arguments.items():
        if isinstance(value, TensorSpec):
            tensor = builder.tensor(name, value.shape, value.dtype, place, role="input")
            inputs.append(tensor)
            values[name] = captured.dialect.tensor.wrap(Access.whole(tensor))
        elif isinstance(value, list) and core == 0:
            message = f"`{name}` is a list: since NKI 0.3 kernels take tuples"
            warn_at(captured.span(_parameter(captured, name)), message, NkiDeprecationWarning)
    function = compile_function(captured)
    with recording(builder):
        try:
            result = _call(function, values)
            if builder.failed is not None:
                raise builder.failed
        except Warning:  # raised by a filter that the user has set; it is what it says
            raise
        except Exception as error:
            if error is builder.failed:  # which knows its place: what raised it now only came later
                raise
            explained = explain(error)
            raise explained from explained.__cause__
    views = _outputs(captured, result)
    outputs = [view.tensor for view in views]
    for tensor in outputs:
        tensor.role = tensor.role or "output"
    return builder.finish(inputs, outputs, isinstance(result, tuple | list), tuple(view.shape for view in views))


@user_frames_end
def _call(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call the rewritten kernel."""
    return function(**values)


def _outputs(captured: Captured, result: Any) -> list[Access]:
    """The tensors that a kernel returned, each of them whole, maybe in another shape."""
    name, span = captured.name, _return_span(captured)
    allocate = "allocate it with nl.ndarray(…, buffer=nl.shared_hbm), copy the result into it and return it"
    if result is None or (isinstance(result, tuple | list) and not result):
        raise ReturnError(f"kernel {name!r} returns nothing", fix=allocate, span=span)
    items: list[Any] = list(result) if isinstance(result, tuple | list) else [result]  # pyright: ignore[reportUnknownArgumentType]
    outputs: list[Access] = []
    for item in items:
        if not isinstance(item, captured.dialect.tensor.kind):
            raise ReturnError(
                f"kernel {name!r} returns {type(item).__name__} {item!r:.60}; only HBM tensors reach the caller",
                fix=allocate,
                span=span,
            )
        view = item.access
        tensor = view.tensor
        if not tensor.buffer.is_hbm:
            raise ReturnError(
                f"kernel {name!r} returns '{tensor.name}', which is in {tensor.buffer.value}",
                fix=allocate,
                span=tensor.span,
            )
        if tensor.data is not None:
            raise ReturnError(
                f"kernel {name!r} returns the constant '{tensor.name}'; results are tensors of their own",
                fix="copy it to an output with nisa.dma_copy, or leave it out: the caller can have it without a kernel",
                span=span,
            )
        if any(tensor is other.tensor for other in outputs):
            raise ReturnError(
                f"kernel {name!r} returns '{tensor.name}' twice", fix="return each tensor once", span=span
            )
        if not _is_all(view):
            kind = f" as {view.dtype}" if view.dtype is not tensor.dtype else ""
            other = f" with steps {view.strides}{kind}" if view.size == tensor.elements else ""
            raise ReturnError(
                f"kernel {name!r} returns a view {view.shape}{other} of '{tensor.name}' {tensor.shape}",
                fix=f"copy the view to an output {view.shape} with nisa.dma_copy, or return all of '{tensor.name}'",
                span=tensor.span,
            )
        if tensor.buffer is not Buffer.shared_hbm and tensor.role != "input":
            message = f"'{tensor.name}' is returned and in nl.{tensor.buffer.value}: since NKI 0.3 results are in "
            warn_at(tensor.span or span, message + "nl.shared_hbm", NkiDeprecationWarning)
        outputs.append(view)
    return outputs


def _is_all(view: Access) -> bool:
    """True if a view is its whole tensor, element for element in the order in which they are stored."""
    tensor = view.tensor
    same = view.size == tensor.elements and view.dtype is tensor.dtype
    return same and view.offset == 0 and is_contiguous(view) and view.dynamic is None


def _parameter(captured: Captured, name: str) -> ast.AST:
    """The node that declares the parameter ``name``."""
    args = captured.node.args
    return next(arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs) if arg.arg == name)


def _return_span(captured: Captured) -> Span:
    """The kernel's return statement if it has just one; else its first line."""
    returns: list[ast.AST] = []
    todo: list[ast.AST] = list(ast.iter_child_nodes(captured.node))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Return):
            returns.append(node)
        elif not isinstance(node, FunctionNode):
            todo.extend(ast.iter_child_nodes(node))
    return captured.span(returns[0] if len(returns) == 1 else captured.node)


__all__ = ["specialise"]
