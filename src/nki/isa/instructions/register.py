"""``nisa.register_alloc``, ``register_move``, ``register_load`` and ``register_store``: the sequencers' registers."""

from __future__ import annotations

from typing import Any

from nki.base import element_types as dt
from nki.base.assigned_name import assigned_name
from nki.base.errors import ArgumentError, DTypeError, FrozenRegisterError
from nki.base.source import here
from nki.cost import engines as cost
from nki.ir.algebra import Algebra, reinterpreted
from nki.ir.deprecation import DeprecatedForms
from nki.ir.effects import Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, Rule, instruction
from nki.ir.loop import VirtualRegister, is_register
from nki.ir.recorder import current
from nki.ir.sample import INTEGERS, Draw
from nki.ir.scalars import NkiScalar
from nki.ir.types import Access, In, Index, Out, Tile, access_of
from nki.isa.deprecated import renamed
from nki.isa.rules.operand_rules import one_element, rule
from nki.isa.tables import enums
from nki.target.model import Target

_SOURCE = "NKI reference, nki.isa.register_alloc and the functions beside it"
_WORD = range(-(1 << 31), 1 << 32)
_KINDS = (*INTEGERS, dt.float32)


def _is_register(name: str) -> Rule:
    return rule(
        "RG01",
        f"{name} is {{o[{name}]}} and not a register",
        lambda i, t: is_register(getattr(i, name)),
        _SOURCE,
        error=ArgumentError,
        fix="pass what nisa.register_alloc returned",
    )


def _not_frozen(i: Any, t: Target) -> bool:
    return not (isinstance(i.dst, VirtualRegister) and i.dst.frozen)


_WRITABLE = (
    rule(
        "RG02",
        "register '{i.dst.name}' counts the rounds of a loop, which alone writes it",
        _not_frozen,
        "NKI language guide, dynamic control flow; migration guide to NKI 0.6",
        error=FrozenRegisterError,
        fix="copy it to a register of your own with nisa.register_move",
        by_value=True,
    ),
    rule(
        "RG08",
        "dst is scalar '{i.dst.name}', which never changes",
        lambda i, t: not isinstance(i.dst, NkiScalar),
        "NKI reference, nki.isa.NkiScalar",
        error=FrozenRegisterError,
        fix="write to a register of nisa.register_alloc, or compute a new scalar",
        by_value=True,
    ),
)


def _exchanged(name: str) -> tuple[Rule, ...]:
    return (
        *one_element(
            name,
            ("RG03", "a register holds one element"),
            ("RG04", "registers exchange data with sbuf and HBM"),
            _SOURCE,
        ),
        rule(
            "RG05",
            f"{name} is {{o[{name}]}}; a register holds an integer of up to 32 bits, or the bits of a float32",
            lambda i, t: getattr(i, name).dtype in _KINDS,
            "NKI language guide, dynamic control flow",
            error=DTypeError,
            fix="convert it to int32 with nisa.tensor_copy",
        ),
    )


@instruction(
    engines=(enums.engine.sync,),
    effects=Effects(scalar_registers=("dst", "src")),
    deprecated=DeprecatedForms((renamed("imm", "src", "0.3"),)),
)
class RegisterMove(Inst):
    """``dst = src``: a whole number of 32 bits, or the contents of another register."""

    dst: Out[Tile]
    src: Index | In[Tile]

    rules = (
        _is_register("dst"),
        *_WRITABLE,
        rule(
            "RG06",
            "src is {o[src]}, neither a register nor a whole number",
            lambda i, t: is_register(i.src) if isinstance(i.src, Access) else type(i.src) is int,
            _SOURCE,
            error=ArgumentError,
            fix="load the element of a tensor with nisa.register_load",
        ),
        rule(
            "RG07",
            "src={i.src} does not fit into the 32 bits of a register",
            lambda i, t: not isinstance(i.src, int) or i.src in _WORD,
            _SOURCE,
            error=ArgumentError,
            fix="pass a number from -2**31 to 2**32 - 1",
            by_value=True,
        ),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        if isinstance(self.src, Access):
            m.store(self.dst, m.load(self.src))
        else:
            m.store(self.dst, m.iota(((0, 1),), self.src, 0, 1))

    def cost(self, target: Target) -> Estimate:
        """One instruction of the sequencer."""
        return cost.fixed(self, target, target.sequencer_ns, *target.origin("sequencer_ns"))

    @classmethod
    def sample(cls, draw: Draw) -> RegisterMove:
        return cls(draw.register(), draw.register() if draw.flag() else draw.integer(-(1 << 31), (1 << 31) - 1))


@instruction(engines=(enums.engine.sync,), effects=Effects(scalar_registers=("dst",)))
class RegisterLoad(Inst):
    """``dst = src``: one element of a tensor in SBUF or HBM.

    Integers narrower than the register keep their value. Of a float32 the register holds the bits, which as a loop
    bound or an index would be read as an integer.
    """

    dst: Out[Tile]
    src: In[Tile]

    rules = (_is_register("dst"), *_WRITABLE, *_exchanged("src"))

    def semantics(self, m: Algebra[Any]) -> None:
        if self.src.dtype is dt.float32:
            m.store(self.dst, m.flat(reinterpreted(self.src, dt.int32)))
        else:
            m.store(self.dst, m.integer("add", m.flat(self.src), m.const(0, dt.int32), dt.int32))

    def cost(self, target: Target) -> Estimate:
        """One read of a register from memory."""
        return cost.fixed(self, target, target.register_load_ns, *target.origin("register_load_ns"))

    @classmethod
    def sample(cls, draw: Draw) -> RegisterLoad:
        dtype = draw.choice(_KINDS)
        return cls(draw.register(), draw.tile(1, 1, dtype) if draw.flag() else draw.hbm((1,), dtype))


@instruction(engines=(enums.engine.sync,), effects=Effects(scalar_registers=("src",)))
class RegisterStore(Inst):
    """``dst = src``: the register's low bits, as many as an element of ``dst`` in SBUF or HBM has."""

    dst: Out[Tile]
    src: In[Tile]

    rules = (_is_register("src"), *_exchanged("dst"))

    def semantics(self, m: Algebra[Any]) -> None:
        kind = dt.int32 if self.dst.dtype is dt.float32 else self.dst.dtype
        low = Access(self.src.tensor, 0, (1, 1), (4 // kind.itemsize, 1), kind)
        m.store(reinterpreted(self.dst, kind), m.flat(low))

    def cost(self, target: Target) -> Estimate:
        """One write of a register to memory."""
        return cost.fixed(self, target, target.register_store_ns, *target.origin("register_store_ns"))

    @classmethod
    def sample(cls, draw: Draw) -> RegisterStore:
        dtype = draw.choice(_KINDS)
        return cls(draw.tile(1, 1, dtype) if draw.flag() else draw.hbm((1,), dtype), draw.register())


def register_alloc(x: Any = None) -> VirtualRegister:
    """A new register: empty (None), holding the whole number ``x``, or a copy of a register or of one element.

    A register is 32 bits wide. Raises :class:`ArgumentError` for another ``x``.
    """
    where = here()
    register = current("nisa.register_alloc").register(assigned_name(where, "register"), where)
    source: Any = access_of(x)
    if isinstance(source, Access) and not is_register(source):
        _record(RegisterLoad(register, source))
    elif x is not None:
        _record(RegisterMove(register, x))
    return register


def _record(inst: Inst) -> None:
    current("nisa.register_alloc").emit(inst)
