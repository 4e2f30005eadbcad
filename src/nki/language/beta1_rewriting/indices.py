"""Index expressions of NKI Beta 1 as formulas, and the slices that they are.

``nl.arange(128)[:, None]`` is a variable that runs through one axis of a tile. An index is a polynomial plus variables
times whole steps; a mask bounds variables. Both come from the source code alone, so the slices keep the user's names.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from nki.frontend.site import keys_of
from nki.source_text.names import Names
from nki.source_text.polynomial import Polynomial, largest, smallest
from nki.source_text.source import names_in, one_line


@dataclass(frozen=True, slots=True)
class Variable:
    """One axis of an index tile: it runs from 0 to ``size`` along ``axis``, which counts from the last one, -1.

    Index tiles are broadcast, so two variables of one axis and size are the same. ``axis`` 0: ``nl.arange(n)`` itself.
    """

    size: Polynomial
    axis: int = 0
    ndim: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class Index:
    """``base`` plus each variable times its step."""

    base: Polynomial
    steps: tuple[tuple[Variable, Polynomial], ...] = ()
    name: str = field(default="", compare=False)
    """The variable of the new code that holds this index as a slice."""
    choice: tuple[str, Index, Index] | None = field(default=None, compare=False)
    """A condition, and the indices that this one is where it holds and where not."""

    def plus(self, other: Index) -> Index:
        if self.choice is not None and not other.steps:
            test, yes, no = self.choice
            return replace(self._sum(other), choice=(test, yes.plus(other), no.plus(other)))
        return self._sum(other)

    def _sum(self, other: Index) -> Index:
        steps: dict[Variable, Polynomial] = dict(self.steps)
        for variable, step in other.steps:
            steps[variable] = steps.get(variable, Polynomial()) + step
        return Index(self.base + other.base, tuple((v, s) for v, s in steps.items() if s.terms))

    def times(self, factor: Polynomial) -> Index:
        product = Index(self.base * factor, tuple((variable, step * factor) for variable, step in self.steps))
        if self.choice is None:
            return product
        test, yes, no = self.choice
        return replace(product, choice=(test, yes.times(factor), no.times(factor)))

    @property
    def ndim(self) -> int:
        return max((variable.ndim for variable, _ in self.steps), default=0)


@dataclass(frozen=True, slots=True)
class Comparison:
    """``index < 0`` (``op`` "<"), ``index <= 0`` or ``index == 0``, of the difference of the two sides."""

    index: Index
    op: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Mask:
    """A conjunction of comparisons."""

    parts: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """The result of ``nl.mgrid[…]``: one index per axis."""

    indices: tuple[Index, ...]


@dataclass(slots=True)
class Bounds:
    """The part of each variable's range that a mask lets through, and the conditions that no variable is in."""

    lower: dict[Variable, list[Polynomial]] = field(default_factory=dict[Variable, list[Polynomial]])
    upper: dict[Variable, list[Polynomial]] = field(default_factory=dict[Variable, list[Polynomial]])
    conditions: list[str] = field(default_factory=list[str])
    several: list[Comparison] = field(default_factory=list[Comparison])

    def start(self, variable: Variable) -> list[Polynomial]:
        return [Polynomial(), *self.lower.get(variable, ())]

    def stop(self, variable: Variable) -> list[Polynomial]:
        return [variable.size, *self.upper.get(variable, ())]

    @property
    def restrict(self) -> bool:
        """True if a variable is bounded at all."""
        return bool(self.lower or self.upper)

    def restricts(self, variable: Variable) -> bool:
        return variable in self.lower or variable in self.upper

    def extent(self, variable: Variable) -> str:
        """The number of elements along ``variable`` that remain."""
        if variable in self.lower:
            stop, start = smallest(self.stop(variable)), largest(self.start(variable))
            return stop if start == "0" else f"{stop} - {start}"
        return smallest(self.stop(variable))


Value = Index | Mask | Grid


def without(value: Any, fixed: Sequence[tuple[Variable, Polynomial]]) -> Any:
    """A value with numbers in place of the variables in ``fixed``: one after the other, each is an axis less."""
    for variable, number in fixed:
        match value:
            case Index():
                value = _without_axis(value, variable, number)
            case Mask(parts=parts):
                left = [Comparison(_without_axis(part.index, variable, number), part.op, part.text) for part in parts]
                value = Mask(tuple(left))
            case Grid(indices=indices):
                value = Grid(tuple(_without_axis(index, variable, number) for index in indices))
            case _:
                pass
    return value


