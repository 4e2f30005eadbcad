"""Functions written in NumPy: arrays that NumPy's functions accept, and that may depend on the inputs.

``np.zeros`` and its kind make plain arrays, which cannot hold symbols. So a function runs with a copy of its module's
names, in which they make :class:`TracedArray`; see :mod:`nki.proofs.traced.numpy_names`.
"""

# NumPy names the arguments of its methods; a dtype among them counts for nothing here.
# ruff: noqa: ARG001, ARG002

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from nki.base.proof_errors import UnknownOperatorError
from nki.proofs.reals import Reals
from nki.proofs.symbols import Array, Symbols, UndecidedError
from nki.proofs.traced import elements, folds
from nki.proofs.traced.elements import Value, listed
from nki.proofs.traced.folds import Axes

_FOLDED: Final = {
    "sum": "add", "prod": "multiply", "max": "maximum", "amax": "maximum", "min": "minimum", "amin": "minimum",
    "any": "logical_or", "all": "logical_and",
}  # fmt: skip
_MOVES: Final = frozenset(
    listed(
        "reshape ravel transpose permute_dims matrix_transpose moveaxis rollaxis swapaxes squeeze "
        "expand_dims broadcast_to concatenate concat stack vstack hstack dstack column_stack split "
        "array_split hsplit vsplit flip fliplr flipud roll rot90 repeat tile tril triu take diagonal "
        "diag compress delete atleast_1d atleast_2d atleast_3d block resize trace_ append insert unstack"
    )
)
"""Functions that only move the elements of their first argument, or of all arrays in it."""
_KNOWN: Final = frozenset(listed("shape ndim size zeros_like ones_like full_like empty_like iscomplexobj isrealobj"))
_METHODS: Final = frozenset(listed("mean var std argmax argmin cumsum cumprod sort argsort round clip dot astype copy"))


Move = Callable[[Array], Array]

FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {}
"""Functions of NumPy that are no methods, by name; :mod:`nki.proofs.traced.numpy_functions` fills it."""


def _same(part: Array) -> Array:
    return part


