"""Loops that run on the device: ``nl.dynamic_range``, ``nl.fori_loop`` and ``nl.while_loop``; and ``nl.affine_range``,
which is unrolled like any range.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final, overload

from nki.base.assigned_name import assigned_name
from nki.base.errors import DynamicLoopError, keep_report
from nki.base.source import Where, here
from nki.frontend.builder import Builder, Observer, current
from nki.frontend.device_loops import body_of, one_round
from nki.frontend.inlining import invoke
from nki.ir.instruction_handle import NkiInstruction
from nki.ir.loop import BOUNDS, For, VirtualRegister, While, is_register
from nki.ir.recorder import is_recording
from nki.ir.scalars import NkiScalar
from nki.isa.build import move_register
from nki.language.nki_tensor import NkiTensor

Bound = int | VirtualRegister | NkiScalar


class AffineRange(Sequence[int]):
    """A ``range`` that tells who watches the kernel when an iteration begins."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: range) -> None:
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> range: ...
    def __getitem__(self, index: int | slice) -> int | range:
        return self.numbers[index]

    def __iter__(self) -> Iterator[int]:
        observer = current("nl.affine_range").observer if is_recording() else None
        return iter(self.numbers) if observer is None else _told(self.numbers, observer)

    def __repr__(self) -> str:
        return repr(self.numbers).replace("range", "affine_range")


def _told(numbers: range, observer: Observer) -> Iterator[int]:
    observer.unrolling(here())
    try:
        for number in numbers:
            observer.iterating()
            yield number
    finally:
        observer.unrolled()


def dynamic_range(start: Bound, stop: Bound | None = None, step: int = 1) -> DynamicRange:
    """A loop that runs on the device: ``for i in nl.dynamic_range(start, stop, step):``.

    ``start`` and ``stop`` are integers or registers, read once when the loop begins; with one argument it is ``stop``.
    ``step`` is an integer of at least 1. The body is compiled once, and ``i`` is a register that only the loop writes.
    Deprecated since NKI 0.6: use :func:`fori_loop`. Raises :class:`DynamicLoopError` for other bounds.
    """
    low, high = (0, start) if stop is None else (start, stop)
    where = here()
    builder = current("nl.dynamic_range")
    builder.dialect.require("nki.language.dynamic_range", "nl.dynamic_range")
    _check_free(builder, "nl.dynamic_range")
    return DynamicRange(_bound("start", low), _bound("stop", high), _step(step), where)


class DynamicRange:
    """The iterable that :func:`dynamic_range` gives to a ``for`` loop."""

    def __init__(self, start: Bound, stop: Bound, step: int, where: Where) -> None:
        self.start = start
        self.stop = stop
        self.step = step
        self.where = where

    def __iter__(self) -> Iterator[VirtualRegister]:
        builder = current("nl.dynamic_range")
        register = builder.register(assigned_name(self.where, "i"), self.where, frozen=True)
        return one_round(builder, For(register, self.start, self.stop, self.step, where=self.where), register)


def fori_loop(lower: Bound, upper: Bound, body_fun: Callable[[NkiScalar], None], step: int = 1) -> None:
    """Run ``body_fun(i)`` on the device for ``i`` from ``lower`` to ``upper`` (exclusive) in steps of ``step``.

    Bounds are integers, int32 scalars or registers, read once when the loop begins; ``step`` is an integer of at least
    1. The body is compiled once; ``i`` is a scalar (with a register as a bound: a register) for it to compute with and
    to read, in ``t[i + 1]`` or ``t.ap(..., scalar_offset=i)``. It returns nothing and hands results on in tensors made
    before the loop. Raises :class:`DynamicLoopError` otherwise.
    """
    where = here()
    builder = current("nl.fori_loop")
    _check_free(builder, "nl.fori_loop")
    _check_body("nl.fori_loop", body_fun)
    low, high, pace = _bound("lower", lower), _bound("upper", upper), _step(step)
    registers = any(isinstance(b, VirtualRegister) and not isinstance(b, NkiScalar) for b in (low, high))
    early = builder.dialect.availability.lacks("nki.isa.NkiScalar")  # the counter was a register
    kind = VirtualRegister if registers or early else NkiScalar
    register = builder.register(_parameter(body_fun), where, frozen=True, kind=kind)
    with body_of(builder, For(register, low, high, pace, where=where)):
        result = invoke(body_fun, register)
        if result is not None and not isinstance(result, NkiInstruction):  # which a lambda of one instruction returns
            raise _generator("nl.fori_loop", result) or DynamicLoopError(
                f"nl.fori_loop: the body returns {_shown(result)}, which has nowhere to go",
                fix="write results to a tensor that was made before the loop",
            )


