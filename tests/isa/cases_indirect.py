"""The rules' test cases of indirect views: every instruction that takes them, with every operand that may be one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nki.isa as nisa
from nki.ir.instruction import REGISTRY
from nki.ir.types import Access, Dynamic, IndexKind

from .spec import Case, Spec, call, ints, psum, tile

engine = nisa.engine
TENSOR = ("nc_matmul", "nc_matmul_mx")
SCALAR = ("activation", "activation_reduce", "activate2")
ONLY = {"tensor_copy", "tensor_reduce", *TENSOR}
"""Instructions on which every tile may be an indirect view."""


class Chosen(Spec):
    """An indirect view: offsets in ``lists`` columns from partition ``index_at`` on; scales share the offsets."""

    def but(self, **changes: Any) -> Spec:
        made = super().but(**changes)
        return Chosen(*made.shape, dtype=made.dtype, buffer=made.buffer, **made.more)

    def make(self, name: str) -> Access:
        made = super().make(name)
        index = Spec(self.shape[0], self.more.get("lists", 2), dtype="uint16", at=self.more.get("index_at", 0))
        offsets = index.make(f"{name.removesuffix('_scale')}_index")
        dynamic = Dynamic(offsets, 1, IndexKind.elements)
        return Access(made.tensor, made.offset, made.shape, (made.strides[0], 0), made.dtype, dynamic)


def chosen(*shape: int, **more: Any) -> Spec:
    return Chosen(*shape, **more)


def columns(legal: dict[str, Any]) -> dict[str, Any]:
    """The tiles of one element per partition, on 32 partitions."""
    return {n: s.but(partitions=32) for n, s in legal.items() if isinstance(s, Spec) and s.shape[1:] == (1,)}


FLOATS = {"dtype": "bfloat16"}
VIEWS: dict[str, dict[str, Any]] = {
    "tensor_copy_predicated": call(dst=chosen(32, 24), src=tile(32, 24), predicate=chosen(32, 24, dtype="uint8")),
    "tensor_tensor": {"dst": chosen(32, 24), "data1": chosen(32, 24), "data2": tile(32, 24)},
    "tensor_reduce": {"dst": chosen(32, 1), "data": chosen(32, 24)},
    "nc_matmul": call(
        dst=chosen(64, 40, buffer="psum", **FLOATS),
        stationary=chosen(32, 64, **FLOATS),
        moving=chosen(32, 40, **FLOATS),
    ),
    "nc_matmul_mx": call(
        dst=chosen(64, 40, buffer="psum"),
        stationary=chosen(32, 64, dtype="float8_e4m3fn_x4"),
        moving=chosen(32, 40, dtype="float8_e4m3fn_x4"),
        stationary_scale=chosen(32, 64, dtype="uint8"),
        moving_scale=chosen(32, 40, dtype="uint8"),
    ),
}
"""Where that is not all of them, with 24 elements, and the others as columns."""
WIDE = {"tensor_reduce": {"dst": chosen(32, 24), "data": tile(32, 24, 2), "axis": 2}}
"""Where a list is too short only in another call."""
OTHERS = call(
    activation="bias",
    activation_reduce="scale",
    activate2="imm0",
    exponential="max_value",
    tensor_scalar="operand0",
    tensor_scalar_cumulative="imm0",
    tensor_scalar_reduce="reduce_res",
    tensor_copy_predicated="src",
    tensor_tensor="data2",
)


def views(mnemonic: str, legal: dict[str, Any]) -> dict[str, Any]:
    """What turns the legal call into one with as many indirect views as there may be."""
    names = REGISTRY[mnemonic].effects.element_indexed
    return {**columns(legal), **VIEWS.get(mnemonic, dict.fromkeys(names, chosen(32, 24)))}


def cases(every: dict[str, dict[str, Any]]) -> list[Case]:
    found: list[Case] = []
    for mnemonic, cls in REGISTRY.items():
        if cls.effects.element_indexed:
            twin = views(mnemonic, every[mnemonic])
            found += [*_general(mnemonic, twin), *_starts(mnemonic, twin)]
    return [*found, *_engines(every), *_matmuls(every)]


def _general(mnemonic: str, twin: dict[str, Any]) -> Iterator[Case]:
    names = REGISTRY[mnemonic].effects.element_indexed
    if not any(rule.code == "GE01" for rule in REGISTRY[mnemonic].rules):
        plain = {"dst": psum(64, 40), "moving": tile(32, 40, **FLOATS)} if mnemonic == "nc_matmul" else {}
        yield Case(mnemonic, "TI01", {}, {**twin, **plain}, "trn2", "trn3")
    if mnemonic not in ONLY:
        name = OTHERS[mnemonic]
        yield Case(mnemonic, "TI02", {name: chosen(*twin[name].shape, dtype=twin[name].dtype)}, twin)
    for name in names:
        wide = {**twin, **(WIDE.get(mnemonic, {}) if name == "dst" else {})}
        yield Case(mnemonic, "TI03", {name: wide[name].but(lists=1)}, wide)


def _starts(mnemonic: str, twin: dict[str, Any]) -> Iterator[Case]:
    names = REGISTRY[mnemonic].effects.element_indexed
    for name in names:
        yield Case(mnemonic, "TI04", {name: twin[name].but(index_at=16)}, twin)
    for name in names[1:]:
        if not name.endswith("_scale"):
            yield Case(mnemonic, "TI05", {name: twin[name].but(index_at=32)}, twin)
    yield Case(mnemonic, "TI06", {"dst": twin["dst"].but(index_at=32)}, twin)
    if mnemonic not in TENSOR:  # their operands are all in SBUF
        first = names[1]
        held = twin[first].but(buffer="psum", index_at=32, at=32)
        moved = {**twin, first: held, "dst": twin["dst"].but(index_at=32)}
        yield Case(mnemonic, "TI06", {"dst": twin["dst"]}, moved)


def _engines(every: dict[str, dict[str, Any]]) -> Iterator[Case]:
    for mnemonic in SCALAR:
        yield Case(mnemonic, "TI07", {"dst": chosen(32, 24, buffer="psum")}, views(mnemonic, every[mnemonic]))
    for mnemonic in ("tensor_copy", "tensor_scalar"):
        twin = {**views(mnemonic, every[mnemonic]), "engine": engine.scalar}
        yield Case(mnemonic, "TI07", {"dst": chosen(32, 24, buffer="psum")}, twin)
    copied = views("tensor_copy", every["tensor_copy"])
    yield Case("tensor_copy", "TI08", {"engine": engine.gpsimd}, {**copied, "engine": engine.vector})
    scaled = {**views("tensor_scalar", every["tensor_scalar"]), "dst": chosen(32, 24, dtype="int32")}
    yield Case("tensor_scalar", "TI09", {"data": ints(32, 24, dtype="uint32")}, scaled)


def _matmuls(every: dict[str, dict[str, Any]]) -> Iterator[Case]:
    for mnemonic in TENSOR:
        tiled = {**views(mnemonic, every[mnemonic]), "tile_size": (64, 128), "tile_position": (0, 0)}
        yield Case(mnemonic, "TI10", {"tile_position": (64, 0)}, tiled)
    transposed = call(
        dst=psum(64, 32, **FLOATS),
        stationary=chosen(32, 64, **FLOATS),
        moving=tile(32, 32, **FLOATS),
        is_transpose=True,
    )
    yield Case("nc_matmul", "TI11", {"moving": chosen(32, 32, **FLOATS)}, transposed)
    narrow = {"dst": psum(64, 40), "stationary": tile(32, 64), "moving": tile(32, 40)}
    for name, spec in narrow.items():
        yield Case("nc_matmul", "TI12", {name: chosen(*spec.shape, buffer=spec.buffer)}, narrow)
    packed = views("nc_matmul_mx", every["nc_matmul_mx"])
    for name in ("stationary", "moving"):
        scale = f"{name}_scale"
        shape = packed[scale].shape
        yield Case("nc_matmul_mx", "TI13", {scale: Spec(*shape, dtype="uint8")}, packed)
        yield Case("nc_matmul_mx", "TI13", {scale: packed[scale].but(lists=3)}, packed)
