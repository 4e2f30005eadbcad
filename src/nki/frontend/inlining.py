"""Calls inside a running kernel: user functions are captured, checked and rewritten when they are first reached."""

from __future__ import annotations

import ast
import functools
import sys
import types
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from nki.base.element_types import DType
from nki.base.errors import NkiError
from nki.base.warning import NkiPortabilityWarning, under_release, warn_here
from nki.frontend.builder import current
from nki.frontend.capture import Captured, calls_back, capture, is_host, is_host_code, unwrap, wraps_users
from nki.frontend.captured_state import global_names, note, of_cell, rewritten_functions
from nki.frontend.code_objects import compiled, marked, names_of, origin
from nki.frontend.dialect import Dialect, assigned_dialect, default_dialect
from nki.frontend.frontend_errors import DictKeyError, NewerApiError
from nki.frontend.objects import brings_keys, construct, is_object, with_keys
from nki.frontend.python.flattened_arguments import leaves
from nki.frontend.python.float_loads import (
    CALL_WITH_FLOATS,
    OPERATE,
    SETTLE,
    float_loads,
    is_open,
    operate,
    takes_runtime_floats,
)
from nki.frontend.python.hooks import Managed, contains, warn_reached
from nki.frontend.release import DECORATED
from nki.frontend.report import portable_text
from nki.frontend.rewrite import CALL, IN, KEY, REFUSE, UNCAUGHT, WARN, WITH, rewrite
from nki.frontend.syntax_rules import check, too_deep
from nki.ir.floats.runtime_float import RuntimeFloat, settled
from nki.ir.instruction_handle import NkiInstruction
from nki.ir.loop import VirtualRegister
from nki.ir.recorder import is_recording
from nki.ir.types import Access, access_of


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Prepared:
    source: weakref.ref[types.CodeType]  # keeps the entry just as long as the code that has its key as id
    module: int  # id of the globals that static names were looked up in; holding them would keep the code alive
    rewritten: types.CodeType | None  # None: a function of the host
    node: ast.AST = field(default_factory=ast.Pass)  # as the user wrote it
    closure: tuple[int | str, ...] = ()  # each closure variable of `rewritten`: its place in the original, or a hook
    takes_floats: bool = True  # False: `rewritten` is the code as it was, which reads floats as it likes


