"""The recorder of the running thread: the object to which functions of ``nki.isa`` hand their instructions."""

from __future__ import annotations

import threading
from typing import Any, Generic, Protocol, TypeVar

from nki.base.element_types import DType, int32
from nki.base.errors import OutsideKernelError
from nki.base.source import Where, here
from nki.ir.instruction import Inst
from nki.ir.loop import VirtualRegister
from nki.ir.types import Access
from nki.target.model import Target

K = TypeVar("K", bound=VirtualRegister)


class Recorder(Protocol):
    """Interface that instructions need of whatever records a program; the frontend's builder implements it."""

    @property
    def target(self) -> Target:
        """The target of the program."""
        ...

    def emit(self, inst: Inst, where: Where | None = None) -> None:
        """Verify and record ``inst`` at ``where``, the user's current line unless given."""
        ...

    def register(
        self, name: str, where: Where, *, frozen: bool = False, kind: type[K] = VirtualRegister, dtype: DType = int32
    ) -> K:
        """Allocate a scalar register as an object of class ``kind``; ``frozen`` ones are written by their loop only."""
        ...

    def compute(self, op: str, dst: Access, left: int | Access, right: int | Access) -> None:
        """Record ``dst = left op right`` for scalars; ``op`` is the name of an operator."""
        ...

    def state(self, name: str, dtype: DType, lanes: int, words: int = 1, first: int = 0) -> Access:
        """Access ``lanes`` lanes, from ``first``, of an engine's own register file ``name`` of ``words`` per lane."""
        ...


R = TypeVar("R", bound=Recorder)


class _Stack(threading.local):
    def __init__(self) -> None:
        self.recorders: list[Any] = []


_stack = _Stack()


def current(what: str) -> Recorder:
    """The innermost recorder of this thread; ``what`` names the caller in the error when there is none."""
    recorders = _stack.recorders  # once: a look-up in the thread's own storage
    if not recorders:
        raise _outside(what)
    return recorders[-1]


def _outside(what: str) -> OutsideKernelError:
    """The error for ``what`` in a function that is no kernel and that no kernel calls."""
    where = here()
    name = where.frames[0][0].co_name if where.frames else "<module>"
    inside = "" if name.startswith("<") else f", in `{name}`"
    fix = "call it in a function decorated with `@nki.jit`, and call that function"
    if inside:
        fix = f"write `@nki.jit` above `def {name}`, or above the kernel that calls `{name}`"
    return OutsideKernelError(f"{what} was called outside a kernel{inside}", fix=fix, span=where.span)


class recording(Generic[R]):  # noqa: N801  # reads as a word: with recording(builder)
    """Context manager: makes ``recorder`` the current one of this thread."""

    def __init__(self, recorder: R) -> None:
        self.recorder = recorder

    def __enter__(self) -> R:
        _stack.recorders.append(self.recorder)
        return self.recorder

    def __exit__(self, *exc: object) -> None:
        _stack.recorders.pop()


def is_recording() -> bool:
    """True while this thread specialises a kernel."""
    return bool(_stack.recorders)
