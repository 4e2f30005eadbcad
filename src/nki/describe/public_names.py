"""Every public name and its explanation: functions, classes and their members, dtypes, buffers, enumerations, targets,
environment variables, and names that older releases had.

Texts come from docstrings, declarations and facts; only attributes that have no docstring have their line here.
"""

from __future__ import annotations

import enum
import functools
import inspect
import operator
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any, Final, cast

from nki import target
from nki.base import errors, knobs
from nki.base.element_types import DType
from nki.base.source import is_toolchain
from nki.frontend.dialect import default_dialect
from nki.ir.types import Buffer
from nki.language.nki_tensor import NkiTensor
from nki.language.releases import RELEASES
from nki.target.model import Target

Explanation = Callable[[], str]

SPACES: Final[dict[str, str]] = {
    "nl": "nki.language", "nisa": "nki.isa", "nccl": "nki.collectives", "nt": "nki.typing", "t": "tensor",
    "tile": "tensor", "NkiTensor": "tensor", "nki.language.NkiTensor": "tensor",
}  # fmt: skip
"""Customary beginnings of names, and those that stand in the index."""

_ATTRIBUTES: Final[dict[str, str]] = {
    "tensor.shape": "The size of each dimension, a tuple; dimension 0 of a tile is the partitions.",
    "tensor.dtype": "The element type, such as nl.float32.",
    "tensor.buffer": "The memory that holds the tensor: nl.sbuf, nl.psum, nl.shared_hbm or another.",
    "tensor.name": "The name of the tensor in errors and listings.",
    "tensor.ndim": "The number of dimensions.",
    "tensor.access": "The view as the compiler sees it: tensor, offset, shape, strides. For tools.",
    "tensor.__getitem__": "t[0:64, 3]: a view of part of the tensor, by slices with steps, numbers, `...` and nl.ds.",
    "nki.language.DType.name": "The name of the type, such as 'float32'.",
    "nki.language.DType.itemsize": "Bytes of an element.",
    "nki.language.DType.dtype": "The type of a NumPy array with such elements.",
    "nki.language.DType.plain": "The NumPy type of NumPy's own that stores such elements.",
    "nki.language.DType.element": "The NumPy type of each number of a packed type, else None.",
    "nki.language.DType.kind": "A letter: b bool, i signed, u unsigned, f float, x packed.",
    "nki.language.DType.computes": "True for a type that instructions compute with; False for scales and packed types.",
    "nki.language.DType.largest": "The largest finite number of the type.",
    "nki.language.DType.is_integer": "True for signed and unsigned integers.",
    "nki.language.DType.is_float": "True for floating-point types.",
    "nki.language.DType.is_packed": "True for words that hold four numbers each.",
    "nki.isa.NkiInstruction.requested": "Edges of the schedule that were requested for the instruction.",
    "nki.isa.dma_engine": "An engine that may trigger a transfer, or the choice of the compiler.",
    "nki.Kernel.__getitem__": "kernel[n](…): the kernel launched on n cores.",
    "nki.__version__": "The version, which every error report, dump and artifact carries.",
}
"""One line for each name without a docstring."""

_BUFFERS: Final[dict[str, str]] = {
    "sbuf": "The main memory of a core, one row of bytes per partition. Engines compute on tiles in it.",
    "psum": "The memory in which the Tensor engine accumulates products. Compute engines reach it, DMA does not.",
    "hbm": "The memory of the chip: inputs, and tensors that only the kernel sees. Only DMA reaches it.",
    "private_hbm": "The same as nl.hbm: a tensor of one core.",
    "shared_hbm": "HBM that all cores of a launch share, and the memory of results. Only DMA reaches it.",
    "register": "A register of a core: one whole number of 32 bits, from nisa.register_alloc.",
}
_ENTRY_POINTS: Final = (
    "baremetal", "benchmark", "profile", "simulate_kernel", "simulator.simulate_kernel", "simulator.simulate_py",
    "runtime.SpikeModel", "runtime.SpikeTensor", "compiler.CompileConfig", "compiler.SpecializationConfig",
)  # fmt: skip
"""Names of harnesses and of their options, which ``import nki`` does not load."""

_SIZES: Final = {
    "sbuf": ("partitions", "sbuf_partition_bytes", "sbuf_usable_partition_bytes"),
    "psum": ("partitions", "psum_partition_bytes", "psum_banks", "psum_bank_bytes"),
    "hbm": ("hbm_bytes",),
    "shared_hbm": ("hbm_bytes", "cores_per_chip"),
}
"""The facts of a target about each memory."""