def _without_axis(index: Index, fixed: Variable, number: Polynomial) -> Index:
    base = index.base
    steps: list[tuple[Variable, Polynomial]] = []
    for variable, step in index.steps:
        if variable == fixed:
            base += number * step
        else:
            axis = variable.axis + (variable.axis < fixed.axis)
            steps.append((Variable(variable.size, axis, variable.ndim - (-fixed.axis <= variable.ndim)), step))
    return Index(base, tuple(steps))


_AXES: Final = "pxyzw"
"""The names of the axes of a grid of indices."""
_NEW_AXIS: Final = ("None", "np.newaxis", "nl.newaxis")


class Evaluator:
    """Evaluates expressions as indices, with the values that names have at this point of the function."""

    def __init__(
        self,
        names: Names,
        values: Mapping[str, Value],
        grid: dict[int, str] | None = None,
        fixed: Sequence[tuple[Variable, Polynomial]] = (),
    ) -> None:
        self.names = names
        self.values = values
        self.fixed = fixed
        """Axes that loops of the new code run through."""
        self.grid = grid
        """The axes of the launch grid that are asked for; None where programs stay programs."""

    def evaluate(self, node: ast.expr) -> Value | None:
        """The index, mask or grid that an expression is; None where it is neither, also for plain numbers."""
        value = self._any(node)
        if isinstance(value, Index) and not value.steps:
            return None
        if isinstance(value, Mask) and not any(part.index.steps for part in value.parts):
            return None
        return value

    def mask(self, node: ast.expr) -> Mask | None:
        """A mask, or a condition of plain numbers; None where it is known as neither."""
        value = self._any(node)
        if isinstance(value, Index) and not value.steps:
            return Mask((Comparison(value, "if", one_line(node)),))
        return value if isinstance(value, Mask) else None

    def index(self, node: ast.expr) -> Index | None:
        """The index of one dimension; plain numbers count."""
        value = self._any(node)
        return value if isinstance(value, Index) else None

    def polynomial(self, node: ast.expr) -> Polynomial:
        """A plain number as a polynomial over its source text."""
        value = self._any(node)
        if isinstance(value, Index) and not value.steps:
            return value.base
        return Polynomial.of(one_line(node))

    def _any(self, node: ast.expr) -> Value | None:
        match node:
            case ast.Slice():
                return None
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return Index(Polynomial.of(number))
            case ast.Name(id=name):
                return without(self.values[name], self.fixed) if name in self.values else Index(Polynomial.of(name))
            case ast.Call():
                return self._call(node)
            case ast.Subscript():
                return self._subscript(node)
            case ast.Attribute(value=ast.Name(id=name), attr=axis) if name in self.values:
                grid = self.values[name]
                known = isinstance(grid, Grid) and axis in _AXES and _AXES.index(axis) < len(grid.indices)
                return without(cast("Grid", grid).indices[_AXES.index(axis)], self.fixed) if known else None
            case ast.BinOp():
                return self._binary(node)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                value = self._any(inner)
                return value.times(Polynomial.of(-1)) if isinstance(value, Index) else None
            case ast.Compare():
                return self._comparison(node)
            case _:
                return self._opaque(node)

    def _opaque(self, node: ast.expr) -> Index | None:
        """An expression as one piece of text; None if an index or mask is named in it."""
        return None if names_in(node) & self.values.keys() else Index(Polynomial.of(one_line(node)))

    def _call(self, node: ast.Call) -> Value | None:
        full = self.names.full(node.func)
        if full == "nki.language.arange" and node.args and not any(isinstance(arg, ast.Starred) for arg in node.args):
            bounds = [self.polynomial(arg) for arg in node.args]
            start = bounds[0] if len(bounds) > 1 else Polynomial()
            stop = bounds[1] if len(bounds) > 1 else bounds[0]
            return Index(start, ((Variable(stop - start), Polynomial.of(1)),))
        program = full in ("nki.language.program_id", "nki.language.num_programs")
        if program and self.grid is not None:
            axis = one_line([*node.args, *(k.value for k in node.keywords)][0]) if node.args or node.keywords else "0"
            if not axis.isdigit():
                return None
            self.grid[int(axis)] = full
            return Index(Polynomial.of(f"program_{axis}" if full.endswith("id") else f"grid[{axis}]"))
        if full == "nki.language.par_dim" and node.args:
            return self._any(node.args[0])
        return None if full.startswith(("nki.language.", "nki.isa.")) and not program else self._opaque(node)

    def _subscript(self, node: ast.Subscript) -> Value | None:
        if self.names.full(node.value) == "nki.language.mgrid":
            return self._mgrid(node)
        named = names_in(node.value) & self.values.keys()
        value = self._any(node.value) if named or isinstance(node.value, ast.Call | ast.Subscript) else None
        if isinstance(value, Grid):
            position = self.polynomial(keys_of(node)[0]).constant
            known = position is not None and -len(value.indices) <= position < len(value.indices)
            return value.indices[cast("int", position)] if known else None
        if isinstance(value, Index) and len(value.steps) == 1 and value.steps[0][0].axis == 0:
            return self._spread(value, node)
        if value is None or (isinstance(value, Index) and not value.steps):
            return self._opaque(node)
        return None

    def _spread(self, value: Index, node: ast.Subscript) -> Index | None:
        """``nl.arange(n)[None, :]``: the variable on its axis."""
        keys = keys_of(node)
        axes = [axis for axis, key in enumerate(keys) if isinstance(key, ast.Slice)]
        plain = all(
            not (key.lower or key.upper or key.step) if isinstance(key, ast.Slice) else one_line(key) in _NEW_AXIS
            for key in keys
        )
        if len(axes) != 1 or not plain:
            return None
        [(variable, step)] = value.steps
        spread = Variable(variable.size, axes[0] - len(keys), len(keys))
        return without(Index(value.base, ((spread, step),)), self.fixed)

    def _mgrid(self, node: ast.Subscript) -> Grid | None:
        indices: list[Index] = []
        keys = keys_of(node)
        for axis, key in enumerate(keys):
            if not isinstance(key, ast.Slice) or key.upper is None or key.step is not None:
                return None
            start = self.polynomial(key.lower) if key.lower is not None else Polynomial()
            variable = Variable(self.polynomial(key.upper) - start, axis - len(keys), len(keys))
            indices.append(Index(start, ((variable, Polynomial.of(1)),)))
        return without(Grid(tuple(indices)), self.fixed)

    def _binary(self, node: ast.BinOp) -> Value | None:
        left, right = self._any(node.left), self._any(node.right)
        if isinstance(node.op, ast.BitAnd) and (isinstance(left, Mask) or isinstance(right, Mask)):
            first, second = self.mask(node.left), self.mask(node.right)
            return Mask((*first.parts, *second.parts)) if first is not None and second is not None else None
        if not isinstance(left, Index) or not isinstance(right, Index):
            return None
        match node.op:
            case ast.Add():
                return left.plus(right)
            case ast.Sub():
                return left.plus(right.times(Polynomial.of(-1)))
            case ast.Mult() if not left.steps or not right.steps:
                return right.times(left.base) if right.steps else left.times(right.base)
            case _ if not left.steps and not right.steps:
                return Index(Polynomial.of(one_line(node)))
            case _:
                return None

    def _comparison(self, node: ast.Compare) -> Mask | None:
        if len(node.ops) != 1 or type(node.ops[0]) not in _COMPARED:
            return None
        left, right = self._any(node.left), self._any(node.comparators[0])
        if not isinstance(left, Index) or not isinstance(right, Index):
            return None
        op, swapped = _COMPARED[type(node.ops[0])]
        left, right = (right, left) if swapped else (left, right)
        return Mask((Comparison(left.plus(right.times(Polynomial.of(-1))), op, one_line(node)),))


