"""Plain Python of all the kinds that kernels use, each a function without arguments that returns what it saw."""

# ruff: noqa: A001, C416, E731, F842, PERF401, B023

import enum
import functools
import math
from dataclasses import dataclass, field, replace

SIZE = 4
TABLE = {"rows": [1, 2, 3], "tag": "t"}


def nested_loops():
    seen = []
    for i in range(3):
        for j in range(i, 3):
            if j == 1:
                continue
            if i == 2:
                break
            seen.append((i, j))
        else:
            seen.append(i)
    return seen


def while_loop():
    x, seen = 0, []
    while x < 10:
        x += 3
        if x == 6:
            continue
        seen.append(x)
    else:
        seen.append("end")
    return seen


def early_return():
    def find(items, wanted):
        for index, item in enumerate(items):
            if item == wanted:
                return index
        return None

    return find([4, 5, 6], 5), find([], 1)


def recursion():
    def factorial(n):
        return 1 if n <= 1 else n * factorial(n - 1)

    return factorial(6)


def mutual_recursion():
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    return even(10), odd(10)


def helper(x, y=SIZE, *rest, scale=1, **named):
    return (x + y) * scale, rest, sorted(named.items())


def argument_kinds():
    more, options = [5, 6], {"b": 1}
    return helper(1), helper(1, 2), helper(1, 2, *more, scale=3, a=0, **options), helper(y=1, x=2), helper(*[1, 2])


def default_evaluated_once():
    def collect(x, into=[]):  # noqa: B006
        into.append(x)
        return into

    collect(1)
    return collect(2)


def closures_over_loop_variable():
    made = []
    for i in range(3):
        made.append(lambda: i)
    return [f() for f in made]


def closures_bound_by_default():
    return [f() for f in [lambda i=i: i for i in range(3)]]


def functions_as_values():
    def twice(f, x):
        return f(f(x))

    table = {"double": lambda x: x * 2, "next": lambda x: x + 1}
    return [twice(f, 3) for f in table.values()], twice(table["next"], 0), twice(abs, -3)


def function_returning_function():
    def select(name):
        if name == "relu":
            return lambda x: max(x, 0)
        return abs

    return select("relu")(-1), select("other")(-1)


def comprehensions():
    grid = [[i * j for j in range(3)] for i in range(3)]
    flat = [x for row in grid for x in row if x]
    return grid, flat, {str(k): v for k, v in enumerate(flat)}, sum(x * x for x in flat), tuple(y for y in flat)


def comprehension_scope():
    x = "outer"
    inner = [x for x in range(3)]
    return x, inner


def unpacking():
    a, (b, *c), d = 1, (2, 3, 4), 5
    a, b = b, a
    *head, last = [a, b, *c, d]
    return head, last


def augmented_assignment():
    items, total, values = [1], 10, {"a": 1}
    items += [2]
    total //= 3
    total **= 2
    values["a"] |= 6
    items[0] -= 5
    return items, total, values


def chained_comparison():
    calls = []

    def value(x):
        calls.append(x)
        return x

    return value(1) < value(2) < value(0) < value(9), calls


def short_circuit():
    calls = []

    def value(x):
        calls.append(x)
        return x

    return value(0) or (value(2) and value(0)) or value(3), not value(1), calls


def evaluation_order():
    calls = []

    def value(x):
        calls.append(x)
        return x

    def function():
        calls.append("f")
        return lambda *args, **named: (args, named)

    result = function()(value(1), *[value(2)], k=value(3), m=value(4))
    return result, calls


def f_strings():
    x, name = 3.14159, "tile"
    return f"{name}: {x:.2f} {x=:.1f} {name!r:>8} {helper(1)[0]:0{SIZE}d} {'nested ' + str(len(name))}"


def slices():
    items = list(range(10))
    p = slice(2, min(9, SIZE + 3))
    items[0:2] = ["a"]
    return items[p], items[::-3], items[..., 0] if False else items[-1], items[1:][1:][0]


def dictionaries():
    d = dict(TABLE, extra=None)
    d.setdefault("n", []).append(1)
    popped = d.pop("tag")
    d.update(m=2)
    return [(k, d[k]) for k in d], popped, "rows" in d, d.get("none", 0)


def lists():
    items = [3, 1, 2]
    items.extend(("x",))
    items.remove("x")
    items.sort(key=lambda v: -v)
    items.insert(0, items.index(1))
    items.reverse()
    return items, sorted(items, reverse=True), list(zip(items, "ab", strict=False)), [*map(str, items)]


class Mode(enum.Enum):
    FAST = 1
    EXACT = 2

    @property
    def short(self):
        return self.name[0]

    @staticmethod
    def parse(text):
        return Mode[text.upper()]


def enums():
    mode = Mode.parse("fast")
    return mode == Mode.FAST, mode.short, Mode.EXACT.value, [m.name for m in Mode]


@dataclass(frozen=True)
class Config:
    rows: int
    name: str = "c"
    parts: list[int] = field(default_factory=list)

    def __post_init__(self):
        self.parts.append(self.rows)

    def scaled(self, by):
        return replace(self, rows=self.rows * by)

    @property
    def double(self):
        return self.rows * 2


def dataclasses():
    config = Config(3).scaled(2)
    return config, config == Config(6, parts=[3]), config.double, config.parts


class Counter:
    step = 1

    def __init__(self, start):
        self.__count = start
        self._log = []

    def up(self, by=None):
        self.__count += self.__by(by)
        return self

    def __by(self, by):
        return self.step if by is None else by

    @property
    def count(self):
        return self.__count

    @classmethod
    def at(cls, start):
        return cls(start)

    def __getitem__(self, i):
        return self.count * i


class BigCounter(Counter):
    step = 10

    def up(self, by=None):
        self._log.append(by)
        return super().up(by)


def classes():
    counter = BigCounter.at(5)
    counter.up().up(3).up()
    return counter.count, counter[2], counter._log, isinstance(counter, Counter), Counter(1).up().count


def mathematics():
    return math.prod([2, 3]), math.ceil(7 / 2), -7 // 2, -7 % 3, divmod(7, 2), 2**10, 0xFF & ~3, round(2.5), 1e-3


def partial_and_reduce():
    add = functools.partial(helper, 1, scale=2)
    return add(5), functools.reduce(lambda a, b: a * b, [1, 2, 3, 4])


def shadowed_builtins():
    def max(a, b):
        return ("mine", a, b)

    len = lambda x: "length"
    return max(1, 2), len([])


def global_constants():
    return SIZE, TABLE["rows"][SIZE - 2]


def identity():
    a = None
    return a is None, helper is helper, [1] != [1]


def annotations():
    x: int = 1
    y: nowhere  # noqa: F821

    def typed(a: int, b: "missing" = 2) -> "unknown":  # noqa: F821
        return a + b

    return x, typed(1)


def decorated_function():
    return twice_called(3)


def twice(fn):
    @functools.wraps(fn)
    def wrapper(*args, **named):
        return fn(fn(*args, **named))

    return wrapper


@twice
def twice_called(x):
    return x * 3


def conditional_expression():
    return [("even" if i % 2 == 0 else "three" if i == 3 else "odd") for i in range(5)]


def returns_nothing():
    def nothing():
        pass

    def bare(x):
        if x:
            return None
        return x

    return [nothing(), bare(1), bare(0)]


PROGRAMS = [
    name
    for name, value in list(globals().items())
    if callable(value)
    and getattr(value, "__code__", None) is not None
    and value.__module__ == __name__
    and value.__code__.co_argcount == 0
    and name not in ("helper",)
    and not value.__code__.co_flags & 0x0C
]
