"""Idioms of meta-programming that emit instructions: each takes ``emit``, and calls it with small numbers in an order.

In plain Python ``emit`` appends to a list; in a kernel each call records one instruction. They are written as people
write them, not as a linter would. Each adds a construct of the syntax, or a line of the frontend that runs, which the
others have not: what only exercises Python's own library is not here.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import operator
import typing
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

EMITTING: list[Any] = []
Emit = Callable[[int], Any]


def emitting(function: Any) -> Any:
    """Decorator of an idiom."""
    EMITTING.append(function)
    return function


# Generators and iterators


@emitting
def generator_returns_a_value(emit: Emit) -> None:
    def part() -> Any:
        emit((yield 1))
        return 7

    def whole() -> Any:
        emit((yield from part()))

    one = whole()
    emit(next(one))
    with contextlib.suppress(StopIteration):
        one.send(5)


@emitting
def recursive_generator(emit: Emit) -> None:
    def leaves(tree: Any) -> Iterator[int]:
        if isinstance(tree, int):
            yield tree
        else:
            for child in tree:
                yield from leaves(child)

    for leaf in leaves([1, [2, [3, 4]], 5]):
        emit(leaf)


@emitting
def sequence_protocol(emit: Emit) -> None:
    class Squares:
        def __getitem__(self, i: int) -> int:
            if i >= 4:
                raise IndexError(i)
            emit(i)
            return i * i

    for n in Squares():
        emit(n)


@emitting
def batched_by_zip_of_one_iterator(emit: Emit) -> None:
    for a, b in zip(*[iter(range(6))] * 2, strict=True):
        emit(a * 10 + b)


@emitting
def enumerate_from_one_with_else(emit: Emit) -> None:
    for i, n in enumerate((5, 6), start=1):
        emit(i * n)
    else:
        emit(0)


@emitting
def while_else(emit: Emit) -> None:
    n = 3
    while n:
        n -= 1
        if n == 1:
            continue
        emit(n)
    else:
        emit(50)


@emitting
def nested_breaks(emit: Emit) -> None:
    for i in range(3):
        for j in range(3):
            if j > i:
                break
            if (i + j) % 2:
                continue
            emit(i * 10 + j)


@emitting
def map_emits_lazily(emit: Emit) -> None:
    lazy = map(lambda n: emit(n) or n * 2, range(3))  # noqa: C417
    emit(50)
    for n in lazy:
        emit(n)


@emitting
def comprehension_emits(emit: Emit) -> None:
    _ = [emit(i + j) for i in range(2) for j in range(3) if i != j]


@emitting
def dict_comprehension_emits(emit: Emit) -> None:
    table = {k: emit(v) or v for k, v in {"a": 4, "b": 5}.items()}
    emit(sum(table.values()))


# Context managers


@emitting
def context_manager_as_a_decorator(emit: Emit) -> None:
    class Traced(contextlib.ContextDecorator):
        def __enter__(self) -> Any:
            emit(1)
            return self

        def __exit__(self, *exc: object) -> None:
            emit(3)

    @Traced()
    def body(n: int) -> None:
        emit(n)

    body(2)


@emitting
def exit_stack(emit: Emit) -> None:
    with contextlib.ExitStack() as stack:
        for n in range(3):
            stack.callback(emit, n)
        emit(10)


@emitting
def context_manager_swallows(emit: Emit) -> None:
    class Swallow:
        def __enter__(self) -> None:
            emit(1)

        def __exit__(self, *exc: object) -> bool:
            emit(2 if exc[0] is KeyError else 3)
            return True

    with Swallow():
        raise KeyError
    with Swallow():
        pass


@emitting
def null_context(emit: Emit) -> None:
    for flag in (True, False):
        with contextlib.nullcontext(4) if flag else contextlib.nullcontext(5) as n:
            emit(n)


# Exceptions


@emitting
def exception_of_the_users(emit: Emit) -> None:
    class TooLarge(Exception):
        def __init__(self, n: int) -> None:
            super().__init__(n)
            self.n = n

    def check(n: int) -> None:
        if n > 2:
            raise TooLarge(n)
        emit(n)

    for n in range(5):
        try:
            check(n)
        except TooLarge as error:
            emit(10 * error.n)


@emitting
def finally_returns(emit: Emit) -> None:
    def f(n: int) -> int:
        try:
            if n:
                return n
            return 5
        finally:
            emit(n + 10)

    emit(f(0))
    emit(f(3))


@emitting
def assertion_is_caught(emit: Emit) -> None:
    for n in (1, 2):
        try:
            assert n > 1, n
        except AssertionError as error:
            emit(error.args[0])
        else:
            emit(n * 5)


# Classes


@emitting
def operators_build_a_graph(emit: Emit) -> None:
    class Node:
        def __init__(self, op: str, *inputs: Any) -> None:
            self.op, self.inputs = op, inputs

        def __add__(self, other: Any) -> Node:
            return Node("+", self, other)

        def __mul__(self, other: Any) -> Node:
            return Node("*", self, other)

        def lower(self) -> int:
            values = [i.lower() if isinstance(i, Node) else i for i in self.inputs]
            result = {"+": sum, "*": lambda v: v[0] * v[1], "c": lambda v: v[0]}[self.op](values)
            emit(result)
            return result

    (Node("c", 2) + Node("c", 3) * Node("c", 4)).lower()


@emitting
def visitor_by_method_name(emit: Emit) -> None:
    class Visitor:
        def visit(self, node: Any) -> None:
            getattr(self, f"visit_{type(node).__name__}", self.other)(node)

        def visit_int(self, n: int) -> None:
            emit(n)

        def visit_list(self, nodes: list[Any]) -> None:
            for node in nodes:
                self.visit(node)

        def other(self, node: Any) -> None:
            emit(len(str(node)))

    Visitor().visit([1, ["ab", 3], None])


@emitting
def properties_that_emit(emit: Emit) -> None:
    class Lazy:
        def __init__(self) -> None:
            self.made = 0

        @property
        def tile(self) -> int:
            if not self.made:
                emit(7)
                self.made = 8
            return self.made

    lazy = Lazy()
    emit(lazy.tile)
    emit(lazy.tile)


@emitting
def subclasses_register_themselves(emit: Emit) -> None:
    class Plugin:
        known: typing.ClassVar[dict[str, Any]] = {}

        def __init_subclass__(cls, code: int = 0) -> None:
            Plugin.known[cls.__name__] = code

    class Relu(Plugin, code=4):
        pass

    class Gelu(Plugin, code=6):
        pass

    for name in sorted(Plugin.known):
        emit(Plugin.known[name])


@emitting
def descriptor(emit: Emit) -> None:
    class Checked:
        def __set_name__(self, owner: Any, name: str) -> None:
            self.name = f"_{name}"

        def __get__(self, one: Any, owner: Any = None) -> int:
            return getattr(one, self.name)

        def __set__(self, one: Any, n: int) -> None:
            emit(n)
            setattr(one, self.name, min(n, 8))

    class Tile:
        rows = Checked()

        def __init__(self, rows: int) -> None:
            self.rows = rows

    emit(Tile(20).rows)


@emitting
def slots_and_equality(emit: Emit) -> None:
    class Point:
        __slots__ = ("x",)

        def __init__(self, x: int) -> None:
            self.x = x

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Point) and other.x == self.x

        def __hash__(self) -> int:
            return hash(self.x)

    emit(len({Point(1), Point(1), Point(2)}))


@emitting
def frozen_dataclass_replaced(emit: Emit) -> None:
    @dataclasses.dataclass(frozen=True)
    class Shape:
        rows: int = 2
        columns: int = 3
        tags: tuple[int, ...] = ()

    shape = dataclasses.replace(Shape(), columns=5, tags=(1, 2))
    for value in dataclasses.astuple(shape)[:2]:
        emit(value)
    emit(sum(shape.tags))


@emitting
def enumeration_with_behaviour(emit: Emit) -> None:
    class Op(enum.Enum):
        ADD = 1
        MULTIPLY = 2

        def apply(self, a: int, b: int) -> int:
            return a + b if self is Op.ADD else a * b

    for op in Op:
        emit(op.apply(3, 4))


@emitting
def flags_are_combined(emit: Emit) -> None:
    class Mode(enum.IntFlag):
        LOAD = 1
        COMPUTE = 2
        STORE = 4

    mode = Mode.LOAD | Mode.STORE
    for bit in Mode:
        emit(int(bit in mode))


@emitting
def state_machine_of_bound_methods(emit: Emit) -> None:
    class Machine:
        def __init__(self) -> None:
            self.state = self.load
            self.left = 2

        def load(self) -> None:
            emit(1)
            self.state = self.compute

        def compute(self) -> None:
            emit(2)
            self.left -= 1
            self.state = self.load if self.left else None  # type: ignore[assignment]

    machine = Machine()
    while machine.state:
        machine.state()


# Functions


@emitting
def memoised_recursion(emit: Emit) -> None:
    @functools.cache
    def fib(n: int) -> int:
        emit(n)
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    emit(fib(6))


@emitting
def default_that_is_shared(emit: Emit) -> None:
    def collect(n: int, seen: list[int] = []) -> int:  # noqa: B006
        seen.append(n)
        return len(seen)

    emit(collect(1))
    emit(collect(2))
    emit(collect(3, []))


@emitting
def table_of_functions(emit: Emit) -> None:
    table = {"add": operator.add, "mul": operator.mul, "neg": lambda a, b: a - b}
    for name in ("add", "mul", "neg"):
        emit(table[name](7, 3))


@emitting
def keyword_only_and_positional_only(emit: Emit) -> None:
    def f(a: int, /, b: int, *, c: int = 5, **rest: int) -> int:
        return a + 2 * b + 3 * c + sum(rest.values())

    emit(f(1, 2))
    emit(f(1, b=2, c=3, d=4))
    emit(f(*[1], b=2))


@emitting
def trampoline(emit: Emit) -> None:
    def step(n: int) -> Any:
        emit(n)
        return (lambda: step(n - 2)) if n > 1 else n

    result: Any = step(5)
    while callable(result):
        result = result()
    emit(result)


@emitting
def continuation_passing(emit: Emit) -> None:
    def divide(a: int, b: int, good: Any, bad: Any) -> None:
        good(a // b) if b else bad(a)

    divide(8, 2, emit, lambda a: emit(-a))
    divide(3, 0, emit, lambda a: emit(100 + a))


# Data that decides


@emitting
def pattern_matching_of_a_program(emit: Emit) -> None:
    program: list[Any] = [("add", 1, 2), {"op": "mul", "args": [3, 4]}, ["loop", 2, ("add", 5, 5)], 7, None]

    def run(node: Any) -> None:
        match node:
            case ("add", int(a), int(b)):
                emit(a + b)
            case {"op": "mul", "args": [a, b]}:
                emit(a * b)
            case ["loop", n, *body] if n > 0:
                for _ in range(n):
                    for one in body:
                        run(one)
            case int() | float():
                emit(node)
            case _:
                emit(0)

    for node in program:
        run(node)


@emitting
def matching_of_classes(emit: Emit) -> None:
    @dataclasses.dataclass
    class Box:
        width: int
        height: int

    for box in (Box(2, 2), Box(2, 3), Box(0, 4)):
        match box:
            case Box(width=0):
                emit(0)
            case Box(w, h) if w == h:
                emit(w * w)
            case Box(width=w, height=h):
                emit(w + h)


@emitting
def walrus_in_conditions(emit: Emit) -> None:
    data = [4, 1, 3]
    while (n := len(data)) > 0 and (top := data.pop()) < 4:
        emit(n * top)


@emitting
def topological_order(emit: Emit) -> None:
    needs = {3: {1, 2}, 2: {1}, 1: set(), 4: {3}}
    done: list[int] = []
    while len(done) < len(needs):
        for node in sorted(needs):
            if node not in done and needs[node] <= set(done):
                done.append(node)
                emit(node)


@emitting
def tiles_of_a_shape(emit: Emit) -> None:
    shape, tile = (5, 7), (2, 3)
    for corner in itertools.product(*(range(0, n, t) for n, t in zip(shape, tile, strict=True))):
        sizes = [min(t, n - c) for c, n, t in zip(corner, shape, tile, strict=True)]
        emit(sizes[0] * 10 + sizes[1])


@emitting
def numpy_decides(emit: Emit) -> None:
    table = np.arange(12).reshape(3, 4)
    for row in table[::2, 1:3]:
        emit(int(row.sum()))
    emit(int(np.argmax(table % 7)))


@emitting
def format_and_parse(emit: Emit) -> None:
    emit(int(f"{5:03b}"[::-1], 2))
    emit(len("{:>{width}}".format("x", width=6)))


@emitting
def copies_are_independent(emit: Emit) -> None:
    base = {"sizes": [1, 2]}
    shallow, deep = copy.copy(base), copy.deepcopy(base)
    base["sizes"].append(3)
    emit(len(shallow["sizes"]))
    emit(len(deep["sizes"]))


@emitting
def text_that_eval_computes(emit: Emit) -> None:
    emit(eval("rows * columns", {"rows": 3, "columns": 5}))
    space: dict[str, Any] = {}
    exec("def f(n):\n    return n + 1", space)
    emit(space["f"](8))


@emitting
def observer_pattern(emit: Emit) -> None:
    class Event:
        def __init__(self) -> None:
            self.listeners: list[Any] = []

        def __iadd__(self, listener: Any) -> typing.Self:
            self.listeners.append(listener)
            return self

        def __call__(self, n: int) -> None:
            for listener in self.listeners:
                listener(n)

    event = Event()
    event += emit
    event += lambda n: emit(n * n)
    event(3)
