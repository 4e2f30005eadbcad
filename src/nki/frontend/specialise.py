"""Run a kernel's rewritten code for one set of argument types, recording its instructions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from nki.base.source import user_frames_end
from nki.base.warning import NkiDeprecationWarning, warn_at
from nki.frontend.builder import Builder, Observer
from nki.frontend.capture import Captured
from nki.frontend.diagnostics import explain
from nki.frontend.inlining import compile_function
from nki.frontend.objects import copied
from nki.frontend.returned import Returned
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
    views = Returned(captured, builder, result).outputs()
    outputs = [view.tensor for view in views]
    for tensor in outputs:
        tensor.role = tensor.role or "output"
    return builder.finish(inputs, outputs, isinstance(result, tuple | list), tuple(view.shape for view in views))


@user_frames_end
def _call(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call the rewritten kernel."""
    return function(**values)


def _parameter(captured: Captured, name: str) -> ast.AST:
    """The node that declares the parameter ``name``."""
    args = captured.node.args
    return next(arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs) if arg.arg == name)


__all__ = ["specialise"]
