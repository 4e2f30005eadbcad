"""``nisa.scalar_load`` and ``scalar_store``, and the arithmetic of scalars, which Python's operators record."""

from __future__ import annotations

from typing import Any

from nki.base import element_types as dt
from nki.base.assigned_name import assigned_name
from nki.base.element_types import DType
from nki.base.errors import ArgumentError, DTypeError
from nki.base.source import here
from nki.cost import engines as cost
from nki.ir.algebra import Algebra
from nki.ir.effects import Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, Rule, instruction
from nki.ir.loop import VirtualRegister, is_scalar_register
from nki.ir.recorder import current
from nki.ir.sample import Draw
from nki.ir.scalars import EXACT, WIDTHS, NkiScalar
from nki.ir.types import Access, In, Index, Out, Tile, access_of
from nki.isa.rules.operand_rules import one_element, rule
from nki.isa.tables import enums
from nki.isa.tables.operators import OPS, Op
from nki.target.model import Target

_SOURCE = "NKI reference, nki.isa.NkiScalar"
_OPERATORS = tuple(OPS[name] for name in ("add", "subtract", "multiply"))


def _is_scalar(name: str) -> Rule:
    return rule(
        "NS01",
        f"{name} is {{o[{name}]}} and not a scalar",
        lambda i, t: _holds_scalar(getattr(i, name)),
        _SOURCE,
        error=ArgumentError,
        fix="pass what nisa.scalar_load or arithmetic on it returned; a number is written with nisa.memset, a register "
        "with nisa.register_store",
        by_value=True,
    )


def _holds_scalar(value: Any) -> bool:
    # A program that was read from text has plain accesses; in a kernel, registers are none of these.
    return is_scalar_register(value) and (not isinstance(value, VirtualRegister) or isinstance(value, NkiScalar))


def _exchanged(name: str, scalar: str) -> tuple[Rule, ...]:
    return (
        *one_element(
            name,
            ("NS02", "a scalar is one element"),
            ("NS03", "scalars are exchanged with sbuf and HBM"),
            _SOURCE,
        ),
        rule(
            "NS04",
            f"{name} is {{o[{name}]}}, {scalar} is {{o[{scalar}]}}: a scalar keeps its dtype, int32 or int64",
            lambda i, t: getattr(i, name).dtype is getattr(i, scalar).dtype,
            _SOURCE,
            error=DTypeError,
            fix="use a tensor of the scalar's dtype; of an unsigned one view the signed dtype of the same width",
        ),
    )


def _drawn(draw: Draw, dtype: DType) -> NkiScalar:
    return NkiScalar(draw.register(dtype).tensor)


@instruction(engines=(enums.engine.sync,), public=False, effects=Effects(scalar_registers=("dst",)))
class ScalarLoad(Inst):
    """``dst = src``: one element of a tensor in SBUF or HBM as a new scalar, which ``nisa.scalar_load`` returns."""

    dst: Out[Tile]
    src: In[Tile]

    rules = (_is_scalar("dst"), *_exchanged("src", "dst"))

    def semantics(self, m: Algebra[Any]) -> None:
        m.store(self.dst, m.flat(self.src))

    def cost(self, target: Target) -> Estimate:
        """One read of a register from memory."""
        return cost.fixed(self, target, target.register_load_ns, *target.origin("register_load_ns"))

    @classmethod
    def sample(cls, draw: Draw) -> ScalarLoad:
        dtype = draw.choice(WIDTHS)
        return cls(_drawn(draw, dtype), draw.tile(1, 1, dtype) if draw.flag() else draw.hbm((1, 1), dtype))


@instruction(engines=(enums.engine.sync,), effects=Effects(scalar_registers=("value",)))
class ScalarStore(Inst):
    """``dst = value``: a scalar to one element of a tensor in SBUF or HBM, of the scalar's dtype.

    ``value`` is a scalar; a number is written with ``nisa.memset``, a register with ``nisa.register_store``.
    """

    dst: Out[Tile]
    value: In[Tile]

    rules = (_is_scalar("value"), *_exchanged("dst", "value"))

    def semantics(self, m: Algebra[Any]) -> None:
        m.store(self.dst, m.flat(self.value))

    def cost(self, target: Target) -> Estimate:
        """One write of a register to memory."""
        return cost.fixed(self, target, target.register_store_ns, *target.origin("register_store_ns"))

    @classmethod
    def sample(cls, draw: Draw) -> ScalarStore:
        dtype = draw.choice(WIDTHS)
        return cls(
            draw.tile(1, 1, dtype) if draw.flag() else draw.hbm((1, 1), dtype), NkiScalar(draw.register(dtype).tensor)
        )


