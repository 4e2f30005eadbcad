"""Collectives of ranks on numbers that are not known: these travel as records, which ranks split, copy and join."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from nki.backend.numpy.rank_exchange import RankExchange
from nki.backend.numpy.values import Value
from nki.proofs.executor import Prover, Symbolic
from nki.proofs.symbols import Symbols

_RECORD: Final = np.dtype([("residues", "u8"), ("exponents", "u8"), ("infinities", "i1"), ("kept", "u8")])
_NONE: Final = np.uint64(0xFFFFFFFFFFFFFFFF)


class Sent(Symbolic):
    """A tile value as an array of records."""

    __slots__ = ("array",)

    def __init__(self, value: Symbolic, array: Any = None) -> None:
        super().__init__(value.symbols if array is None else _symbols(array, value.symbols), value.dtype)
        self.array = _records(self.symbols) if array is None else array


def _records(symbols: Symbols) -> Any:
    array = np.zeros(symbols.shape, _RECORD)
    for name, none in (("residues", _NONE), ("exponents", _NONE), ("infinities", 0), ("kept", 1)):
        part = getattr(symbols, name)
        array[name] = none if part is None else part
    return array


def _symbols(array: Any, like: Symbols) -> Symbols:
    parts = [None if (array[name] == _NONE).any() else array[name].copy() for name in ("residues", "exponents")]
    infinities = array["infinities"].copy() if array["infinities"].any() else None
    kept = None if (array["kept"] == 1).all() else array["kept"].copy()
    return Symbols(*parts, infinities, like.is_whole, like.size, kept)


class RankProver(Prover):
    """A prover for one of several ranks."""

    def _sent(self) -> RankExchange[Sent]:
        assert self.running is not None
        return RankExchange(self.running, lambda array, like: Sent(like, array))

    def gather_ranks(self, value: Value, count: int) -> list[Value]:
        if not isinstance(value, Symbolic):
            return super().gather_ranks(value, count)
        return list(self._sent().gather(Sent(value)))

    def fold_ranks(self, value: Value, count: int, combine: Callable[[Value, Value], Value]) -> Value:
        if not isinstance(value, Symbolic):
            return super().fold_ranks(value, count, combine)

        def combined(one: Sent, other: Sent) -> Sent:
            result = combine(one, other)
            assert isinstance(result, Symbolic)
            return Sent(result)

        runs = self._sent().fold(Sent(value), combined)
        return Sent(runs[0], np.concatenate([run.array for run in runs], axis=1))

    def exchange_parts(self, value: Value, count: int) -> list[Value]:
        if not isinstance(value, Symbolic):
            return super().exchange_parts(value, count)
        return list(self._sent().parts(Sent(value), count))

    def permute_ranks(self, value: Value, otherwise: Value, pairs: Sequence[tuple[int, int]]) -> Value:
        if not (isinstance(value, Symbolic) and isinstance(otherwise, Symbolic)):
            return super().permute_ranks(value, otherwise, pairs)
        return self._sent().permute(Sent(value), Sent(otherwise), pairs)