def explain(topic: str) -> str | None:
    """The explanation of a public name, written in full or as its last parts; None for no such name."""
    names = index()
    full = _full(topic)
    if full in names:
        return names[full]() + since(full)
    ending = [name for name in names if name.endswith(f".{full}")]
    if not ending:
        ending = [name for name in names if name.lower() == full.lower() or name.lower().endswith(f".{full.lower()}")]
    if not ending:
        return None
    first, *others = sorted(ending, key=lambda name: name.count("."))
    return names[first]() + since(first) + (f"\n\nsee also: {', '.join(map(short, others))}" if others else "")


def since(full: str) -> str:
    """The releases of NKI that have the name, as a paragraph; "" if all have it."""
    name = f"nki.language.NkiTensor.{full.removeprefix('tensor.')}" if full.startswith("tensor.") else full
    first, last = RELEASES.first_with(name), RELEASES.last_with(name)
    words = [*([f"since NKI {first}"] if first else []), *([f"not after NKI {last}"] if last else [])]
    return f"\n\n{', '.join(words)}" if words else ""


def _full(topic: str) -> str:
    """The name as the index has it, of a topic as code has it: ``nl.load(x)``, ``@nki.jit``, ``t.ap``."""
    name = topic.strip("`@ .").partition("(")[0].partition("=")[0]
    for short_form, space in SPACES.items():
        if name.startswith(short_form + "."):
            return f"{space}{name.removeprefix(short_form)}"
    return name


def short(name: str) -> str:
    """A name of the index as code has it."""
    for short_form in ("nl", "nisa", "nccl", "nt"):
        if name.startswith(SPACES[short_form] + "."):
            return f"{short_form}{name.removeprefix(SPACES[short_form])}"
    return f"t{name.removeprefix('tensor')}" if name.startswith("tensor.") else name


@functools.cache
def index() -> Mapping[str, Explanation]:
    """The explanation of each public name."""
    names: dict[str, Explanation] = {}
    for each in target.GENERATIONS:
        names |= {alias: functools.partial(_target, each) for alias in each.aliases}
    for variable, text in variables().items():
        names[variable] = functools.partial(_lines, variable, f"environment variable\n\n{text}")
    names |= {f"nki.{name}": _described(f"nki.{name}", value) for name, value in _top().items()}
    for name, value in _top().items():
        if isinstance(value, ModuleType):
            names |= _module(value)
        elif isinstance(value, type):
            names |= _members(f"nki.{name}", cast("type[Any]", value))
    names |= {f"nki.{name}": functools.partial(_entry_point, name) for name in _ENTRY_POINTS}
    names |= {"tensor": _described("tensor", NkiTensor), **_members("tensor", NkiTensor)}
    for name in ("tensor.__getitem__", "nki.Kernel.__getitem__", "nki.__version__"):
        names[name] = functools.partial(_lines, short(name), _ATTRIBUTES[name])
    names |= {name: explanation for name, explanation in _removed() if name not in names}
    for cls in errors.NkiError.registry.values():
        names.setdefault(cls.__name__, functools.partial(_lines, cls.__name__, _error(cls)))
    return names


def _top() -> dict[str, Any]:
    """The names of the package ``nki``, which joins the public names of all folders and is imported with each."""
    package: Any = sys.modules["nki"]
    return {name: getattr(package, name) for name in (*package.__all__, "language", "isa") if name[0] != "_"}


def _entry_point(name: str) -> str:
    """A name of a harness (``docs/harnesses.md``)."""
    return _described(f"nki.{name}", operator.attrgetter(name)(sys.modules["nki"]))()


def _module(module: ModuleType) -> dict[str, Explanation]:
    names: dict[str, Explanation] = {}
    for name in module.__all__:
        value, full = getattr(module, name), f"{module.__name__}.{name}"
        names[full] = _described(full, value)
        if isinstance(value, type):
            names |= _members(full, cast("type[Any]", value))
        elif is_toolchain(type(value)) and not isinstance(value, enum.Enum | DType) and not callable(value):
            names |= _members(full, cast("Any", type(value)))
    return names


