"""Loops that run on the device, while the kernel is specialised: Python goes through their bodies once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from nki.base.errors import DynamicLoopError, TensorOperatorError
from nki.base.source import Span, code_span, here
from nki.base.warning import NkiDeprecationWarning, warn_at
from nki.frontend.builder import Builder, current
from nki.frontend.code_objects import origin
from nki.ir.loop import Loop, VirtualRegister, While
from nki.ir.scalars import NkiScalar
from nki.ir.types import Access, access_of


def while_rounds(condition: Callable[[], Any]) -> Iterator[None]:
    """The rounds of ``while condition():``. One, if the condition is a register: the device repeats it."""
    while True:
        value = condition()
        if _repeats(value):
            where = here()
            if where.span is not None:
                text = "`while register:` is deprecated since NKI 0.6: use nl.while_loop(register, body)"
                warn_at(where.span, text, NkiDeprecationWarning, since="0.6")
            yield from one_round(current("while"), While(value, where=where), None)
            return
        access = access_of(value)
        if isinstance(access, Access):
            raise TensorOperatorError(
                f"'{access.name}' used as the condition of a loop: its values exist only when the kernel runs",
                fix="loop while a register is not 0: nisa.register_alloc, nisa.register_load, nl.while_loop",
            )
        if not value:
            return
        yield


def _repeats(value: Any) -> bool:
    """True for a register; a scalar never changes."""
    return isinstance(value, VirtualRegister) and not isinstance(value, NkiScalar)


def while_hook(_: object) -> Callable[[Callable[[], Any]], Iterator[None]]:
    """The hook behind ``while`` loops."""
    return while_rounds


def one_round(builder: Builder, loop: Loop, value: Any) -> Iterator[Any]:
    """``value``, once; what the kernel records until it asks for another is the body of ``loop``."""
    builder.open(loop)
    try:
        yield value
    except GeneratorExit:  # Python left the loop by `break`, `return` or an exception; the frame says where
        if builder.failed is None:
            builder.failed = _left_early(sys._getframe(1), loop)  # pyright: ignore[reportPrivateUsage]
        raise
    builder.close(loop)


@contextmanager
def body_of(builder: Builder, loop: Loop) -> Generator[None]:
    """Context manager: what the kernel records inside is the body of ``loop``, which no exception may leave."""
    builder.open(loop)
    try:
        yield
    except Exception as raised:
        if builder.failed is None:  # reported if the kernel catches the exception
            builder.failed = _left_by(raised, loop)
        raise
    builder.close()


def _left_by(raised: Exception, loop: Loop) -> DynamicLoopError:
    spans = [
        code_span(frame.f_code, lasti, mark.function)
        for frame, lasti in _raising(raised.__traceback__)
        if (mark := origin(frame.f_code)) is not None
    ]
    text = f"{type(raised).__name__}: {raised}".partition("\n")[0].rstrip(": ")
    line = f" of line {loop.where.span.line}" if loop.where.span else ""
    return DynamicLoopError(
        f"{text} leaves the body of the run-time loop{line}, and the kernel catches it outside: the device runs every "
        "round to its end",
        fix="catch it inside the body, or before the loop",
        span=spans[-1] if spans else loop.where.span,
        stack=tuple(spans[:-1]),
    )


def _raising(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    """The frames between a handler and the place that raised, outermost first."""
    while trace is not None:
        yield trace.tb_frame, trace.tb_lasti
        trace = trace.tb_next


def _left_early(frame: Any, loop: Loop) -> DynamicLoopError:
    spans: list[Span] = []
    while frame is not None:
        mark = origin(frame.f_code)
        if mark is not None:
            spans.append(code_span(frame.f_code, frame.f_lasti, mark.function))
        frame = frame.f_back
    line = f" of line {loop.where.span.line}" if loop.where.span else ""
    return DynamicLoopError(
        f"the run-time loop{line} is left here: how often it runs is decided on the device, which cannot leave early",
        fix="make the number of rounds a register and compute it before; or loop with nl.while_loop on a register that "
        "the body sets to 0",
        span=spans[0] if spans else loop.where.span,
        stack=tuple(reversed(spans[1:])),
    )
