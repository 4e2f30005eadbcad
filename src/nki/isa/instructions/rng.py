"""The engines' random numbers: ``nisa.rng``, ``rand2``, ``dropout``, and the generators' seeds and states.

GpSimd has one XORWOW generator a lane, the Vector engine four, which take turns (see ``nki.ir.rng_state``). A tile
uses the lanes of its own partitions. The Vector engine of generations before gen4 is documented to use a shift register
without saying which; here it has these generators too.
"""

from __future__ import annotations

from typing import Any

from nki.base.element_types import (
    bfloat16,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    int8,
    int16,
    int32,
    tfloat32,
    uint8,
    uint16,
    uint32,
)
from nki.base.errors import ArgumentError, DTypeError, EngineError, ShapeError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra, reinterpreted
from nki.ir.effects import Effects, EngineState, ImplicitOperand
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, Rule, instruction
from nki.ir.rng_state import GOLDEN, MIXING, WORDS
from nki.ir.sample import COMPUTING, FLOATS, INTEGERS, Draw
from nki.ir.types import Access, Buffer, In, InOut, Out, Scalar, Tile
from nki.isa.rules.operand_rules import (
    buffer,
    column,
    dtypes,
    engines,
    exists_from,
    rule,
    same_dtype,
    same_elements,
    same_partitions,
    tiles,
)
from nki.isa.tables import enums
from nki.target.memory_spaces import LANES, VECTOR_RNG_WORDS
from nki.target.model import Target

_E = enums.engine
_UNSIGNED = {1: uint8, 2: uint16, 4: uint32}
_INTEGERS = (int8, int16, int32, uint8, uint16, uint32)
_UNIFORM = (float32, float8_e4m3, float8_e5m2, float16, bfloat16, tfloat32, *_INTEGERS)


def _words(i: Any) -> int:
    """Words that a lane of the instruction's engine keeps."""
    return WORDS if _gpsimd(i) else VECTOR_RNG_WORDS


def _gpsimd(i: Any) -> bool:
    engine = i.engine_choice
    return engine is _E.gpsimd or (engine is _E.unknown and i.engines[0] is _E.gpsimd)


def _generators(operand: str | None) -> ImplicitOperand:
    """The generators of the partitions of ``operand``; without one, of all lanes."""

    def supply(i: Any, state: EngineState) -> Access:
        tile = None if operand is None else getattr(i, operand)
        first, lanes = 0, LANES
        if isinstance(tile, Access):  # verify refuses anything else
            first = tile.start_partition % LANES
            lanes = min(tile.partitions, LANES - first)
        return state("gpsimd.random" if _gpsimd(i) else "vector.random", uint32, lanes, _words(i), first)

    return ImplicitOperand("states", supply)