class TracedArray(NDArrayOperatorsMixin):
    """An array with elements that depend on the inputs; until one does, a known array."""

    __array_priority__ = 1000

    def __init__(self, value: Value, dtype: np.dtype[Any], reals: Reals) -> None:
        self.value, self.dtype, self.reals = value, dtype, reals
        self._root: TracedArray = self
        self._move: Move = _same
        """The array that has the elements, and how they are seen here: as NumPy's views."""
        self._views: weakref.WeakSet[TracedArray] = weakref.WeakSet()

    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]  # by identity: arrays compare by element

    # -- what an array says of itself

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def T(self) -> TracedArray:  # noqa: N802  # NumPy's name
        return self.transpose()

    @property
    def mT(self) -> TracedArray:  # noqa: N802
        return self.swapaxes(-1, -2)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[TracedArray]:
        return (self[place] for place in range(len(self)))

    def known(self, what: str) -> Array:
        """The elements. Raises :class:`UndecidedError` if they depend on the inputs."""
        if isinstance(self.value, Symbols):
            raise UndecidedError(f"{what} depends on the inputs")
        return self.value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if isinstance(self.value, Symbols):
            # A TypeError says to whoever tries that this is no array of NumPy: the function may be another framework's.
            raise TypeError("an array that depends on the inputs has no elements yet")
        return np.array(self.value, dtype, copy=copy)

    def __bool__(self) -> bool:
        return bool(self.known("what an `if` or `while` of the function decides"))

    def __float__(self) -> float:
        return float(self.known("a number of Python's"))

    def __int__(self) -> int:
        return int(self.known("a number of Python's"))

    def __index__(self) -> int:
        return self.known("an index or a length").__index__()

    def item(self) -> Any:
        return self.known("a number of Python's").item()

    def tolist(self) -> Any:
        return self.known("a list of Python's numbers").tolist()

    # -- places

    def __getitem__(self, key: Any) -> TracedArray:
        listed = _keys(key)
        if any(isinstance(plain(each), Symbols) for each in listed):
            return self._at(list(listed))
        index = tuple(plain(each) for each in listed)
        return self._seen(lambda part: np.asarray(part[index]))

    def _seen(self, move: Move) -> TracedArray:
        """The elements in other places; a view of this array where NumPy makes one."""
        root, before = self._root, self._move
        result = self.made(elements.moved(self.value, move))
        blank = np.empty(root.shape, np.int8)
        if np.may_share_memory(move(before(blank)), blank):
            result._root, result._move = root, lambda part: move(before(part))
            root._views.add(result)
        return result

    def _at(self, index: list[Any]) -> TracedArray:
        """Elements at indices that depend on the inputs: along the first axis, or one of each row."""
        first, *rest = index
        places = plain(rest[0] if rest else first)
        if not isinstance(places, Symbols) or len(rest) > 1:
            raise UndecidedError("an array is indexed by several arrays, and one depends on the inputs")
        if not rest:
            if first.dtype.kind == "b":
                raise UndecidedError("elements are chosen by a mask that depends on the inputs")
            return self.made(folds.picked(self.reals, self.value, places, 0))
        if not np.array_equal(np.reshape(plain(first), -1), np.arange(len(self))):
            raise UndecidedError("an array is indexed by several arrays, and one depends on the inputs")
        column = places.moved(lambda part: part.reshape(-1, 1))
        return self.made(folds.gathered(self.reals, self.value, column).moved(lambda part: part[:, 0]))

    def __setitem__(self, key: Any, value: Any) -> None:
        index = tuple(_known_key(each) for each in _keys(key))
        root, move, new = self._root, self._move, value_of(value)
        if isinstance(new, Symbols) and self.dtype.kind in "iub":
            new = elements.cast(self.reals, new, self.dtype.kind)

        def put(places: Array, filled: Array) -> Array:
            places = places.copy()
            move(places)[index] = filled
            return places

        if isinstance(root.value, Symbols) or isinstance(new, Symbols):
            target = np.empty(self.shape, np.int8)[index].shape
            new = elements.moved(new, lambda part: np.broadcast_to(part, target))
            root.value = elements.rearranged(self.reals, put, root.value, new)
        else:
            root.value = put(root.value, new)
        for view in root._views:
            view.value = elements.moved(root.value, view._move)

    def made(self, value: Value, dtype: Any = None) -> TracedArray:
        return TracedArray(value, self.dtype if dtype is None else np.dtype(dtype), self.reals)

    # -- the protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        target = kwargs.pop("out", None)
        values = [plain(each) for each in inputs]
        if not any(isinstance(each, Symbols) for each in values):
            result = getattr(ufunc, method)(*values, **kwargs)
        else:
            for word in ("dtype", "casting"):
                kwargs.pop(word, None)
            result = self._applied(ufunc, method, inputs, values, kwargs)
        if target is None:
            return result
        (array,) = target
        array[...] = result
        return array

    def _applied(self, ufunc: np.ufunc, method: str, inputs: Sequence[Any], values: list[Any], kwargs: Any) -> Any:
        reals, name = self.reals, ufunc.__name__
        arrays = [each if isinstance(each, Symbols) else np.asarray(each) for each in values]
        if method == "reduce" and name in folds.FOLDS and set(kwargs) <= {"axis", "keepdims"}:
            return self._reduced(name, kwargs.get("axis", 0), bool(kwargs.get("keepdims")))
        if method == "accumulate" and name in folds.FOLDS:
            return self.made(folds.accumulated(reals, name, cast("Symbols", self.value), kwargs.get("axis", 0)))
        if method == "outer":
            ranks = [len(each.shape) for each in arrays]
            first = elements.moved(arrays[0], lambda part: part.reshape(*part.shape, *[1] * ranks[1]))
            arrays[0], method = first, "__call__"
        if method != "__call__" or kwargs:
            raise unknown(f"{name}.{method}" if method != "__call__" else f"{name} with {', '.join(kwargs)}")
        dtype = _dtype_of(ufunc, inputs)
        if name == "matmul" and dtype.kind != "b":
            return self.made(folds.matmul(reals, *arrays), dtype)
        name = elements.named(name, dtype.kind == "b")
        if not elements.is_known_function(name):
            raise unknown(name)
        return self.made(elements.apply(reals, name, *arrays), dtype)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        name = func.__name__
        if not has_symbols(args) and not has_symbols(tuple(kwargs.values())):
            return func(*plain_all(args), **{key: plain(each) for key, each in kwargs.items()})
        if name in FUNCTIONS:
            return FUNCTIONS[name](self.reals, *args, **kwargs)
        if name in _FOLDED or name in _METHODS:
            first, *rest = args
            return getattr(traced(first, self.reals), name)(*rest, **kwargs)
        if name in _MOVES:
            return self._rearranged(func, args, kwargs)
        if name in _KNOWN:
            stand_in = np.zeros(args[0].shape, args[0].dtype)
            found: Any = func(stand_in, *args[1:], **kwargs)
            return self._fillable(found) if name.endswith("_like") else found
        raise unknown(name)

    def _fillable(self, array: Array) -> TracedArray:
        return TracedArray(array, array.dtype, self.reals)

    def _rearranged(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        first, *rest = args
        if isinstance(first, TracedArray) and func.__name__ not in ("append", "insert"):
            return self._of_one(first, lambda part: func(part, *plain_all(rest), **kwargs))
        several = isinstance(first, (list, tuple))
        data: list[Any] = list(cast("Sequence[Any]", first)) if several else [first]
        extra = rest[-1:] if func.__name__ in ("append", "insert") else []
        rest = rest[: len(rest) - len(extra)]
        dtype = joint_dtype(*data, *extra)

        def operator(*places: Array) -> Any:
            mine = list(places[: len(data)]) if several else places[0]
            return func(mine, *plain_all(rest), *places[len(data) :], **kwargs)

        return self.made(
            elements.rearranged(self.reals, operator, *(value_of(each) for each in (*data, *extra))), dtype
        )

    def _of_one(self, array: TracedArray, move: Callable[[Array], Any]) -> Any:
        found = move(np.empty(array.shape, np.int8))
        if isinstance(found, np.ndarray):
            return array._seen(move)
        return [array._seen(lambda part, place=place: move(part)[place]) for place in range(len(found))]

    # -- methods

    def _reduced(self, op: str, axis: Axes, keepdims: bool) -> Any:
        dtype = np.dtype(np.bool_) if op.startswith("logical") else _summed(op, self.dtype)
        if not isinstance(self.value, Symbols):
            return getattr(np, op).reduce(self.value, axis=axis, keepdims=keepdims)
        return self.made(folds.fold(self.reals, self.value, axis, keepdims, folds.FOLDS[op]), dtype)

    def __getattr__(self, name: str) -> Any:
        if name in _FOLDED:
            op = _FOLDED[name]

            def folded(axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Any:
                return self._reduced(op, axis, keepdims)

            return folded
        if name in _MOVES and hasattr(np.ndarray, name):
            return functools.partial(getattr(np, name), self)
        raise AttributeError(f"{name!r} of an array of NumPy is not traced")

    def reshape(self, *shape: Any, order: str = "C") -> TracedArray:
        sizes: Any = shape[0] if len(shape) == 1 else shape

        def reshaped(part: Array) -> Array:
            return cast("Any", np.reshape)(part, sizes, order=order)

        return self._seen(reshaped)

    def transpose(self, *axes: Any) -> TracedArray:
        order: Any = axes[0] if len(axes) == 1 else axes or None
        return self._seen(lambda part: part.transpose(order))

    def swapaxes(self, one: int, other: int) -> TracedArray:
        return self._seen(lambda part: part.swapaxes(one, other))

    def flatten(self) -> TracedArray:
        return self.reshape(-1).copy()

    def astype(self, dtype: Any, copy: bool = True, **_: Any) -> TracedArray:
        kind = np.dtype(dtype)
        if not isinstance(self.value, Symbols):
            return self.made(self.value.astype(kind), kind)
        return self.made(elements.cast(self.reals, self.value, kind.kind), kind)

    def copy(self, order: str = "C") -> TracedArray:
        return self.made(elements.moved(self.value, np.copy))

    def _lifted(self) -> Symbols:
        return elements.lifted(self.value, self.reals)

    def mean(self, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> TracedArray:
        return self.made(folds.mean(self.reals, self._lifted(), axis, keepdims), _float(self.dtype))

    def var(
        self, axis: Axes = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False,
        *, correction: float | None = None,
    ) -> TracedArray:  # fmt: skip
        off = ddof if correction is None else correction
        return self.made(folds.variance(self.reals, self._lifted(), axis, keepdims, off), _float(self.dtype))

    def std(self, *args: Any, **kwargs: Any) -> Any:
        return np.sqrt(self.var(*args, **kwargs))

    def _index_of(self, smallest: bool, axis: int | None, keepdims: bool) -> TracedArray:
        rows = self._lifted().moved(lambda part: part.reshape(-1) if axis is None else np.moveaxis(part, axis, -1))
        found = folds.extreme_index(self.reals, rows, smallest)
        if keepdims:
            found = found.moved(lambda part: np.expand_dims(part, -1 if axis is None else axis))
        return self.made(found, np.int64)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> TracedArray:
        return self._index_of(False, axis, keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> TracedArray:
        return self._index_of(True, axis, keepdims)

    def _running(self, op: str, axis: int | None) -> TracedArray:
        value = self._lifted()
        if axis is None:
            value, axis = value.moved(lambda part: part.reshape(-1)), 0
        return self.made(folds.accumulated(self.reals, op, value, axis), _summed(op, self.dtype))

    def cumsum(self, axis: int | None = None, dtype: Any = None) -> TracedArray:
        return self._running("add", axis)

    def cumprod(self, axis: int | None = None, dtype: Any = None) -> TracedArray:
        return self._running("multiply", axis)

    def _in_order(self, part: int, axis: int) -> Symbols:
        rows = self._lifted().moved(lambda part: np.moveaxis(part, axis, -1))
        found = folds.ordered(self.reals, rows, False)[part]
        return found.moved(lambda part: np.moveaxis(part, -1, axis))

    def sort(self, axis: int = -1, **_: Any) -> TracedArray:
        return self.made(self._in_order(0, axis))

    def argsort(self, axis: int = -1, **_: Any) -> TracedArray:
        return self.made(self._in_order(1, axis), np.int64)

    def round(self, decimals: int = 0) -> Any:
        if decimals:
            raise unknown("round to decimals")
        return np.rint(self)

    def clip(self, min: Any = None, max: Any = None, **named: Any) -> Any:  # noqa: A002
        low, high = named.get("a_min", min), named.get("a_max", max)
        found = self if low is None else np.maximum(cast("Any", self), low)
        return found if high is None else np.minimum(cast("Any", found), high)

    def dot(self, other: Any) -> TracedArray:
        mine, theirs = value_of(self), value_of(other)
        if not mine.shape or not theirs.shape:
            return cast("TracedArray", self * other)
        axes = [len(mine.shape) - 1], [max(len(theirs.shape) - 2, 0)]
        return self.made(folds.dot_general(self.reals, mine, theirs, axes), joint_dtype(self, other))


def _in_place(name: str) -> Callable[[TracedArray, Any], TracedArray]:
    function = getattr(np, name)

    def changed(self: TracedArray, other: Any) -> TracedArray:
        self[...] = function(self, other)
        return self

    return changed


for _sign, _name in {
    "iadd": "add", "isub": "subtract", "imul": "multiply", "itruediv": "divide", "ipow": "power",
    "ifloordiv": "floor_divide", "imod": "remainder", "imatmul": "matmul",
}.items():  # fmt: skip
    setattr(TracedArray, f"__{_sign}__", _in_place(_name))


def plain(item: Any) -> Any:
    """The value of a traced array; anything else as it is."""
    return item.value if isinstance(item, TracedArray) else item


def value_of(item: Any) -> Value:
    """Symbols, or a known array."""
    found = plain(item)
    return found if isinstance(found, Symbols) else np.asarray(found)


def traced(item: Any, reals: Reals) -> TracedArray:
    """``item`` as NumPy's ``asarray`` takes it."""
    if isinstance(item, TracedArray):
        return item
    if isinstance(item, (list, tuple)) and has_symbols(item):
        return cast("TracedArray", np.stack([traced(each, reals) for each in cast("Sequence[Any]", item)]))  # pyright: ignore[reportCallIssue, reportArgumentType]
    array = np.asarray(cast("Any", item))
    return TracedArray(array, array.dtype, reals)


def plain_all(items: Any) -> Any:
    """:func:`plain` of everything in lists and tuples."""
    if isinstance(items, (list, tuple)):
        inner = [plain_all(each) for each in cast("Sequence[Any]", items)]
        return tuple(inner) if isinstance(items, tuple) else inner
    return plain(items)


def has_symbols(item: Any) -> bool:
    """True if an array, or one in a list or tuple, depends on the inputs."""
    if isinstance(item, (list, tuple)):
        return any(has_symbols(each) for each in cast("Sequence[Any]", item))
    return isinstance(plain(item), Symbols)


def _keys(key: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", key) if isinstance(key, tuple) else (key,)


def _known_key(key: Any) -> Any:
    found = plain(key)
    if isinstance(found, Symbols):
        raise UndecidedError("elements are written at places that depend on the inputs")
    return found


def unknown(name: str) -> UnknownOperatorError:
    """The error about a function without a rule."""
    return UnknownOperatorError.of("NumPy", f"np.{name}")


def joint_dtype(*items: Any) -> np.dtype[Any]:
    """The dtype that NumPy gives to what is made of all."""
    return np.result_type(*(each.dtype if isinstance(each, TracedArray) else each for each in items))


def _dtype_of(ufunc: np.ufunc, inputs: Sequence[Any]) -> np.dtype[Any]:
    """The dtype of the function's result, from ones in place of arrays."""
    shape = (1, 1) if ufunc.signature else (1,)
    ones = [
        each
        if isinstance(each, (int, float))
        else np.ones(shape, each.dtype if isinstance(each, TracedArray) else np.asarray(each).dtype)
        for each in inputs
    ]
    with np.errstate(all="ignore"):
        return cast("np.dtype[Any]", ufunc(*ones).dtype)


def _summed(op: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.int64) if dtype.kind == "b" and op in ("add", "multiply") else dtype


def _float(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float64) if dtype.kind in "iub" else dtype


__all__ = [
    "FUNCTIONS",
    "TracedArray",
    "has_symbols",
    "joint_dtype",
    "plain",
    "plain_all",
    "traced",
    "unknown",
    "value_of",
]
