"""Idioms of meta-programming that emit instructions: each takes ``emit``, and calls it with small numbers in an order.

In plain Python ``emit`` appends to a list; in a kernel each call records one instruction. They are written as people
write them, not as a linter would.
"""
# ruff: noqa: B023
# ruff: noqa: UP028

from __future__ import annotations

import abc
import collections
import contextlib
import contextvars
import copy
import dataclasses
import enum
import functools
import heapq
import itertools
import operator
import random
import re
import statistics
import types
import typing
import weakref
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
def generator_emits_between_yields(emit: Emit) -> None:
    def stages() -> Iterator[int]:
        emit(1)
        yield 10
        emit(2)
        yield 20
        emit(3)

    for value in stages():
        emit(value)


@emitting
def two_generators_take_turns(emit: Emit) -> None:
    def load(n: int) -> Iterator[int]:
        for i in range(n):
            emit(i)
            yield i

    def compute(source: Iterator[int]) -> Iterator[int]:
        for i in source:
            emit(10 + i)
            yield i

    for i in compute(load(3)):
        emit(20 + i)


@emitting
def software_pipeline_of_generators(emit: Emit) -> None:
    def stage(i: int) -> Iterator[None]:
        emit(i)
        yield
        emit(10 + i)
        yield
        emit(20 + i)

    waiting = collections.deque(stage(i) for i in range(4))
    active: list[Iterator[None]] = []
    while waiting or active:
        if waiting:
            active.append(waiting.popleft())
        active = [one for one in active if next(one, "end") is None]


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
def generator_is_closed_early(emit: Emit) -> None:
    def source() -> Iterator[int]:
        try:
            for i in itertools.count():
                yield i
        finally:
            emit(99)

    one = source()
    for i in one:
        emit(i)
        if i == 2:
            break
    one.close()


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
def iterator_class(emit: Emit) -> None:
    class Countdown:
        def __init__(self, n: int) -> None:
            self.n = n

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            emit(100 + self.n)
            return self.n

    for n in Countdown(3):
        emit(n)


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
def iter_with_a_sentinel(emit: Emit) -> None:
    stack = [3, 0, 2, 1]
    for n in iter(stack.pop, 0):
        emit(n)


@emitting
def tee_and_pairwise(emit: Emit) -> None:
    one, other = itertools.tee(range(3))
    for a, b in zip(one, itertools.islice(other, 1, None), strict=False):
        emit(a * 10 + b)


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
def for_else_after_break(emit: Emit) -> None:
    for n in range(5):
        if n * n > 5:
            emit(n)
            break
    else:
        emit(99)


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
def filter_emits(emit: Emit) -> None:
    def odd(n: int) -> bool:
        emit(n)
        return n % 2 == 1

    emit(sum(filter(odd, range(4))))


@emitting
def comprehension_emits(emit: Emit) -> None:
    _ = [emit(i + j) for i in range(2) for j in range(3) if i != j]


@emitting
def dict_comprehension_emits(emit: Emit) -> None:
    table = {k: emit(v) or v for k, v in {"a": 4, "b": 5}.items()}
    emit(sum(table.values()))


@emitting
def generator_expression_is_consumed_twice(emit: Emit) -> None:
    numbers = (n for n in (1, 2, 3))
    emit(sum(numbers))
    emit(sum(numbers))


# Context managers


@emitting
def context_manager_brackets(emit: Emit) -> None:
    class Scope:
        def __init__(self, n: int) -> None:
            self.n = n

        def __enter__(self) -> int:
            emit(self.n)
            return self.n * 2

        def __exit__(self, *exc: object) -> None:
            emit(self.n * 3)

    with Scope(1) as a, Scope(2) as b:
        emit(a + b)


@emitting
def context_manager_from_a_generator(emit: Emit) -> None:
    @contextlib.contextmanager
    def scope(n: int) -> Iterator[int]:
        emit(n)
        try:
            yield n + 1
        finally:
            emit(n + 2)

    with scope(10) as n:
        emit(n)


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
def closing(emit: Emit) -> None:
    class Resource:
        def close(self) -> None:
            emit(2)

    with contextlib.closing(Resource()):
        emit(1)


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