def _states(name: str | None) -> Rule:
    """The builder supplied the generators of the lanes that ``name`` lies in."""

    def ok(i: Any, t: Target) -> bool:
        held, words = i.states, _words(i)
        first, lanes = (0, t.partitions) if name is None else _lanes(getattr(i, name))
        return (
            isinstance(held, Access)
            and (held.buffer, held.dtype, held.tensor.dtype) == (Buffer.register, uint32, uint32)
            and held.tensor.shape == (t.partitions, words)
            and (held.offset // words, held.offset % words) == (first, 0)
            and (held.shape, held.strides) == ((lanes, words), (words, 1))
        )

    return rule(
        "RN01",
        "states={o[states]} are not the generators that {i.mnemonic} uses",
        ok,
        "this project: the builder supplies them, and a kernel in text form may have lost them",
        error=ArgumentError,
        fix="compare with the output of `nki dump`",
    )


def _lanes(tile: Access) -> tuple[int, int]:
    return tile.start_partition, tile.partitions


def _on_gpsimd(since: int, source: str) -> Rule:
    return rule(
        "RN02",
        "the GpSimd engine of {t.name} makes no random numbers",
        lambda i, t: i.engine is not _E.gpsimd,
        source,
        error=EngineError,
        fix="use nisa.engine.vector",
        until=since - 1,
    )


def _on_vector(source: str) -> Rule:
    return rule(
        "RN03",
        "the state of the Vector engine of {t.name} cannot be set or read",
        lambda i, t: i.engine is not _E.vector,
        source,
        error=EngineError,
        fix="use nisa.engine.gpsimd, or nisa.set_rng_seed to seed the Vector engine",
        until=3,
    )


def _draw(i: Any, m: Algebra[Any], count: int) -> Any:
    """The next ``count`` words of the generators."""
    bits, after = m.xorwow(m.load(i.states), count)
    m.store(i.states, after)
    return bits


def _unit(m: Algebra[Any], bits: Any) -> Any:
    """The upper 24 bits as a float32 from 0 to 1, below 1: all of them are exact."""
    return m.alu(
        "multiply", m.cast(m.alu("right_shift", bits, m.const(8, uint32)), float32), m.const(2.0**-24, float32)
    )


@instruction(engines=(_E.vector, _E.gpsimd), effects=Effects(implicit=_generators("dst")))
class Rng(Inst):
    """Fill ``dst``, an integer tile, with random bits: the low ones of a 32-bit number for each element.

    ``engine`` is ``vector`` (default) or, on gen3 and later and in SBUF, ``gpsimd``; each has generators of its own.
    """

    dst: Out[Tile]
    engine: enums.engine = _E.vector
    name: str | None = None
    states: InOut[Tile] | None = None

    rules = (
        *tiles("dst"),
        dtypes("dst", *_INTEGERS),
        *engines(_E.vector, _E.gpsimd),
        _on_gpsimd(3, "NKI reference, nki.isa.rng"),
        _states("dst"),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        size = self.dst.dtype.itemsize
        bits = _draw(self, m, self.dst.free_elements)
        if size < 4:
            bits = m.narrow(m.alu("bitwise_and", bits, m.const((1 << 8 * size) - 1, uint32)), _UNSIGNED[size])
        m.store(reinterpreted(self.dst, _UNSIGNED[size]), bits)

    def cost(self, target: Target) -> Estimate:
        """``max(64, N / r) + issue`` cycles for N elements per partition; r numbers per cycle, 1 on GpSimd."""
        rate = 1 if _gpsimd(self) else target.vector_random_per_cycle
        return cost.guessed(self, target, self.dst.free_elements / rate, target.source("vector_random_per_cycle"))

    @classmethod
    def sample(cls, draw: Draw) -> Rng:
        by_gpsimd = draw.target.generation > 2 and draw.flag()
        where = draw.choice((Buffer.sbuf, Buffer.psum)) if not by_gpsimd else Buffer.sbuf
        dst = draw.tile(draw.partitions(), draw.free(), draw.choice(INTEGERS), where)
        return cls(dst, _E.gpsimd if by_gpsimd else draw.choice((_E.vector, _E.unknown)))


@instruction(engines=(_E.vector,), effects=Effects(implicit=_generators("dst")))
class Rand2(Inst):
    """Fill ``dst`` with random numbers spread evenly from ``min`` to ``max``; gen4.

    ``min`` and ``max`` are numbers or float32 tiles ``(partitions, 1)``. A float32 number is ``min + u * (max - min)``,
    each step rounded, and at most ``max``; u is a multiple of 2**-24 from 0 to 1, below 1. It is rounded once to the
    dtype of ``dst``, which may be an integer.
    """

    dst: Out[Tile]
    min: Scalar | In[Tile]
    max: Scalar | In[Tile]
    name: str | None = None
    states: InOut[Tile] | None = None

    rules = (
        exists_from(4, "NKI reference, nki.isa.rand2"),
        *tiles("dst", "min", "max"),
        dtypes("dst", *_UNIFORM),
        dtypes("min", float32),
        dtypes("max", float32),
        column("min", "dst"),
        column("max", "dst"),
        rule(
            "RN04",
            "min={o[min]} is not below max={o[max]}",
            lambda i, t: isinstance(i.min, Access) or isinstance(i.max, Access) or i.min < i.max,
            "NKI reference, nki.isa.rand2",
            error=ArgumentError,
            fix="pass min < max",
            by_value=True,
        ),
        _states("dst"),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        low, high = m.load(self.min), m.load(self.max)
        unit = _unit(m, _draw(self, m, self.dst.free_elements))
        value = m.alu("add", low, m.alu("multiply", unit, m.alu("subtract", high, low)))
        m.store(self.dst, m.cast(m.alu("minimum", value, high), self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """``max(64, N / r) + issue`` Vector cycles for N elements per partition, r numbers per cycle."""
        cycles = self.dst.free_elements / target.vector_random_per_cycle
        return cost.pipelined(self, target, cycles, *target.origin("vector_random_per_cycle"))

    @classmethod
    def sample(cls, draw: Draw) -> Rand2:
        partitions = draw.partitions()
        dst = draw.tile(partitions, draw.free(), draw.choice(_UNIFORM), draw.choice((Buffer.sbuf, Buffer.psum)))
        low = draw.number()
        high = low + draw.choice((0.5, 1.0, 300.0))
        least, most = (end if draw.flag() else draw.column(partitions) for end in (low, high))
        return cls(dst, least, most)


@instruction(engines=(_E.vector,), effects=Effects(implicit=_generators("dst")))
class Dropout(Inst):
    """``data`` with elements replaced by 0, each with the probability ``prob``: 1.0 drops all, 0.0 keeps all.

    ``prob`` is a number or a tile ``(partitions, 1)``: float32 where ``data`` is an integer, else of any float dtype.
    ``dst`` has the dtype of ``data``; what is kept keeps its bits and is not scaled. An element is dropped if a random
    multiple of 2**-24 from 0 to 1, below 1, is below ``prob`` (or ``prob`` is NaN).
    """

    dst: Out[Tile]
    data: In[Tile]
    prob: Scalar | In[Tile]
    name: str | None = None
    states: InOut[Tile] | None = None

    rules = (
        *tiles("dst", "data", "prob"),
        same_partitions("dst", "data"),
        same_elements("dst", "data"),
        same_dtype("dst", "data"),
        column("prob", "data"),
        rule(
            "RN05",
            "prob '{i.prob.name}' is {i.prob.dtype}, with data of {i.data.dtype}",
            lambda i, t: (
                not isinstance(i.prob, Access)
                or i.prob.dtype is float32
                or (i.data.dtype.is_float and i.prob.dtype.is_float)
            ),
            "NKI reference, nki.isa.dropout",
            error=DTypeError,
            fix="copy it to a float32 tile with nisa.tensor_copy",
        ),
        _states("dst"),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        data, prob = m.load(self.data), m.load(self.prob)
        kept = m.alu("greater_equal", _unit(m, _draw(self, m, self.dst.free_elements)), prob)
        m.store(self.dst, m.select(kept, data, m.const(0, self.data.dtype)))

    def cost(self, target: Target) -> Estimate:
        """``max(64, N) + issue`` Vector cycles for N elements per partition."""
        return cost.streaming(self, target, self.dst.free_elements, "dropout")

    @classmethod
    def sample(cls, draw: Draw) -> Dropout:
        partitions, free, dtype = draw.partitions(), draw.free(), draw.choice(COMPUTING)
        prob = draw.column(partitions, draw.choice(FLOATS) if dtype.is_float else float32)
        chance = draw.choice((0.0, 0.25, 0.5, 0.75, 1.0))
        return cls(
            draw.tile(partitions, free, dtype), draw.tile(partitions, free, dtype), prob if draw.flag() else chance
        )


@instruction(engines=(_E.vector,), effects=Effects(implicit=_generators(None)))
class SetRngSeed(Inst):
    """Set all generators of the Vector engine from one 32-bit number in a ``(1, 1)`` tile.

    The bits of ``src_seeds`` count, whatever its dtype. Word w of lane p becomes mix((24 p + w + 1) * 0x9E3779B9 +
    mix(seed)) in wrapping arithmetic, where mix is the end of MurmurHash3. Every kernel starts as with the seed 0.
    """

    src_seeds: In[Tile]
    name: str | None = None
    states: Out[Tile] | None = None

    rules = (
        *tiles("src_seeds"),
        rule(
            "RN06",
            "src_seeds {o[src_seeds]} is not one 32-bit number",
            lambda i, t: i.src_seeds.size == 1 and i.src_seeds.dtype.itemsize == 4,
            "NKI reference, nki.isa.set_rng_seed",
            error=ShapeError,
            fix="pass a (1, 1) tile of uint32",
        ),
        _states(None),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        states = self.states
        assert states is not None
        seed = _mixed(m, m.load(reinterpreted(self.src_seeds, uint32)))
        number = m.iota(((1, VECTOR_RNG_WORDS),), 1, VECTOR_RNG_WORDS, states.partitions)
        spread = m.integer("multiply", number, m.const(GOLDEN, uint32), uint32)
        m.store(states, _mixed(m, m.integer("add", spread, seed, uint32)))

    def cost(self, target: Target) -> Estimate:
        """``64 + issue`` cycles."""
        return cost.guessed(self, target, 0, "the least that an instruction of this engine takes")

    @classmethod
    def sample(cls, draw: Draw) -> SetRngSeed:
        kinds = (uint32, int32, float32)
        return cls(draw.tile(1, 1, draw.choice(kinds), draw.choice((Buffer.sbuf, Buffer.psum))))


def _mixed(m: Algebra[Any], value: Any) -> Any:
    for shift, factor in MIXING:
        value = m.alu("bitwise_xor", value, m.alu("right_shift", value, m.const(shift, uint32)))
        value = m.integer("multiply", value, m.const(factor, uint32), uint32)
    return value


def _state_rules(tile: str, source: str, *more: Rule) -> tuple[Rule, ...]:
    return (
        exists_from(3, source),
        *tiles(tile),
        dtypes(tile, uint32),
        *engines(_E.gpsimd, _E.vector),
        _on_vector(source),
        *more,
        rule(
            "RN07",
            f"{tile} {{o[{tile}]}} is no state of engine {{i.engine.name}}: a partition has 6 words of GpSimd's, 24 of "
            "the Vector engine's",
            lambda i, t: getattr(i, tile).shape[1:] == (_words(i),),
            source,
            error=ShapeError,
            fix="pass a tile of shape (partitions, 6) for GpSimd, (partitions, 24) for Vector",
        ),
        _states(tile),
    )


def _state_sample(draw: Draw, where: Buffer = Buffer.sbuf) -> tuple[Access, enums.engine]:
    """A tile of states. Samples for generations without the instruction are made as for gen3."""
    by_vector = draw.target.generation > 3 and draw.flag()
    tile = draw.block(
        draw.partitions(), (VECTOR_RNG_WORDS if by_vector else WORDS,), uint32, where if by_vector else Buffer.sbuf
    )
    return tile, _E.vector if by_vector else draw.choice((_E.gpsimd, _E.unknown))


@instruction(engines=(_E.gpsimd, _E.vector), effects=Effects(implicit=_generators("src_seeds")))
class RandSetState(Inst):
    """Set an engine's generators, in the lanes of ``src_seeds``, to the words in its partitions; gen3 and later.

    ``src_seeds`` is a uint32 tile in SBUF: ``(partitions, 6)`` for GpSimd (default), ``(partitions, 24)`` for the
    Vector engine (gen4): its four generators follow one another. A generator's words are x, y, z, w, v and d of
    XORWOW.
    """

    src_seeds: In[Tile]
    engine: enums.engine = _E.gpsimd
    name: str | None = None
    states: Out[Tile] | None = None

    rules = _state_rules("src_seeds", "NKI reference, nki.isa.rand_set_state", buffer("src_seeds", Buffer.sbuf))

    def semantics(self, m: Algebra[Any]) -> None:
        assert self.states is not None
        m.store(self.states, m.load(self.src_seeds))

    def cost(self, target: Target) -> Estimate:
        """``64 + issue`` cycles."""
        return cost.guessed(self, target, 0, "the least that an instruction of this engine takes")

    @classmethod
    def sample(cls, draw: Draw) -> RandSetState:
        return cls(*_state_sample(draw))


@instruction(engines=(_E.gpsimd, _E.vector), effects=Effects(implicit=_generators("dst")))
class RandGetState(Inst):
    """Copy the words of an engine's generators, in the lanes of ``dst``, to its partitions; gen3 and later.

    ``dst`` is a uint32 tile as ``nisa.rand_set_state`` takes it; for the Vector engine (gen4) it may be in PSUM.
    """

    dst: Out[Tile]
    engine: enums.engine = _E.gpsimd
    name: str | None = None
    states: In[Tile] | None = None

    rules = _state_rules("dst", "NKI reference, nki.isa.rand_get_state")

    def semantics(self, m: Algebra[Any]) -> None:
        assert self.states is not None
        m.store(self.dst, m.load(self.states))

    def cost(self, target: Target) -> Estimate:
        """``64 + issue`` cycles."""
        return cost.guessed(self, target, 0, "the least that an instruction of this engine takes")

    @classmethod
    def sample(cls, draw: Draw) -> RandGetState:
        return cls(*_state_sample(draw, draw.choice((Buffer.sbuf, Buffer.psum))))