def _sides(i: Any) -> tuple[Any, Any]:
    return i.left, i.right


def _fits(side: Any, dst: Access) -> bool:
    return side.dtype is dst.dtype and is_scalar_register(side) if isinstance(side, Access) else type(side) is int


@instruction(engines=(enums.engine.sync,), public=False, effects=Effects(scalar_registers=("dst", "left", "right")))
class ScalarArithmetic(Inst):
    """``dst = left op right`` for scalars and whole numbers: a sum, difference or product that wraps at the width.

    A kernel writes ``i * 4 + 1``.
    """

    dst: Out[Tile]
    op: Op
    left: Index | In[Tile]
    right: Index | In[Tile]

    rules = (
        _is_scalar("dst"),
        rule(
            "NS05",
            "op is {i.op}; scalars have +, - and *",
            lambda i, t: i.op in _OPERATORS,
            _SOURCE,
            error=ArgumentError,
            fix="compute in a (1, 1) tile",
        ),
        rule(
            "NS06",
            "operands {o[left]} and {o[right]} for {o[dst]}: both are whole numbers or scalars of its dtype",
            lambda i, t: all(_fits(side, i.dst) for side in _sides(i)),
            _SOURCE,
            error=ArgumentError,
            fix="load both from tensors of one dtype",
        ),
        rule(
            "NS07",
            "operands {i.left} and {i.right}: a whole number beyond the range of {i.dst.dtype} or 2**53",
            lambda i, t: all(isinstance(side, Access) or side in EXACT[i.dst.dtype] for side in _sides(i)),
            f"{_SOURCE}; an argument of native code is a float64",
            error=ArgumentError,
            fix="put the number together from smaller ones",
            by_value=True,
        ),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        left, right = (
            m.load(side) if isinstance(side, Access) else m.const(side, self.dst.dtype) for side in _sides(self)
        )
        m.store(self.dst, m.integer(self.op.name, left, right, self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """One instruction of the sequencer."""
        return cost.fixed(self, target, target.sequencer_ns, *target.origin("sequencer_ns"))

    @classmethod
    def sample(cls, draw: Draw) -> ScalarArithmetic:
        dtype = draw.choice(WIDTHS)
        numbers = EXACT[dtype]
        sides = [
            _drawn(draw, dtype) if draw.flag() else draw.integer(numbers.start, numbers.stop - 1) for _ in range(2)
        ]
        return cls(_drawn(draw, dtype), draw.choice(_OPERATORS), *sides)


def scalar_load(src: Any) -> NkiScalar:
    """The element of ``src`` as a scalar: a whole number that exists when the kernel runs.

    ``src``: one element of int32 or int64, in SBUF or HBM. The scalar has its dtype, and so has what is computed from
    it. Raises :class:`DTypeError` for other dtypes, :class:`ShapeError` and :class:`MemoryRegionError`.
    """
    where, recorder = here(), current("nisa.scalar_load")
    access = access_of(src)
    if not isinstance(access, Access):
        raise ArgumentError(f"nisa.scalar_load: src is {src!r:.40} ({type(src).__name__}), not a tensor", fix=_LOADED)
    if access.dtype not in WIDTHS:
        unsigned = next((kind for kind in WIDTHS if f"u{kind}" == access.dtype.name), None)
        fix = f"view it as the signed dtype of the same width, .view(nl.{unsigned})" if unsigned else _LOADED
        raise DTypeError(
            f"nisa.scalar_load: src '{access.name}' is {access.dtype}; scalars are int32 or int64", fix=fix
        )
    scalar = recorder.register(assigned_name(where, "scalar"), where, kind=NkiScalar, dtype=access.dtype)
    recorder.emit(ScalarLoad(scalar, access))
    return scalar


_LOADED = f"load a (1, 1) tensor of nl.{dt.int32} or nl.{dt.int64}"

__all__ = ["ScalarArithmetic", "ScalarLoad", "ScalarStore", "scalar_load"]
