"""Floats that a kernel gets anew at each launch: Python floats that remember which parameters they were made of.

While a kernel's Python runs, such a float has the value of that call. An instruction may keep it as an immediate: the
kernel then does not depend on the value. Any other use takes the value, and the kernel is compiled for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from math import isnan
from types import FunctionType
from typing import Any, Final, TypeVar

from nki.base.errors import ArgumentError
from nki.base.source import Where, here

Formula = str | float | tuple[Any, ...]
"""The name of a parameter, a constant, ``("-", x)``, or ``(op, x, y)`` with one of ``+ - * /`` as the operator."""
Uses = MutableMapping[str, Where]
"""By parameter, the first place that took its value."""

F = TypeVar("F", bound=Callable[..., Any])

LARGEST: Final = 16
"""Operators in a formula: a launch computes each of them in Python."""
_NUMBERS: Final = (float, int, bool)


@dataclass(frozen=True, slots=True)
class FloatSpec:
    """A float parameter of a compiled kernel. ``value``: in the call for which the kernel was compiled."""

    name: str
    value: float


class RuntimeFloat(float):
    """A float that is computed from parameters by ``formula`` at each launch; its own value belongs to one call.

    ``uses`` notes each parameter that gives its value away: all methods of ``float`` do, but ``+ - * /`` with Python
    numbers, which make another such float. Without ``uses``, taking the value raises :class:`ArgumentError`.
    Code in C may read the value without a call of a method, so no such object may get to code outside the toolchain.
    """

    __slots__ = ("formula", "uses")

    formula: Formula
    uses: Uses | None

    @classmethod
    def of(cls, value: float, formula: Formula, uses: Uses | None) -> RuntimeFloat:
        """A float of this value and formula."""
        made = cls(value)
        made.formula = formula
        made.uses = uses
        return made

    def plain(self) -> float:
        """The value as a Python float; the kernel is then compiled for it."""
        if self.uses is None:
            raise ArgumentError(
                f"the number {show(self.formula)} is known when the kernel is launched; this place needs it before",
                fix="compile the kernel for one value of it",
            )
        place = here()
        for name in names(self.formula):
            self.uses.setdefault(name, place)
        return self.current()

    def current(self) -> float:
        """The value as a Python float, for what does not affect the kernel."""
        return float.__pos__(self)

    def __neg__(self) -> float:
        return (
            RuntimeFloat.of(float.__neg__(self), ("-", self.formula), self.uses) if self._grows(0.0) else -self.plain()
        )

    def __copy__(self) -> RuntimeFloat:
        return self

    def __deepcopy__(self, memo: Any) -> RuntimeFloat:
        return self

    def _grows(self, other: Any) -> bool:
        """True if a formula of this one and ``other``, one operator more, is not too large."""
        if self.uses is None or (type(other) is float and isnan(other)):  # there are many, and text has one of them
            return False
        return operators(self.formula) + (operators(other.formula) if type(other) is RuntimeFloat else 0) < LARGEST

    def _combined(self, op: str, other: Any, reverse: bool) -> Any:
        """``self op other``, or the other way round."""
        if type(other) is not RuntimeFloat and type(other) not in _NUMBERS:
            self.plain()  # the other one's method may read it
            return NotImplemented
        left, right = (other, self) if reverse else (self, other)
        if not self._grows(other):
            return OPERATORS[op](_plain(left), _plain(right))
        value = OPERATORS[op](_current(left), _current(right))  # raises what Python raises
        return RuntimeFloat.of(value, (op, _formula(left), _formula(right)), self.uses)


def _plain(number: Any) -> Any:
    return number.plain() if type(number) is RuntimeFloat else number


def _current(number: Any) -> Any:
    return number.current() if type(number) is RuntimeFloat else number


def _formula(number: Any) -> Formula:
    return number.formula if type(number) is RuntimeFloat else float(number)


OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
}


def _add_operators() -> None:
    for op, name in (("+", "add"), ("-", "sub"), ("*", "mul"), ("/", "truediv")):

        def forward(self: RuntimeFloat, other: Any, op: str = op) -> Any:
            return self._combined(op, other, False)  # pyright: ignore[reportPrivateUsage]

        def reflected(self: RuntimeFloat, other: Any, op: str = op) -> Any:
            return self._combined(op, other, True)  # pyright: ignore[reportPrivateUsage]

        setattr(RuntimeFloat, f"__{name}__", forward)
        setattr(RuntimeFloat, f"__r{name}__", reflected)
    own = {"__new__", "__getattribute__", "__class__", "__doc__", "__init__", "__init_subclass__"}
    for name, method in vars(float).items():
        if name not in own and name not in vars(RuntimeFloat) and not isinstance(method, staticmethod | classmethod):
            setattr(RuntimeFloat, name, _taking(name, method))


def _taking(name: str, method: Any) -> Any:
    """The method or attribute ``name`` of floats, which takes the value."""
    if not callable(method):
        return property(lambda self: getattr(self.plain(), name))

    def take(self: RuntimeFloat, *args: Any) -> Any:
        return method(self.plain(), *args)

    return take


_add_operators()
RuntimeFloat.__name__ = RuntimeFloat.__qualname__ = "float"  # in the messages of Python


def operators(formula: Formula) -> int:
    """The number of operators."""
    return 1 + sum(map(operators, formula[1:])) if isinstance(formula, tuple) else 0


def names(formula: Formula) -> Iterator[str]:
    """The parameters, each as often as it stands there."""
    if isinstance(formula, str):
        yield formula
    elif isinstance(formula, tuple):
        for part in formula[1:]:
            yield from names(part)


def evaluate(formula: Formula, values: Mapping[str, float]) -> float:
    """The value for these parameters, computed as Python computes it. Raises what Python raises."""
    if isinstance(formula, str):
        return values[formula]
    if not isinstance(formula, tuple):
        return formula
    op, *parts = formula
    computed = [evaluate(part, values) for part in parts]
    return -computed[0] if len(computed) == 1 else OPERATORS[op](*computed)


def show(formula: Formula) -> str:
    """The formula as Python writes it, all parentheses and no spaces. Names that are no words stand in quotes."""
    if isinstance(formula, str):
        return formula if formula.isidentifier() and formula not in ("inf", "nan") else json.dumps(formula)
    if not isinstance(formula, tuple):
        return repr(formula)
    op, *parts = formula
    shown = [show(part) for part in parts]
    return f"(-{shown[0]})" if len(shown) == 1 else f"({shown[0]}{op}{shown[1]})"


_receivers: set[object] = set()


def receives_floats(function: F) -> F:
    """Decorator of a function of the toolchain that passes run-time floats on to instructions, and uses no value."""
    _receivers.add(function)
    return function


def is_receiver(callee: object) -> bool:
    """True if ``callee`` is such a function itself; a function that wraps one has its attributes, and is none."""
    return type(callee) is FunctionType and callee in _receivers


def settled(value: Any) -> Any:
    """The value of a :class:`RuntimeFloat`, for which the kernel is then compiled; anything else as it is."""
    return value.plain() if type(value) is RuntimeFloat else value


def dependent(formulas: Iterable[Formula], taken: Iterable[str]) -> set[str]:
    """``taken``, and all parameters that stand in a formula with one of them, and so on."""
    found = set(taken)
    groups = [set(names(formula)) for formula in formulas]
    while new := [group for group in groups if group & found and not group <= found]:
        found.update(*new)
    return found


__all__ = [
    "LARGEST",
    "OPERATORS",
    "FloatSpec",
    "Formula",
    "RuntimeFloat",
    "Uses",
    "dependent",
    "evaluate",
    "is_receiver",
    "names",
    "operators",
    "receives_floats",
    "settled",
    "show",
]
