"""The executables in memory: of one kernel by what they were compiled for, of graphs by their names."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar
from weakref import WeakValueDictionary

from nki.base.locks import Lock
from nki.base.source import Span, Where
from nki.base.warning import warn_at

if TYPE_CHECKING:
    from nki.compilation.executable import Executable

Key = tuple[Any, ...]
K = TypeVar("K")
CAPACITY: Final = 256
"""Limit on the executables that a kernel keeps, and on those that are kept for graphs."""
_TRIES: Final = 8
"""Executables that are looked at for one that may be dropped."""
VALUES: Final = 8
"""Compilations for other values of numbers alone before a kernel warns."""

_NUMBERS: Final = ((float,), (int,))
"""The beginnings of the parts of a key that are numbers."""


class _Everything:
    """A container of all names."""

    def __contains__(self, name: object) -> bool:
        return True


ALL_FLOATS: Final[Container[str]] = _Everything()
NO_FLOATS: Final[Container[str]] = frozenset[str]()


class LruExecutables(Generic[K]):
    """At most :data:`CAPACITY` executables by key: the least recently used one is dropped."""

    clock: ClassVar[int] = 0
    """Advances with each executable that is kept anywhere; executables have the time of their last use."""

    def __init__(self) -> None:
        self.by_key: dict[K, Executable] = {}

    def add(self, key: K, executable: Executable) -> None:
        """Keep ``executable``, and drop another one if there are too many."""
        kept = self.by_key
        if len(kept) >= CAPACITY and key not in kept:
            oldest = sorted(kept, key=lambda key: kept[key].last_used)
            dropped = next((key for key in oldest[:_TRIES] if self.may_drop(key, kept[key])), None)
            if dropped is not None:
                del kept[dropped]
        kept[key] = executable
        LruExecutables.clock += 2
        executable.last_used = LruExecutables.clock - 1  # older than any that was used since

    def may_drop(self, key: K, executable: Executable) -> bool:  # noqa: ARG002  # of subclasses
        """True if ``executable`` can be had again."""
        return True


class NamedExecutables(LruExecutables[str]):
    """Executables by the names that graphs have for them.

    One that was dropped is still found while something else holds it, such as its kernel. After that the caller has to
    make it again of its name; ``is_lasting`` says whether that will be possible.
    """

    def __init__(self, is_lasting: Callable[[str, Executable], bool]) -> None:
        super().__init__()
        self._is_lasting = is_lasting
        self._alive: WeakValueDictionary[str, Executable] = WeakValueDictionary()
        self._lock = Lock()

    def get(self, name: str) -> Executable | None:
        """The executable with this name, as long as it is in memory."""
        found = self.by_key.get(name)
        if found is None:
            found = self._alive.get(name)
            if found is None:
                return None
            self.add(name, found)
        found.last_used = LruExecutables.clock
        return found

    def add(self, key: str, executable: Executable) -> None:
        with self._lock:
            self._alive[key] = executable
            super().add(key, executable)

    def may_drop(self, key: str, executable: Executable) -> bool:
        return self._is_lasting(key, executable)


class ExecutableCache(LruExecutables[Key]):
    """The executables of a kernel by key.

    A key has the values of the floats that its executable was compiled for; of the others, which launches pass, it has
    the type. ``patterns`` are the sets of floats that the executables get from launches, the latest first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patterns: tuple[Container[str], ...] = (ALL_FLOATS,)
        self.uses: dict[str, Where] = {}
        """The first place at which a float was compiled in, by parameter."""
        self._compilations: dict[Key, int] = {}
        """By key without numbers."""

    def pattern_of(self, executable: Executable, floats: Sequence[str]) -> Container[str]:
        """The pattern of ``executable`` for a call with ``floats``; it is looked for from now on."""
        passed = executable.float_names
        pattern = ALL_FLOATS if passed == list(floats) else frozenset(passed)
        if pattern not in self.patterns:
            self.patterns = (pattern, *self.patterns)
        return pattern

    def keep(self, key: Key, executable: Executable, arguments: Mapping[str, Any], name: str, code: CodeType) -> None:
        """Keep ``executable`` of the kernel ``name``, and warn of too many values."""
        self.add(key, executable)
        pattern = _without_numbers(key)
        if pattern == key:
            return
        if len(self._compilations) >= CAPACITY:
            self._compilations.clear()
        count = self._compilations[pattern] = self._compilations.get(pattern, 0) + 1
        if count == VALUES + 1:
            self._warn([key for key in self.by_key if _without_numbers(key) == pattern], arguments, name, code)

    def _warn(self, keys: Sequence[Key], arguments: Mapping[str, Any], kernel: str, code: CodeType) -> None:
        columns = zip(arguments, zip(*[key[-len(arguments) :] for key in keys], strict=True), strict=True)
        changing = {name: values for name, values in columns if len(set(values)) > 1}
        if not changing:
            return
        name = ", ".join(changing)
        values = ", ".join(str(value[1]) for value in next(iter(changing.values()))[-3:])
        place = next((self.uses[name].span for name in changing if name in self.uses), None)
        advice = (
            "a Python number is compiled in, unless it is a float that instructions alone use, in a call on arrays of "
            "NumPy or PyTorch"
            if place is None
            else "this line needs the value while the kernel is compiled. Let only instructions use the number, or the "
            "result of + - * / of it"
        )
        warn_at(
            place or Span(code.co_filename, code.co_firstlineno),
            f"kernel '{kernel}' was compiled {len(keys)} times for other values of '{name}' alone (…, {values}): "
            f"{advice}; or pass a number that changes from call to call as a tensor, such as one of shape (128, 1), "
            "whose tile is an operand of tensor_scalar",
        )


def _without_numbers(key: Key) -> Key:
    """``key`` with the numbers among the arguments replaced by their type."""
    return tuple([part[0] if type(part) is tuple and part[:1] in _NUMBERS else part for part in key])


__all__ = ["ALL_FLOATS", "CAPACITY", "NO_FLOATS", "ExecutableCache", "Key", "NamedExecutables"]