def _members(owner: str, cls: type[Any]) -> dict[str, Explanation]:
    """Members of an enumeration; our documented methods and attributes of another class.

    Members of tensors are explained once, under ``tensor``.
    """
    if issubclass(cls, enum.Enum):
        return {
            f"{owner}.{name}": functools.partial(_member, owner, name, member)
            for name, member in cls.__members__.items()
        }
    if issubclass(cls, NkiTensor) and owner != "tensor":
        return {}
    names: dict[str, Explanation] = {}
    for name in dir(cls):
        defining = next(base for base in cls.__mro__ if name in vars(base))
        value, full = inspect.getattr_static(cls, name), f"{owner}.{name}"
        if name[0] != "_" and is_toolchain(defining) and (full in _ATTRIBUTES or _documented(value)):
            names[full] = _described(full, value)
    return names


def _documented(value: Any) -> bool:
    kinds: tuple[Any, ...] = (property, classmethod, staticmethod, FunctionType)
    return isinstance(value, kinds) and bool(inspect.getdoc(value))


def _described(name: str, value: Any) -> Explanation:
    """The explanation of a value by its kind."""
    if isinstance(value, DType):
        return functools.partial(_dtype, value)
    if isinstance(value, Buffer):
        return functools.partial(_buffer, name.rpartition(".")[2], value)
    if isinstance(value, enum.Enum):
        return functools.partial(_older_name, name, value)
    if isinstance(value, type):
        return functools.partial(_class, name, value)
    return functools.partial(_value, name, value)


def _lines(title: str, text: str) -> str:
    return f"{title}\n\n{text}"


def _value(name: str, value: Any) -> str:
    """A function, method, property, module or object: how it is called, and its documentation."""
    inner: Any = getattr(value, "__func__", value)
    itself: bool = callable(inner) or isinstance(inner, property | ModuleType)
    documented = cast("Any", inner if itself else type(cast("Any", inner)))
    doc = _ATTRIBUTES.get(name) or inspect.getdoc(documented) or ""
    text = _lines(called(short(name), inner) if inspect.isroutine(inner) else short(name), doc)
    if isinstance(inner, ModuleType):
        return f"{text}\n\n{wrapped(', '.join(inner.__all__))}" if hasattr(inner, "__all__") else text
    if documented is not inner and is_toolchain(documented):
        return f"{text}\n\n{_listed(name, documented)}"
    return text


def _class(name: str, cls: type[Any]) -> str:
    text = _lines(short(name), inspect.getdoc(cls) or _ATTRIBUTES.get(name, ""))
    if issubclass(cls, enum.Enum):
        members = ", ".join(f"{each} = {member.value!r}" for each, member in cls.__members__.items())
        return f"{text}\n\n{wrapped(f'members: {members}', '')}"
    listed = _listed(name, cls)
    return f"{text}\n\nmembers\n{listed}" if listed else text


def _listed(name: str, cls: type[Any]) -> str:
    """The members of a class, a line each."""
    members = {full.removeprefix(f"{name}."): text().partition("\n\n")[2] for full, text in _members(name, cls).items()}
    width = max(map(len, members), default=0)
    return "\n".join(f"  {n:<{width}}  {text.partition(chr(10))[0]}".rstrip() for n, text in members.items())


def _older_name(name: str, member: enum.Enum) -> str:
    """A name of ``nki.isa`` for a member of one of its enumerations."""
    today = f"nisa.{type(member).__name__}.{member.name}"
    return _lines(short(name), f"The name of {today} before NKI 0.6, which deprecates it: write {today}.")


def _member(owner: str, name: str, member: enum.Enum) -> str:
    """A member of an enumeration, with the others."""
    if isinstance(member, Buffer):
        return _buffer(name, member)
    cls = type(member)
    others = wrapped(f"members: {', '.join(cls.__members__)}", "")
    return f"{short(owner)}.{name} = {member.value!r}\n\n{_enumeration(cls, owner)}\n\n{others}"


def _enumeration(cls: type[enum.Enum], owner: str) -> str:
    return inspect.getdoc(cls) or _ATTRIBUTES.get(f"nki.isa.{cls.__name__}", f"A value of {short(owner)}.")


def _dtype(dtype: DType) -> str:
    """An element type: size, range, use."""
    kinds = {"b": "bool", "i": "signed integer", "u": "unsigned integer", "f": "floating point", "x": "packed"}
    lines = [f"nl.{dtype.name}", "", f"element type: {kinds[dtype.kind]}, {plural_bytes(dtype.itemsize)} per element"]
    lines += [f"largest number: {dtype.largest:g}", f"NumPy type: {dtype.dtype}"]
    lines += [f"four numbers per word, each {dtype.element}"] if dtype.element is not None else []
    if not dtype.computes:
        lines.append("instructions move it and do not compute with it, except in MX matrix products")
    accepted = [each.name for each in target.GENERATIONS if dtype in each.matmul_dtypes]
    return "\n".join([*lines, f"operand of nisa.nc_matmul on: {', '.join(accepted) or 'no target'}"])