def while_loop(init: VirtualRegister, body_fun: Callable[[VirtualRegister], VirtualRegister]) -> None:
    """Run ``body_fun(r)`` on the device as long as ``r`` is not 0; ``r`` begins as ``init``, then is what it returned.

    Asked before each round, so the body may never run. It gets a copy of the register, which it may write and return.
    Raises :class:`DynamicLoopError` when ``init`` or the result is no register.
    """
    where = here()
    builder = current("nl.while_loop")
    _check_free(builder, "nl.while_loop")
    if not isinstance(init, VirtualRegister):  # pyright: ignore[reportUnnecessaryIsInstance]  # users write it
        raise DynamicLoopError(
            f"nl.while_loop: init is {_shown(init)} and not a register",
            fix="make one with nisa.register_alloc, and load it with nisa.register_load",
        )
    condition = builder.register("condition", where)
    builder.emit(move_register(condition, init))
    _check_body("nl.while_loop", body_fun)
    with body_of(builder, While(condition, where=where)):
        value = builder.register(_parameter(body_fun), where)
        builder.emit(move_register(value, condition))
        result = invoke(body_fun, value)
        if not isinstance(result, VirtualRegister):
            raise _generator("nl.while_loop", result) or DynamicLoopError(
                f"nl.while_loop: the body returns {_shown(result)} and not the register to test next",
                fix="end it with `return register`",
            )
        builder.emit(move_register(condition, result))


def _generator(what: str, result: Any) -> DynamicLoopError | None:
    """The error about a body that is a generator: its code has not run."""
    if not isinstance(result, Generator):
        return None
    return DynamicLoopError(
        f"{what}: the body has a `yield`, so its call makes a generator and records nothing",
        fix="leave `yield` out of the body; a generator that the body runs may have it",
    )


_CARRIED: Final = (
    "the loop carries no values from round to round: write results into tensors that were made before it, such as "
    "`nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)`"
)


def _check_body(what: str, body: Any) -> None:
    """The loop calls its body with one argument; in JAX bodies take what a round passes to the next as well."""
    if not callable(body):
        raise DynamicLoopError(
            f"{what}: the body is {_shown(body)}, not a function", fix="define `def body(i):` and pass `body`"
        )
    try:
        signature = inspect.signature(body)
    except (TypeError, ValueError):  # a built-in without a signature
        return
    try:
        signature.bind(None)
    except TypeError as misfit:
        name = getattr(body, "__name__", "body")
        raise DynamicLoopError(
            f"{what} calls its body with one argument, and it is {name}{signature}: {misfit}", fix=_CARRIED
        ) from None


def _bound(name: str, value: Any) -> Bound:
    if isinstance(value, VirtualRegister):
        if not is_register(value):
            raise DynamicLoopError(
                f"a run-time loop has {name}={_shown(value)} of {value.dtype}: a bound has 32 bits",
                fix="load it from a tensor of nl.int32; an int64 scalar can be computed in the body",
            )
        return value
    try:
        number = operator.index(value)
    except TypeError as misfit:
        keep_report(misfit)
        raise DynamicLoopError(
            f"a run-time loop has {name}={_shown(value)}: bounds are integers, scalars or registers",
            fix="load the element of a tensor as a scalar: nisa.scalar_load(tile)",
        ) from None
    if number not in BOUNDS:
        raise DynamicLoopError(
            f"a run-time loop has {name}={number}, which does not fit into the 32 bits of a register",
            fix="count to 2**31 - 1 at most",
        )
    return number


def _step(value: Any) -> int:
    try:
        step = 0 if isinstance(value, VirtualRegister) else operator.index(value)
    except TypeError as misfit:
        keep_report(misfit)
        step = 0
    if step < 1 and isinstance(value, NkiTensor | tuple | list):
        raise DynamicLoopError(
            f"the fourth argument of a run-time loop is its step, and is {_shown(value)}",
            fix=f"leave it out; {_CARRIED}",
        )
    if step < 1:
        raise DynamicLoopError(
            f"a run-time loop has step={_shown(value)}: the step is an integer of at least 1, part of the loop's "
            "instruction",
            fix="count upwards in a fixed step",
        )
    return step


def _shown(value: Any) -> str:
    if isinstance(value, NkiScalar):
        return f"scalar '{value.name}'"
    if isinstance(value, VirtualRegister):
        return f"register '{value.name}'"
    if isinstance(value, NkiTensor):
        return f"tensor '{value.name}' {value.shape}"
    return f"{value!r:.40} ({type(value).__name__})"


def _parameter(body: Any) -> str:
    """The name under which the body knows its register."""
    code = getattr(getattr(body, "__func__", body), "__code__", None)
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount] if code is not None else ()
    own = [name for name in names if name != "self"]
    return own[0] if own else "i"


def _check_free(builder: Builder, what: str) -> None:
    if builder.ordered:
        raise DynamicLoopError(
            f"{what} inside `with nl.no_reorder():`, which cannot hold a run-time loop",
            fix="put the `with` block inside the loop's body",
        )


__all__ = ["dynamic_range", "fori_loop", "while_loop"]
