"""The type stub of ``nki.isa``, so that editors and type checkers see the functions that are made at import.

`make docs` writes it anew; a test fails when it is not current. ``python -m nki.isa.stub`` prints it.
"""

from __future__ import annotations

import inspect
import types
import typing
from enum import Enum
from typing import Any, cast

import nki.isa
from nki.ir.instruction import REGISTRY, Field, Inst
from nki.ir.types import Access
from nki.isa.api import visible
from nki.isa.instructions.register import register_alloc
from nki.isa.instructions.scalar_registers import scalar_load
from nki.isa.tables import enums
from nki.isa.tables.operators import Op

_HEAD = '''"""One function per hardware instruction. Made by `make docs` from the declarations."""

from collections.abc import Sequence as _Sequence
from typing import TypeAlias as _TypeAlias

from nki.base.errors import NkiError as NkiValidationError
from nki.ir.instruction_handle import NkiInstruction as NkiInstruction
from nki.ir.loop import VirtualRegister as VirtualRegister
from nki.ir.loop import VirtualRegister as _VirtualRegister
from nki.ir.scalars import NkiScalar as NkiScalar
from nki.ir.types import Access as _Access
from nki.ir.types import TensorHandle as _TensorHandle
'''
_LONGEST = 10
"""Characters of a number that a stub shows."""
_ENUMS = [name for name in nki.isa.__all__ if isinstance(getattr(enums, name, None), type)]
_CONSTANTS = sorted(name for name in nki.isa.__all__ if name.endswith("_engine") and name not in _ENUMS)


def stub() -> str:
    """The text of ``__init__.pyi``."""
    functions = [_function(cls) for cls in REGISTRY.values() if cls.public]
    imports = [f"from nki.isa.tables.enums import {name} as {name}" for name in _ENUMS]
    # Parameters have the names of their types: within a signature the types go by another one.
    aliases = ["_Tile: _TypeAlias = _TensorHandle | _Access", *(f"_{name} = {name}" for name in _ENUMS)]
    constants = [f"{name}: _engine" for name in _CONSTANTS]
    names = "".join(f"    {name!r},\n".replace("'", '"') for name in sorted(nki.isa.__all__))
    version = f"def get_nc_version() -> _nc_version:\n    {_docstring(nki.isa.get_nc_version)}\n"
    version += f"\ndef get_nc_sub_version() -> int:\n    {_docstring(nki.isa.get_nc_sub_version)}\n"
    alloc = "x: int | _VirtualRegister | _Tile | None = None"
    registers = f"def register_alloc({alloc}) -> _VirtualRegister:\n    {_docstring(register_alloc)}\n"
    registers += f"\ndef scalar_load(src: _Tile) -> NkiScalar:\n    {_docstring(scalar_load)}\n"
    operator = "from nki.isa.tables.operators import Op as _Op"
    parts = ["\n".join(p) for p in (imports, [operator, ""], [*aliases, ""], [*constants, ""])]
    return _HEAD + "\n".join([*parts, version, registers, *functions, f"__all__ = [\n{names}]\n"])


def _function(cls: type[Inst]) -> str:
    hints = typing.get_type_hints(cls)
    parameters = "".join(f"    {_parameter(f, hints[f.name])},\n" for f in visible(cls))
    return f"def {cls.mnemonic}(\n{parameters}) -> NkiInstruction:\n    {_docstring(cls)}\n"


def _docstring(thing: Any) -> str:
    text = (inspect.getdoc(thing) or "").replace("\n", "\n    ").replace("    \n", "\n")
    return f'"""{text}{chr(10) + "    " if chr(10) in text else ""}"""'


def _parameter(f: Field, hint: Any) -> str:
    if f.default is inspect.Parameter.empty:
        return f"{f.name}: {_type(hint)}"
    shown = f"_{type(f.default).__name__}.{f.default.name}" if isinstance(f.default, Enum) else repr(f.default)
    hidden = isinstance(f.default, Op) or (isinstance(f.default, float) and len(shown) > _LONGEST)
    return f"{f.name}: {_type(hint)} = {'...' if hidden else shown}"


def _type(hint: Any) -> str:
    """A field's type as a caller writes it: sequences in place of tuples, public names."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        # Between a number, a tile and None the order of a signature is the customary one.
        return " | ".join(dict.fromkeys(_type(a) for a in arguments))
    if origin is tuple:
        return f"_Sequence[{_type(arguments[0])}]"
    if hint is type(None):
        return "None"
    kind = cast("type[Any]", hint)
    return {Access: "_Tile", Op: "_Op"}.get(kind) or (f"_{kind.__name__}" if issubclass(kind, Enum) else kind.__name__)


if __name__ == "__main__":
    print(stub(), end="")