_COMPARED: Final[dict[type[ast.cmpop], tuple[str, bool]]] = {
    ast.Lt: ("<", False), ast.LtE: ("<=", False), ast.Gt: ("<", True), ast.GtE: ("<=", True), ast.Eq: ("==", False),
    ast.NotEq: ("!=", False),
}  # fmt: skip
"""The comparison with 0 of the difference of two sides, and whether they change places."""


def bounds_of(mask: Mask) -> Bounds:
    """The bounds that a mask sets to each variable; conditions of several variables are left in ``several``."""
    bounds = Bounds()
    for part in mask.parts:
        steps = list(part.index.steps)
        if not steps:
            bounds.conditions.append(part.text)
            continue
        variable, step = steps[0]
        if len(steps) > 1 or part.op == "!=" or not step.constant:
            bounds.several.append(part)
        else:
            _bound(bounds, part, variable, step.constant)
    return bounds


def nonempty(bounds: Bounds, loose: set[str]) -> list[str]:
    """The conditions on free numbers, ``loose``, without which a mask lets nothing through: slices cannot say that."""
    found: list[str] = []
    for limits, sign, sizes in ((bounds.upper, 1, False), (bounds.lower, -1, True)):
        for variable, values in limits.items():
            for value in values:
                names = [factors for factors, _ in value.terms if factors]
                if len(names) == 1 and len(names[0]) == 1 and names[0][0] in loose:
                    rest = variable.size if sizes else Polynomial()
                    left = Polynomial(tuple(term for term in value.terms if term[0]))
                    limit = rest - (value - left)
                    found.append(f"{left.text} {'>' if sign > 0 else '<'} {limit.text}")
    return found


