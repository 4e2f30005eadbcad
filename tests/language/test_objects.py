"""Classes of kernels: how they are initialised and compared, and that a kernel works on copies of what it is given."""

from __future__ import annotations

import dataclasses
import functools
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.warning import NkiDeprecationWarning
from nki.compilation.cache.captured_values import constant_key
from nki.frontend.objects import copied
from tests.support.kernel_parts import returned


class Plain(nl.NKIObject):
    kind: ClassVar[str] = "plain"
    rows: int
    on: bool = False
    parts: list[int] = []  # noqa: RUF012  # each object has its own
    table: dict[str, int] = field(default_factory=dict)

    def toggle(self):
        self.on = not self.on

    @property
    def size(self):
        return self.rows * 2

    @staticmethod
    def of(rows):
        return Plain(rows)


class Extended(Plain):
    columns: int = 7

    def __post_init__(self):
        self.total = self.columns if self.rows is None else self.rows * self.columns


class Own(nl.NKIObject):
    rows: int = 1

    def __init__(self, rows):
        self.rows = rows + 1


class Inheriting(Own):
    columns: int = 2


@dataclass
class Data(nl.NKIObject):
    rows: int
    on: bool = False


@dataclass(frozen=True, eq=True)
class Frozen(nl.NKIObject):
    rows: int
    parts: list[int] = field(default_factory=list)


def test_annotations_make_the_initialiser():
    made = Plain(3)
    assert (made.rows, made.on, made.parts, made.table) == (3, False, [], {})
    assert Plain().rows is None and Plain(on=True).on and Plain.kind == "plain"
    made.parts.append(1)
    made.table["a"] = 1
    assert Plain(3).parts == [] and Plain(3).table == {}
    made.toggle()
    assert made.on and made.size == 6 and Plain.of(4).rows == 4


