"""``VirtualRegister``: a number that exists only while the kernel runs, in a register of the engines' sequencers."""

from __future__ import annotations

from typing import Any, NoReturn

from nki.base.dtype import int32, int64
from nki.base.errors import RegisterUseError
from nki.ir.types import Access, Buffer, Tensor
from nki.ir.value_printer import values


class VirtualRegister(Access):
    """One 32-bit register; made by ``nisa.register_alloc``, or by a loop for its iteration value.

    Loops take it as a bound or as their condition, and views as a run-time index (``t[register]``,
    ``t.ap(..., scalar_offset=register)``). While the kernel is compiled it has no value, so Python can neither compute
    with it nor branch on it. ``frozen`` registers count a loop's iterations and cannot be written.
    """

    __slots__ = ("frozen",)

    def __init__(self, tensor: Tensor, frozen: bool = False) -> None:
        super().__init__(tensor, 0, (1, 1), (1, 1), tensor.dtype)
        self.frozen = frozen

    def __repr__(self) -> str:
        shown = values(self).strip("[]")
        return f"VirtualRegister {self.name}" + (f" = {shown}" if shown else "")

    def __eq__(self, other: object) -> bool:
        """Kernels ask ``register == None``; any other comparison would need its value."""
        return False if other is None else self._refuse("==")

    def __ne__(self, other: object) -> bool:
        return True if other is None else self._refuse("!=")

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise RegisterUseError(
            f"register '{self.name}' used as a condition of `if`, `assert`, `not`, `and` or `or`, which are decided "
            "when the kernel is compiled, before the register has a value",
            fix="loop on it with nl.while_loop(register, body); to choose between values, compute both and take one "
            "with nisa.tensor_copy_predicated",
        )

    def __index__(self) -> NoReturn:
        raise RegisterUseError(
            f"register '{self.name}' used as a number that is needed when the kernel is compiled",
            fix="count with nl.fori_loop(0, register, body); index with t[register] or t.ap(…, scalar_offset=register)",
        )

    def _refuse(self, sign: str) -> NoReturn:
        if sign in ("+", "-", "*"):
            fix = "compute with a scalar: nisa.scalar_load(tile) makes one, nl.fori_loop(0, 8, body) counts in one"
        else:
            fix = "let the loop count in the steps that you need, or compute in a (1, 1) tile: nisa.register_store, "
            fix += "nisa.tensor_scalar, nisa.register_load"
        raise RegisterUseError(
            f"Python's {sign} on register '{self.name}', which has a value only when the kernel runs", fix=fix
        )


def is_register(value: Any) -> bool:
    """True if an operand is a scalar register of 32 bits (an engine's reduction registers are floats and are none)."""
    if not isinstance(value, Access) or value.buffer is not Buffer.register:
        return False
    return value.dtype is int32 and value.tensor.shape == (1, 1)


def is_scalar_register(value: Any) -> bool:
    """True if an operand is a scalar register of 32 or 64 bits."""
    wide = isinstance(value, Access) and value.buffer is Buffer.register and value.dtype is int64
    return is_register(value) or (wide and value.tensor.shape == (1, 1))


def _refusing(sign: str) -> Any:
    def method(self: VirtualRegister, *_: object) -> NoReturn:
        self._refuse(sign)  # pyright: ignore[reportPrivateUsage]  # a method of the class, made outside its body

    return method


for _name, _sign in {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}.items():  # fmt: skip
    for _prefix in ("", "r", "i"):
        setattr(VirtualRegister, f"__{_prefix}{_name}__", _refusing(_sign))
for _name, _sign in {"neg": "-", "pos": "+", "abs": "abs", "invert": "~", "int": "int", "float": "float"}.items():
    setattr(VirtualRegister, f"__{_name}__", _refusing(_sign))
for _name, _sign in {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    setattr(VirtualRegister, f"__{_name}__", _refusing(_sign))