class Inliner:
    """Calls of user functions in kernels of one dialect: keeps the rewritten code of each function."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._prepared: dict[object, _Prepared] = {}
        """By the id of a function's code, or by that and the parameters that get run-time floats."""
        hooks: dict[str, Any] = {name: factory(self) for name, factory in dialect.hooks.items()}
        hooks |= {
            REFUSE: _refuse,
            KEY: functools.partial(_key, self),
            IN: contains,
            WARN: warn_reached,
            WITH: functools.partial(Managed, self.invoke),
            UNCAUGHT: NkiError,
            CALL_WITH_FLOATS: self._invoke_with_floats,
            SETTLE: settled,
            OPERATE: operate,
        }
        self._hooks = {name: types.CellType(hook) for name, hook in hooks.items()}

    def compile_function(self, captured: Captured, floats: frozenset[str] = frozenset()) -> types.FunctionType:
        """``captured`` as a function that runs its rewritten code; its parameters ``floats`` get run-time floats.

        It has the file name, lines and columns of the user's source, and the very closure cells and globals of the
        original, so it always sees their present values. The hooks come in as closure variables: that way the user's
        module gets no name of ours, and looking up a global keeps Python's fast path.
        """
        code = self._code(captured, floats)
        note(captured.node, captured.code, captured.globals, tuple(captured.cells.values()))
        hooks = self._hooks
        closure = tuple(captured.cells[name] if name in captured.cells else hooks[name] for name in code.co_freevars)
        if captured.unread is not None:
            _note_native(types.FunctionType(captured.code, captured.globals, captured.name, None, closure))
        function = types.FunctionType(code, captured.globals, captured.name, captured.defaults, closure)
        function.__kwdefaults__ = captured.kwdefaults
        return function

    def prepare(self, fn: types.FunctionType, floats: frozenset[str] = frozenset()) -> types.FunctionType:
        """The rewritten version of a user function; rewritten functions and functions of the host come back as they
        are.

        ``floats`` are the parameters that get run-time floats.

        The code is made once for each code object and module, the function around it anew for each function, because
        closures share their code. Raises what ``capture`` and ``check`` raise.
        """
        code = fn.__code__
        functions = None if floats else rewritten_functions()
        if functions is not None and (last := functions.get(id(code))) is not None:
            same, by, defaults, kwdefaults, function = last
            if same is fn and by is self and defaults is fn.__defaults__ and kwdefaults is fn.__kwdefaults__:
                return function
        key = (id(code), floats) if floats else id(code)
        entry = self._prepared.get(key)
        if entry is None or entry.module != id(fn.__globals__):
            if origin(code) is not None:
                return fn
            entry = self._prepared[key] = self._prepare_code(fn, key, floats)
        if entry.rewritten is None:
            if fn.__closure__ and wraps_users(fn):
                return self._wrapper(fn)
            if functions is not None:
                functions[id(code)] = fn, self, fn.__defaults__, fn.__kwdefaults__, fn
            return fn
        cells = fn.__closure__ or ()
        note(entry.node, code, fn.__globals__, cells)
        hooks = self._hooks
        closure = tuple([cells[place] if isinstance(place, int) else hooks[place] for place in entry.closure])
        function = types.FunctionType(entry.rewritten, fn.__globals__, fn.__name__, fn.__defaults__, closure)
        if fn.__kwdefaults__ is not None:
            function.__kwdefaults__ = fn.__kwdefaults__
        if functions is not None:
            functions[id(code)] = fn, self, fn.__defaults__, fn.__kwdefaults__, function
        return function

    def _wrapper(self, fn: types.FunctionType) -> types.FunctionType:
        """A function that the standard library has put around one of the user's, as ``contextmanager`` does,
        around the rewritten one.
        """
        contents = [of_cell(cell) for cell in fn.__closure__ or ()]
        if all(content is not getattr(fn, "__wrapped__", None) for content in contents):
            return fn
        cells = [
            types.CellType(self.prepare(content)) if content is getattr(fn, "__wrapped__", None) else cell
            for content, cell in zip(contents, fn.__closure__ or (), strict=True)
        ]
        function = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, tuple(cells))
        function.__kwdefaults__ = fn.__kwdefaults__
        return function

    def invoke(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call ``fn(*args, **kwargs)`` as a kernel does.

        Functions and methods of the user run rewritten, also inside jit objects, ``partial`` and objects with a
        ``__call__``. Classes and everything of the host are called as they are.
        """
        kind = fn.__class__
        if kind is types.MethodType:
            function = fn.__func__
            if function.__class__ is types.FunctionType and "registry" not in function.__dict__:
                return self.prepare(function)(fn.__self__, *args, **kwargs)
        if kind is types.FunctionType:
            if "registry" in fn.__dict__ and args:  # of functools.singledispatch
                return self.invoke(fn.__dict__["dispatch"](type(args[0])), *args, **kwargs)
            return self.prepare(fn)(*args, **kwargs)
        if isinstance(fn, types.MethodType):  # of a function, or of an extension module's callable
            return self.invoke(fn.__func__, fn.__self__, *args, **kwargs)
        if isinstance(fn, functools.partial):
            return self.invoke(fn.func, *fn.args, *args, **{**fn.keywords, **kwargs})  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        if isinstance(fn, type | types.BuiltinFunctionType):
            return self._call_native(fn, args, kwargs)
        inner = unwrap(fn)
        if inner is not fn:
            self._check_inlining(fn, inner)
            own = assigned_dialect(inner)
            if own is not None and own is not self.dialect:
                return _under(own, inner, args, kwargs)
            return self.invoke(inner, *args, **kwargs)
        wrapped = getattr(fn, "__wrapped__", None)
        if isinstance(wrapped, types.FunctionType):  # of functools.lru_cache, which calls it as it is
            _note_native(wrapped)
        call = type(fn).__call__ if callable(fn) else None
        if isinstance(call, types.FunctionType):
            return self.prepare(call)(fn, *args, **kwargs)
        return fn(*args, **kwargs)

    def _invoke_with_floats(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """:meth:`invoke` in functions that hold run-time floats: parameters of user functions keep those they get."""
        if RuntimeFloat not in map(type, args) and RuntimeFloat not in map(type, kwargs.values()):
            return self.invoke(fn, *args, **kwargs)
        if takes_runtime_floats(fn):
            return fn(*args, **kwargs)
        if isinstance(fn, types.MethodType):
            return self._invoke_with_floats(fn.__func__, fn.__self__, *args, **kwargs)
        inner = unwrap(fn)
        if inner is not fn:
            self._check_inlining(fn, inner)
            return self._invoke_with_floats(inner, *args, **kwargs)
        floats = self._float_parameters(fn, args, kwargs)
        prepared = self.prepare(fn, floats) if floats else None
        if prepared is None or not self._prepared[id(fn.__code__), floats].takes_floats:
            floats, prepared = frozenset[str](), None
        # Of the arguments, those that land in *args or **kwargs are no variables of their own.
        count = fn.__code__.co_argcount if prepared is not None else 0
        args = (*args[:count], *map(settled, args[count:]))
        kwargs = {name: value if name in floats else settled(value) for name, value in kwargs.items()}
        return self.invoke(fn, *args, **kwargs) if prepared is None else prepared(*args, **kwargs)

    def _check_inlining(self, fn: Any, inner: Any) -> None:
        """A jit object may refuse to become a part of its caller, and a dialect may warn of it."""
        check = getattr(fn, "check_inlining", None)
        if check is not None:
            check()
            if text := self.dialect.warnings.get(DECORATED):
                warn_here(text.format(inner.__name__), NkiPortabilityWarning)

    def _float_parameters(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> frozenset[str]:
        """The parameters of ``fn`` that may keep the run-time floats among the arguments."""
        if not isinstance(fn, types.FunctionType) or is_host(fn) or fn.__dict__:
            return frozenset()
        code = fn.__code__
        if origin(code) is not None or is_open(code):
            return frozenset()
        named = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
        by_position = zip(code.co_varnames[: code.co_argcount], args, strict=False)
        by_name = [(name, value) for name, value in kwargs.items() if name in named]
        return frozenset(name for name, value in (*by_position, *by_name) if type(value) is RuntimeFloat)

    def _call_native(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a class or built-in; the user functions that it will call back for us run rewritten, too."""
        if types.FunctionType in map(type, args) and calls_back(fn):
            args = tuple(map(self._callback, args))
        if "key" in kwargs and not isinstance(fn, type):
            kwargs["key"] = self._callback(kwargs["key"])
        if is_object(fn):
            return construct(fn, args, kwargs)
        if brings_keys(fn) and not self.dialect.python.silent:
            made, keys = with_keys(fn, args, kwargs)
            for key in keys:
                _key(self, key)
            return made
        return fn(*args, **kwargs)

    def _callback(self, value: Any) -> Any:
        return self.prepare(value) if isinstance(value, types.FunctionType) else value

    def _prepare_code(self, fn: types.FunctionType, key: object, floats: frozenset[str]) -> _Prepared:
        original = fn.__code__
        prepared = self._prepared
        source = weakref.ref(original, lambda _: prepared.pop(key, None))
        if is_host(fn):
            full = self.dialect.availability.values.get(id(fn))
            if full is not None:
                self.dialect.require(full, full.removeprefix("nki.language."))
            return _Prepared(source, id(fn.__globals__), None)
        captured = capture(fn, self.dialect)
        captured = check(captured, kernel=False)
        code = self._code(captured, floats)
        places = {name: index for index, name in enumerate(original.co_freevars)}
        closure = tuple(places.get(name, name) for name in code.co_freevars)
        return _Prepared(source, id(fn.__globals__), code, captured.node, closure, captured.unread is None)

    def _code(self, captured: Captured, floats: frozenset[str]) -> types.CodeType:
        if captured.unread is not None:
            return marked(captured.code, captured.qualname, self.dialect)
        try:
            loads = float_loads(captured, floats, CALL in self.dialect.hooks) if floats else None
            code = compiled(rewrite(captured, loads), captured.class_name, captured.code, tuple(self._hooks))
        except RecursionError:
            raise too_deep(captured) from None
        return marked(code, captured.qualname, self.dialect)


def _note_native(fn: types.FunctionType) -> None:
    """Note that Python calls ``fn``, and whatever functions of the user's it names, without being rewritten."""
    seen: set[int] = set()
    todo: list[types.FunctionType] = [fn]
    for one in todo:
        cells = one.__closure__ or ()
        note(names_of(one.__code__), one.__code__, one.__globals__, cells)
        values = [*map(of_cell, cells), *[one.__globals__.get(name) for name in global_names(one.__code__)]]
        for value in map(unwrap, values):
            if isinstance(value, types.FunctionType) and id(value) not in seen and not is_host(value):
                seen.add(id(value))
                todo.append(value)


@functools.cache
def inliner(dialect: Dialect) -> Inliner:
    """The inliner of ``dialect``."""
    return Inliner(dialect)


def compile_function(captured: Captured, floats: frozenset[str] = frozenset()) -> types.FunctionType:
    """``captured`` as a function that runs its rewritten code; see :meth:`Inliner.compile_function`."""
    return inliner(captured.dialect).compile_function(captured, floats)


def invoke(fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call ``fn`` as the kernel that is being recorded does; see :meth:`Inliner.invoke`."""
    dialect = current("a function of the kernel").dialect if is_recording() else default_dialect()
    own = assigned_dialect(fn)
    if own is not None and own is not dialect:
        return _under(own, fn, args, kwargs)
    return inliner(dialect).invoke(fn, *args, **kwargs)


def is_inlined(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """True if a call of a kernel with these arguments, while this thread records one, is a part of what it records.

    The handler of a signal, or a finalizer, interrupts the recording wherever it is, and may call a kernel that has
    nothing to do with it. Its function is not rewritten, as those are that the recorded kernel calls, and has none of
    the tensors, registers and floats that are being recorded.
    """
    if any(_is_recorded(value) for value in leaves((*args, *kwargs.values()))):
        return True
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # the interpreter's only way to see its frames
    while frame.f_back is not None and is_host_code(frame.f_code, frame.f_globals):
        frame = frame.f_back
    return origin(frame.f_code) is not None


def _is_recorded(value: Any) -> bool:
    return isinstance(access_of(value), Access) or isinstance(value, VirtualRegister | RuntimeFloat)


def _under(dialect: Dialect, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a kernel of another dialect, which holds until it returns."""
    builder = current("a kernel")
    before, builder.dialect = builder.dialect, dialect
    try:
        with under_release(dialect.release):
            return inliner(dialect).invoke(fn, *args, **kwargs)
    finally:
        builder.dialect = before


def nested_hook(inliner: Inliner) -> Callable[[Any, str, str], Any]:
    """The hook of a release that slices whole tensors only, around what is sliced again."""

    def sliced(value: Any, part: str, key: str) -> Any:
        if isinstance(value, inliner.dialect.tensor.kind):
            message = f"`{part}{key}` slices a slice: NKI {inliner.dialect.versions[-1]} has no nested slicing"
            raise NewerApiError(message, fix=f"write one slice, or give the part a name: `part = {part}`, `part{key}`")
        return value

    return sliced


def _refuse(code: str, message: str, fix: str, raised: Any = None) -> NoReturn:
    """The hook in place of code with a deferred error; ``raised`` is what a ``raise`` would have raised."""
    text = f"{raised.__name__}" if isinstance(raised, type) else f"{type(raised).__name__}: {raised}"
    raise NkiError.registry[code](message if raised is None else f"{message}; this one is reached: {text}", fix=fix)


_DICTIONARY: Final[dict[str, Any]] = {}


def _key(inliner: Inliner, value: Any, owner: object = _DICTIONARY) -> Any:
    """The hook around a dictionary key; with ``owner``, which may also be something else, around its key."""
    if isinstance(value, str) or not isinstance(owner, dict):
        return value
    shown = f"{value!r}".partition("\n")[0][:60]
    message = f"the key {shown} is no string: NKI's dictionaries have string keys only"
    fix = "write `str(…)`, or use a list"
    if isinstance(value, int | float | None):
        fix = f"write `{shown!r}`, or use a list"
    elif isinstance(value, NkiInstruction | inliner.dialect.tensor.kind):
        fix = "use a list"
    python = inliner.dialect.python
    if DictKeyError not in python.accepted and not isinstance(value, DType):  # dtypes were text in 0.2
        raise DictKeyError(message, fix=fix)
    if since := python.portable_since.get(DictKeyError):
        warn_here(portable_text(DictKeyError, message, fix, since), NkiPortabilityWarning)
    return value


def call_hook(inliner: Inliner) -> Callable[..., Any]:
    """The hook behind calls of a function that is not settled before the kernel runs."""
    return inliner.invoke
