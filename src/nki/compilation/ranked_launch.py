"""Launches of several ranks in one process: ``with nki.ranks(8):`` and ``nki.simulate(kernel, ranks=8)``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, cast

from nki.base.errors import RankArgumentError
from nki.base.locks import imported
from nki.compilation.bridges import Adapter
from nki.frontend.python.flattened_arguments import leaves
from nki.rendezvous import ranks as running

if TYPE_CHECKING:
    from nki.ir.types import TensorSpec
    from nki.rendezvous.protocol import Participant

_requested: Final[ContextVar[int | None]] = ContextVar("ranks", default=None)
active: int = 0
"""The number of open blocks of :class:`ranks` in the process: a launch outside of all asks for nothing more."""


class ranks:  # noqa: N801  # reads as a word: with nki.ranks(8)
    """Launch kernels on ``count`` ranks, all in this process: ``with nki.ranks(8): outs = kernel(xs, weight)``.

    Each argument that is a list has one item per rank, in rank order; any other argument is the same for all. The
    result is a list of what each rank returns. Ranks run at the same time, a thread each, and meet in the collectives
    of :mod:`nki.collectives`; results do not depend on who comes first. Raises :class:`RankArgumentError` for a number
    that is none, and the calls do for a list of another length, and for memory that one rank changes and another has.
    """

    def __init__(self, count: int) -> None:
        if type(count) is not int or count < 1:
            raise RankArgumentError(f"nki.ranks({count!r}): it takes a number of ranks from 1", fix="pass 8, say")
        self.count = count
        self._tokens: list[Token[int | None]] = []

    def __enter__(self) -> Self:
        global active
        self._tokens.append(_requested.set(self.count))
        active += 1
        return self

    def __exit__(self, *exc: object) -> None:
        global active
        active -= 1
        _requested.reset(self._tokens.pop())


def requested() -> int | None:
    """The number of ranks of a launch here; None: one, or this is a rank itself."""
    if not active or running.in_process() is not None:
        return None
    return _requested.get()


class _Arguments:
    """The arguments of all ranks of a launch of the kernel ``name``."""

    def __init__(self, name: str, adapter: Adapter, of_ranks: Sequence[Iterable[Any]]) -> None:
        self.name, self.adapter, self._of_ranks = name, adapter, of_ranks

    @cached_property
    def extents(self) -> list[tuple[int, int, int]]:
        """The memory of each tensor: the rank, the first byte, and the one behind the last."""
        return [
            (rank, *self.adapter.extent(value))
            for rank, values in enumerate(self._of_ranks)
            for value in leaves(values)
            if self.adapter.is_framework_tensor(value)
        ]


_arguments: Final[ContextVar[_Arguments | None]] = ContextVar("arguments of all ranks", default=None)


def check_apart(inputs: Sequence[TensorSpec], tensors: Sequence[Any], changed: Iterable[int]) -> None:
    """Raise :class:`RankArgumentError` if another rank of this process has memory that this one is about to change.

    ``tensors`` are the arguments of this rank for the kernel's ``inputs``; the ``changed`` ones are numbered.
    """
    arguments, participant = _arguments.get(), running.in_process()
    if arguments is None or participant is None:
        return
    for number in changed:
        start, stop = arguments.adapter.extent(tensors[number])
        if any(start < end and first < stop for rank, first, end in arguments.extents if rank != participant.rank):
            name = inputs[number].name
            raise RankArgumentError(
                f"kernel '{arguments.name}' changes '{name}', and ranks have it, or a part of it, in common",
                fix=f"pass a list with an array for each rank: [{name}.copy(), …]",
            )


class _Launchable(Protocol):
    """A kernel, as a launch needs it."""

    @property
    def func(self) -> Callable[..., Any]: ...
    @property
    def names(self) -> Sequence[str]: ...


def run(
    kernel: _Launchable,
    count: int,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    adapter_for: Callable[[tuple[Any, ...], Mapping[str, Any]], Adapter],
    *,
    simulated: bool,
) -> list[Any]:
    """The results of ``kernel`` on each of ``count`` ranks with its arguments. Simulated ranks run in turns."""
    name, names = kernel.func.__name__, kernel.names
    work: list[Callable[[Participant], Any]] = []
    given = adapter_for(args, kwargs)
    carried, of_ranks = given.carried(), list[Iterable[Any]]()
    arguments = _Arguments(name, given, of_ranks)

    def run_rank(args: tuple[Any, ...], kwargs: dict[str, Any], participant: Participant) -> Any:
        adapter = adapter_for(args, kwargs)
        token = _arguments.set(arguments)
        try:
            with running.running_as(participant), carried():
                return (adapter.simulate if simulated else adapter.call)(kernel, args, kwargs)
        finally:
            _arguments.reset(token)

    for rank in range(count):
        own = tuple([_own(value, rank, count, name, _name_of(names, i)) for i, value in enumerate(args)])
        named = {key: _own(value, rank, count, name, key) for key, value in kwargs.items()}
        of_ranks.append((*own, *named.values()))
        work.append(partial(run_rank, own, named))
    if simulated:
        return imported("nki.rendezvous.round_robin").RoundRobin(count, "rank").run(work)
    return imported("nki.rendezvous.threaded").Threaded(count).run(work)


def _own(value: Any, rank: int, count: int, name: str, parameter: str) -> Any:
    """The item of ``rank``, if ``value`` is a list."""
    if not isinstance(value, list):
        return value
    items = cast("list[Any]", value)
    if len(items) != count:
        raise RankArgumentError(
            f"argument '{parameter}' of kernel '{name}' is a list of {len(items)}, and {count} ranks run",
            fix=f"pass a list of {count} items, one per rank; a tensor alone, and a tuple, is the same for all ranks",
        )
    return items[rank]


def _name_of(names: Sequence[str], position: int) -> str:
    return names[position] if position < len(names) else str(position)