def _bound(bounds: Bounds, part: Comparison, variable: Variable, step: int) -> None:
    """``step * variable + base < 0`` (or ``<= 0``, ``== 0``) as a limit of ``variable``."""
    base = part.index.base
    size = abs(step)
    if part.op == "==":
        if size != 1:
            bounds.several.append(part)
            return
        place = -base if step > 0 else base
        bounds.lower.setdefault(variable, []).append(place)
        bounds.upper.setdefault(variable, []).append(place + 1)
    elif step > 0:  # variable < -base / step
        limit = -base + (1 if part.op == "<=" else 0)
        stop = _ceiling(limit, size)
        known = stop - variable.size
        if known.constant is None or known.constant < 0:
            bounds.upper.setdefault(variable, []).append(stop)
    else:  # variable > base / size
        limit = base + (0 if part.op == "<=" else 1)
        start = _ceiling(limit, size)
        if start.constant is None or start.constant > 0:
            bounds.lower.setdefault(variable, []).append(start)


def _ceiling(value: Polynomial, divisor: int) -> Polynomial:
    """``value / divisor``, rounded up."""
    if divisor == 1:
        return value
    if value.constant is not None:
        return Polynomial.of(-(-value.constant // divisor))
    return Polynomial.of(f"({(value + (divisor - 1)).text}) // {divisor}")


def sliced(index: Index, bounds: Bounds) -> tuple[str, Variable] | None:
    """The slice that an index of one variable is, within ``bounds``; None for other indices."""
    if len(index.steps) != 1:
        return None
    variable, by = index.steps[0]
    if index.name and not bounds.restricts(variable):
        return index.name, variable
    step = by.constant
    if step is None and by.text.endswith(".step") and not bounds.restricts(variable):  # of a slice with a name
        return f"{index.base.text}:{(index.base + (variable.size - 1) * by + 1).text}:{by.text}", variable
    if step is None or step <= 0:
        return None
    lower = largest(index.base + start * step for start in bounds.start(variable))
    if step == 1:
        upper = smallest(index.base + stop for stop in bounds.stop(variable))
        return f"{lower}:{upper}", variable
    upper = smallest(index.base + (stop - 1) * step + 1 for stop in bounds.stop(variable))
    return f"{lower}:{upper}:{step}", variable


def as_slice(index: Index) -> str | None:
    """The code of a slice object for an index of one variable; None for other indices."""
    found = sliced(index, Bounds())
    return f"slice({', '.join(found[0].split(':'))})" if found is not None and ":" in found[0] else None


def chosen(name: str, test: str, yes: Index, no: Index) -> tuple[str, Index] | None:
    """The code of ``yes if test else no`` as slices, and the index that the variable ``name`` then is; None if none."""
    if yes.choice is not None and yes.choice[0] == test:
        yes = yes.choice[1]
    if no.choice is not None and no.choice[0] == test:
        no = no.choice[2]
    slices = as_slice(yes), as_slice(no)
    if None in slices or yes.steps[0][0] != no.steps[0][0]:
        return None
    variable, step = yes.steps[0]
    step = step if step == no.steps[0][1] else Polynomial.of(f"{name}.step")
    index = Index(Polynomial.of(f"{name}.start"), ((variable, step),), name, (test, yes, no))
    if step.constant is None and "1" in (yes.steps[0][1].text, no.steps[0][1].text):
        slices = tuple(text if text.count(",") == 2 else f"{text[:-1]}, 1)" for text in map(str, slices))
    return f"{slices[0]} if {test} else {slices[1]}", index


def index_of_slice(name: str, kind: str) -> Index | None:
    """The index that a variable is which holds a slice of step 1; ``kind`` is what a run noted: "index -2 of 2"."""
    words = kind.split()
    if words[:1] != ["index"] or len(words) != 4:
        return None
    size = Polynomial.of(f"{name}.stop") - Polynomial.of(f"{name}.start")
    variable = Variable(size, int(words[1]), int(words[3]))
    return Index(Polynomial.of(f"{name}.start"), ((variable, Polynomial.of(1)),), name)


__all__ = [
    "Bounds", "Comparison", "Evaluator", "Grid", "Index", "Mask", "Value", "Variable", "as_slice",
    "bounds_of", "chosen", "index_of_slice", "nonempty", "sliced",
    "without",
]  # fmt: skip