@emitting
def context_variable(emit: Emit) -> None:
    depth: contextvars.ContextVar[int] = contextvars.ContextVar("depth", default=0)

    def nested(n: int) -> None:
        token = depth.set(depth.get() + 1)
        emit(depth.get())
        if n:
            nested(n - 1)
        depth.reset(token)

    nested(2)
    emit(depth.get())


# Exceptions


@emitting
def exception_chooses_a_path(emit: Emit) -> None:
    for n in (1, 0):
        try:
            emit(6 // n)
        except ZeroDivisionError:
            emit(0)
        else:
            emit(2)
        finally:
            emit(3)


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
def exception_is_chained(emit: Emit) -> None:
    try:
        try:
            raise KeyError(1)
        except KeyError as error:
            raise ValueError(2) from error
    except ValueError as error:
        emit(error.args[0])
        emit(error.__cause__.args[0])  # type: ignore[union-attr]


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
def finally_runs_on_continue_and_break(emit: Emit) -> None:
    for n in range(4):
        try:
            if n == 1:
                continue
            if n == 3:
                break
            emit(n)
        finally:
            emit(10 + n)


@emitting
def easier_to_ask_forgiveness(emit: Emit) -> None:
    config = {"rows": 4}
    for key in ("rows", "columns"):
        try:
            emit(config[key])
        except KeyError:
            emit(len(key))


@emitting
def exception_crosses_a_generator(emit: Emit) -> None:
    def source() -> Iterator[int]:
        try:
            yield 1
            yield 2
        except ValueError:
            emit(8)
            yield 9

    one = source()
    emit(next(one))
    emit(one.throw(ValueError()))


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
def template_method(emit: Emit) -> None:
    class Layer(abc.ABC):
        def run(self) -> None:
            emit(1)
            self.body()
            emit(2)

        @abc.abstractmethod
        def body(self) -> None: ...

    class Add(Layer):
        def body(self) -> None:
            emit(5)

    class AddTwice(Add):
        def body(self) -> None:
            super().body()
            super().body()

    Add().run()
    AddTwice().run()


@emitting
def diamond_of_mixins(emit: Emit) -> None:
    class Base:
        def go(self) -> None:
            emit(0)

    class Left(Base):
        def go(self) -> None:
            emit(1)
            super().go()

    class Right(Base):
        def go(self) -> None:
            emit(2)
            super().go()

    class Both(Left, Right):
        pass

    Both().go()


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
def callable_objects(emit: Emit) -> None:
    class Affine:
        def __init__(self, a: int, b: int) -> None:
            self.a, self.b = a, b

        def __call__(self, x: int) -> int:
            emit(x)
            return self.a * x + self.b

    emit(Affine(2, 1)(Affine(3, 0)(2)))


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
def cached_property_emits_once(emit: Emit) -> None:
    class Weights:
        @functools.cached_property
        def tile(self) -> int:
            emit(3)
            return 4

    w = Weights()
    emit(w.tile + w.tile)


@emitting
def property_with_a_setter(emit: Emit) -> None:
    class Register:
        _value = 0

        @property
        def value(self) -> int:
            return self._value

        @value.setter
        def value(self, n: int) -> None:
            emit(n)
            self._value = n

    r = Register()
    r.value = 3
    r.value += 4
    emit(r.value)


@emitting
def attributes_made_on_demand(emit: Emit) -> None:
    class Names:
        def __getattr__(self, name: str) -> int:
            emit(len(name))
            return len(name) * 2

    emit(Names().weight + Names().bias)


@emitting
def class_attributes_and_instances(emit: Emit) -> None:
    class Counter:
        count = 0

        def __init__(self) -> None:
            type(self).count += 1

    for _ in range(3):
        Counter()
    emit(Counter.count)


@emitting
def class_methods_are_factories(emit: Emit) -> None:
    class Config:
        def __init__(self, n: int) -> None:
            self.n = n

        @classmethod
        def small(cls) -> Any:
            return cls(2)

        @staticmethod
        def limit() -> int:
            return 9

    emit(Config.small().n)
    emit(Config.limit())


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
def metaclass_counts_methods(emit: Emit) -> None:
    class Meta(type):
        def __new__(mcs, name: str, bases: Any, space: dict[str, Any]) -> Any:
            made = super().__new__(mcs, name, bases, space)
            made.methods = sum(callable(v) for v in space.values())
            return made

    class Kernel(metaclass=Meta):
        def load(self) -> None: ...
        def store(self) -> None: ...

    emit(Kernel.methods)  # type: ignore[attr-defined]


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
def dataclass_with_order_and_post_init(emit: Emit) -> None:
    @dataclasses.dataclass(order=True)
    class Job:
        cost: int
        name: str = dataclasses.field(compare=False)
        twice: int = dataclasses.field(init=False, compare=False)

        def __post_init__(self) -> None:
            self.twice = self.cost * 2

    for job in sorted([Job(3, "a"), Job(1, "b")]):
        emit(job.twice)


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
def named_tuple_unpacked(emit: Emit) -> None:
    class Range(typing.NamedTuple):
        start: int
        stop: int

        @property
        def size(self) -> int:
            return self.stop - self.start

    start, stop = Range(2, 7)
    emit(start * stop)
    emit(Range(2, 7).size)


@emitting
def builder_with_chained_calls(emit: Emit) -> None:
    class Builder:
        def add(self, n: int) -> Builder:
            emit(n)
            return self

        def repeat(self, times: int, n: int) -> Builder:
            for _ in range(times):
                self.add(n)
            return self

    Builder().add(1).repeat(2, 3).add(5)


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
def decorator_counts_calls(emit: Emit) -> None:
    def counted(f: Any) -> Any:
        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            call.count += 1
            return f(*args, **kwargs)

        call.count = 0  # type: ignore[attr-defined]
        return call

    @counted
    def body(n: int, scale: int = 1) -> None:
        emit(n * scale)

    body(2)
    body(3, scale=4)
    emit(body.count)


@emitting
def decorator_with_arguments(emit: Emit) -> None:
    def repeated(times: int) -> Any:
        def decorate(f: Any) -> Any:
            def call(*args: Any) -> None:
                for _ in range(times):
                    f(*args)

            return call

        return decorate

    @repeated(times=3)
    @repeated(2)
    def body(n: int) -> None:
        emit(n)

    body(4)


@emitting
def closures_over_a_loop_variable(emit: Emit) -> None:
    late = [lambda: n for n in range(3)]
    early = [lambda n=n: n for n in range(3)]
    for f in (*late, *early):
        emit(f())


@emitting
def closure_with_nonlocal_state(emit: Emit) -> None:
    def counter() -> Callable[[], int]:
        n = 0

        def step() -> int:
            nonlocal n
            n += 1
            emit(n)
            return n

        return step

    one, other = counter(), counter()
    one()
    one()
    other()


@emitting
def composed_functions(emit: Emit) -> None:
    def compose(*functions: Any) -> Any:
        return functools.reduce(lambda f, g: lambda x: g(f(x)), functions)

    emit(compose(lambda x: x + 1, lambda x: x * 2, str, len)(6))


@emitting
def curried_by_partial(emit: Emit) -> None:
    def emit_all(a: int, b: int, *rest: int, scale: int = 1) -> None:
        for n in (a, b, *rest):
            emit(n * scale)

    functools.partial(functools.partial(emit_all, 1), 2, scale=3)(4)


@emitting
def partial_method(emit: Emit) -> None:
    class Engine:
        def issue(self, code: int, n: int) -> None:
            emit(code * 10 + n)

        add = functools.partialmethod(issue, 1)
        copy = functools.partialmethod(issue, 2)

    Engine().add(3)
    Engine().copy(4)


@emitting
def dispatch_on_type(emit: Emit) -> None:
    @functools.singledispatch
    def lower(x: Any) -> None:
        emit(99)

    @lower.register
    def _(x: int) -> None:
        emit(x)

    @lower.register
    def _(x: list) -> None:
        for item in x:
            lower(item)

    lower([1, [2], "x"])


@emitting
def memoised_recursion(emit: Emit) -> None:
    @functools.cache
    def fib(n: int) -> int:
        emit(n)
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    emit(fib(6))


@emitting
def mutual_recursion(emit: Emit) -> None:
    def even(n: int) -> bool:
        emit(n)
        return n == 0 or odd(n - 1)

    def odd(n: int) -> bool:
        emit(10 + n)
        return n != 0 and even(n - 1)

    even(4)


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
def starred_unpacking(emit: Emit) -> None:
    first, *middle, last = range(5)
    (a, b), *_ = [(1, 2), (3, 4)]
    for n in (first, *middle, last, a, b):
        emit(n)


@emitting
def swap_and_chained_assignment(emit: Emit) -> None:
    a = b = 3
    a, b = b + 1, a
    emit(a * 10 + b)


@emitting
def slices_as_values(emit: Emit) -> None:
    rows = slice(1, None, 2)
    for n in list(range(6))[rows]:
        emit(n)
    emit(rows.indices(6)[1])


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
def heap_schedules(emit: Emit) -> None:
    heap = [(5, "b"), (2, "a"), (9, "c")]
    heapq.heapify(heap)
    while heap:
        cost, name = heapq.heappop(heap)
        emit(cost)
        if name == "a":
            heapq.heappush(heap, (7, "d"))


@emitting
def default_dict_of_lists(emit: Emit) -> None:
    groups: dict[int, list[int]] = collections.defaultdict(list)
    for n in range(6):
        groups[n % 3].append(n)
    for key, members in groups.items():
        emit(key * 100 + sum(members))


@emitting
def tiles_of_a_shape(emit: Emit) -> None:
    shape, tile = (5, 7), (2, 3)
    for corner in itertools.product(*(range(0, n, t) for n, t in zip(shape, tile, strict=True))):
        sizes = [min(t, n - c) for c, n, t in zip(corner, shape, tile, strict=True)]
        emit(sizes[0] * 10 + sizes[1])


@emitting
def double_buffering(emit: Emit) -> None:
    buffers = itertools.cycle(range(2))
    pending: list[int] = []
    for i in range(4):
        pending.append(next(buffers))
        if len(pending) == 2:
            emit(10 * i + pending.pop(0))
    for b in pending:
        emit(90 + b)


@emitting
def numpy_decides(emit: Emit) -> None:
    table = np.arange(12).reshape(3, 4)
    for row in table[::2, 1:3]:
        emit(int(row.sum()))
    emit(int(np.argmax(table % 7)))


@emitting
def regular_expression_parses_a_layout(emit: Emit) -> None:
    for name, size in re.findall(r"(\w)(\d+)", "p4 f16 b2"):
        emit(int(size) + ord(name) - 97)


@emitting
def format_and_parse(emit: Emit) -> None:
    emit(int(f"{5:03b}"[::-1], 2))
    emit(len("{:>{width}}".format("x", width=6)))


@emitting
def seeded_random_choices(emit: Emit) -> None:
    for n in random.Random(3).sample(range(10), 3):
        emit(n)


@emitting
def statistics_of_sizes(emit: Emit) -> None:
    emit(int(statistics.median([1, 9, 4])))


@emitting
def copies_are_independent(emit: Emit) -> None:
    base = {"sizes": [1, 2]}
    shallow, deep = copy.copy(base), copy.deepcopy(base)
    base["sizes"].append(3)
    emit(len(shallow["sizes"]))
    emit(len(deep["sizes"]))


@emitting
def namespace_as_configuration(emit: Emit) -> None:
    config = types.SimpleNamespace(tile=4, unroll=2)
    vars(config).update(unroll=3)
    emit(config.tile * config.unroll)


@emitting
def weak_references(emit: Emit) -> None:
    class Tile:
        n = 6

    tile = Tile()
    emit(weakref.ref(tile)().n)  # type: ignore[union-attr]


@emitting
def text_that_eval_computes(emit: Emit) -> None:
    emit(eval("rows * columns", {"rows": 3, "columns": 5}))
    space: dict[str, Any] = {}
    exec("def f(n):\n    return n + 1", space)
    emit(space["f"](8))


@emitting
def class_made_by_type(emit: Emit) -> None:
    made = type("Made", (), {"n": 4, "get": lambda self: self.n * 2})
    emit(made().get())


@emitting
def attributes_by_name(emit: Emit) -> None:
    class Config:
        pass

    config = Config()
    for i, name in enumerate(("rows", "columns")):
        setattr(config, name, i + 3)
    emit(sum(getattr(config, name) for name in vars(config)))
    delattr(config, "rows")
    emit(int(hasattr(config, "rows")))


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