def plural_bytes(count: int) -> str:
    return f"{count} byte{'s' if count != 1 else ''}"


def _buffer(name: str, buffer: Buffer) -> str:
    """A memory: meaning, and its sizes on each target."""
    lines = [f"nl.{name}", "", _BUFFERS.get(name) or _BUFFERS[buffer.name]]
    fields = _SIZES.get(buffer.name, ())
    if fields:
        lines.append("")
    for each in target.GENERATIONS if fields else ():
        facts = ", ".join(f"{_words(field)} {getattr(each, field)}" for field in fields)
        lines.append(f"  {each.name}: {facts}")
    return "\n".join(lines)


def _target(each: Target) -> str:
    """A target: its numbers, each with its unit and the kind of its source."""
    facts = each.facts()
    width = max(len(_words(name)) for name in facts)
    lines = [f"{each.name}: {each.core}, also called {', '.join(each.aliases[1:])}", ""]
    lines += [f"select it: {target.ENVIRONMENT}={each.name}, or --target {each.name}", ""]
    for name, fact in facts.items():
        lines.append(f"  {_words(name):<{width}}  {_shown(fact.value)} {fact.unit}".rstrip() + f" [{fact.kind}]")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    if isinstance(value, frozenset):
        return ", ".join(sorted(map(str, cast("frozenset[Any]", value))))
    if isinstance(value, tuple):
        return ", ".join(map(str, cast("tuple[Any, ...]", value)))
    if isinstance(value, Mapping):
        return ", ".join(f"{number} ({key})" for key, number in cast("Mapping[Any, Any]", value).items())
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _words(field: str) -> str:
    return field.replace("_", " ")


def variables() -> dict[str, str]:
    """The environment variables, each with the documentation of the function that reads it."""
    texts: dict[str, str] = {
        target.ENVIRONMENT: "The target of kernels that name none, such as trn2; trn3 where it is not set.",
        "XDG_CACHE_HOME": inspect.getdoc(knobs.cache_folder) or "",
    }
    for value in vars(knobs).values():
        doc = inspect.getdoc(value) if inspect.isfunction(value) else None
        if match := re.match(r"``([A-Z][A-Z_]+)\b", doc or ""):
            texts[match[1]] = doc or ""
    return dict(sorted(texts.items()))


def _removed() -> Iterator[tuple[str, Explanation]]:
    """The names that older releases had, each with what to write instead."""
    removed = default_dialect().removed
    for name, fix in removed.names.items():
        yield name, functools.partial(_gone, short(name), fix)
    for name, fix in removed.attributes.items():
        for space in ("sbuf", "psum"):
            yield f"nki.language.{space}.{name}", functools.partial(_gone, f"nl.{space}.{name}", fix)
    for name, fix in removed.parameters.items():
        yield name, functools.partial(_gone, f"the parameter {short(name)}", fix)
    for name, fix in removed.keywords.items():
        yield f"keyword.{name}", functools.partial(_gone, f"the keyword {name}= of instructions", fix)
    for name, fix in removed.packages.items():
        yield name, functools.partial(_gone, f"the package {name}", fix)


def _gone(name: str, fix: str) -> str:
    return _lines(name, f"NKI no longer has it.\n  fix: {fix}")


def _error(cls: type[errors.NkiError]) -> str:
    return f"{inspect.getdoc(cls) or ''}\n\nnki explain {cls.code} says more."


class _Named:
    """A function as a default, shown by its name."""

    def __init__(self, function: FunctionType) -> None:
        self.name = function.__name__

    def __repr__(self) -> str:
        return self.name

    @staticmethod
    def of(value: Any) -> Any:
        return _Named(value) if isinstance(value, FunctionType) else value


def called(name: str, value: Any) -> str:
    """Signature of a function without annotations."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    own = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    bare = [p.replace(annotation=p.empty, default=_Named.of(p.default)) for p in own]
    return f"{name}{signature.replace(parameters=bare, return_annotation=signature.empty)}"


def wrapped(text: str, indent: str = "  ") -> str:
    """``text`` in lines of at most 100 characters, further ones indented by four more."""
    return textwrap.fill(text, 100, initial_indent=indent, subsequent_indent=indent + "    ", break_on_hyphens=False)


__all__ = ["called", "explain", "index", "short", "since", "variables", "wrapped"]