def test_fields_are_inherited_in_order_and_post_init_is_called():
    made = Extended(3, True, [1], {}, 5)
    assert (made.rows, made.on, made.parts, made.columns, made.total) == (3, True, [1], 5, 15)
    assert Extended().total == 7
    assert Inheriting(3).rows == 4 and Inheriting.columns == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Plain(1, 2, 3, 4, 5), "Plain: too many positional arguments; it takes rows, on, parts, table"),
        (lambda: Plain(row=1), "Plain: got an unexpected keyword argument 'row'; it takes rows"),
        (lambda: Plain(1, rows=1), "Plain: multiple values for argument 'rows'"),
        (lambda: nl.NKIObject(1), "NKIObject: too many positional arguments; it takes nothing"),
    ],
)
def test_a_call_that_does_not_fit_is_a_type_error(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_equality_is_structural():
    assert Plain(3) == Plain(3) and Plain(3) != Plain(4) and Plain(3) != Extended(3)
    assert Plain(3, parts=[Plain(1)]) == Plain(3, parts=[Plain(1)]) != Plain(3, parts=[Plain(2)])
    assert Plain((1, 2)) != Plain([1, 2]) and Plain(3) != 3
    assert Plain(np.arange(3)) == Plain(np.arange(3)) != Plain(np.arange(1, 4))
    assert Data(1) == Data(1) and Frozen(1) == Frozen(1) != Frozen(2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Plain(1))


def test_representation_shows_the_attributes():
    assert repr(Plain(3)) == "Plain(rows=3, on=False, parts=[], table={})"
    made = Plain(3)
    made.parts.append(made)
    assert repr(made) == "Plain(rows=3, on=False, parts=[...], table={})"
    assert repr(Data(1)) == "Data(rows=1, on=False)"


def test_tensors_in_objects_are_compared_by_identity():
    @nki.jit
    def kernel(x):
        one, other = nl.load(x), nl.load(x)
        assert Plain(one) == Plain(one)
        assert Plain(one) != Plain(other)
        assert Plain(one) != Plain(1)
        return returned(x)

    kernel(np.ones((2, 3), np.float32))


class Mode(Enum):
    fast = 1
    exact = 2


class Level(IntEnum):
    low = 1


class Pair(NamedTuple):
    first: Any
    second: Any


def test_copies_share_what_the_originals_share():
    plain, frozen = Plain(1), Frozen(2)
    items: list[Any] = [plain]
    items.append(items)
    values = copied(
        {"plain": plain, "frozen": frozen, "items": items, "table": OrderedDict(a=plain), "pair": Pair([], plain)}
    )
    assert values["items"][0] is values["plain"] is values["pair"].second is values["table"]["a"]
    assert values["items"][1] is values["items"]
    assert type(values["table"]) is OrderedDict and type(values["pair"]) is Pair
    assert values["plain"] == plain is not values["plain"] and values["frozen"] == frozen is not values["frozen"]


def copying(x, plain, items, table, pair=Pair([], Mode.fast)):  # noqa: B008
    plain.toggle()
    plain.new = 1
    pair.first.append(5)
    assert pair.second == Mode.fast and pair.first == [5] and Level.low == 1
    items[0].parts.append(1)
    assert plain.parts == [1] and plain.on
    table["sizes"].append(7)
    table.pop("b")
    return returned(x)


@pytest.mark.parametrize("run", [nki.jit, nki.simulate], ids=["native", "eager"])
def test_callers_keep_their_objects_as_they_were(run):
    plain = Plain(1)
    items, table = [plain], {"sizes": [1], "b": 2}
    kernel = run(copying)
    x = np.ones((2, 3), np.float32)
    with pytest.warns(NkiDeprecationWarning, match="`items` is a list"):
        found = [kernel(x, plain, items, table) for _ in range(2)]
    assert np.array_equal(found, [x, x])
    assert plain == Plain(1) and items == [plain] and table == {"sizes": [1], "b": 2}


def test_a_changed_object_is_another_kernel():
    @nki.jit
    def kernel(x, plain):
        tile = nl.load(x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=plain.rows)
        return returned(tile)

    x, plain = np.ones((2, 3), np.float32), Plain(2)
    assert np.array_equal(kernel(x, plain), 2 * x)
    plain.rows = 3
    assert np.array_equal(kernel(x, plain), 3 * x)


class Slotted(nl.NKIObject):
    __slots__ = ("hidden",)
    rows: int = 1


class Callable_(nl.NKIObject):
    by: int = 2

    def __call__(self, x):
        return x * self.by


def test_copies_keep_what_stands_for_itself():
    array, function = np.arange(3), functools.partial(print, 1)
    for value in (1, "a", None, Mode.fast, nl.float32, nl.add, nl.sbuf, print, Plain, array, function, returned, nki):
        assert copied(value) is value
    plain = (1, (2, "a"))
    assert copied(plain) is plain
    shared = [1]
    one, other = copied((shared, shared))
    assert one is other == shared and one is not shared
    slotted = Slotted()
    slotted.hidden = [1]
    assert copied(slotted).hidden == [1] and copied(slotted).hidden is not slotted.hidden
    assert copied({1, 2}) == {1, 2}
    method = Plain(1).toggle
    assert copied(method).__self__ == method.__self__ is not copied(method).__self__


def test_callable_objects_count_by_their_content():
    made = Callable_(2)
    key = constant_key("f", made)
    assert key == constant_key("f", Callable_(2)) != constant_key("f", Callable_(3))
    assert (
        constant_key("f", Plain(1).toggle) == constant_key("f", Plain(1).toggle) != constant_key("f", Plain(2).toggle)
    )
    made.by = 3
    assert key != constant_key("f", made)


def test_dataclasses_may_replace_themselves():
    assert dataclasses.replace(Frozen(1), rows=2) == Frozen(2)


@pytest.mark.parametrize("run", [lambda k: k, nki.simulate], ids=["compiled", "simulated"])
def test_fields_that_a_kernel_leaves_out_are_none(run: Any) -> None:
    """Python's own initialiser of a dataclass would ask for them."""

    @dataclass
    class Sizes(nl.NKIObject):
        rows: int
        rest: int
        more: int = 5

    @dataclass
    class Plain(nl.NKIObject):
        first = None
        second = 2

    @dataclass
    class Own(nl.NKIObject):
        rest: int
        unset: int

        def __init__(self, rows: int) -> None:
            self.rest = rows + 1

    @nki.jit
    def kernel(a):
        sizes = Sizes(rows=a.shape[0])
        assert (sizes.rows, sizes.rest, sizes.more) == (4, None, 5)
        assert Sizes(1, 2, 3) == Sizes(more=3, rest=2, rows=1)
        assert Own(2).rest == 3
        assert (Plain(first=7).first, Plain(first=7).second, Plain().first) == (7, 2, None)
        return returned(nl.load(a))

    assert run(kernel)(np.ones((4, 4), np.float32)).sum() == 16
    with pytest.raises(TypeError):
        Sizes(rows=1)
