"""The rules' test cases of the DMA instructions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nki.isa as nisa
import nki.language as nl
from nki.ir.types import Access, Dynamic, IndexKind

from .spec import Case, Spec, call, ints, psum, tile

engine, mode, skip = nisa.engine, nisa.dge_mode, nisa.oob_mode.skip


class Gathered(Spec):
    """A tensor with an index for each row, found in a tile of ``indices``; or with ``one`` for all rows."""

    def __init__(self, *shape: int, indices: tuple[int, ...] = (), kind: str = "int32", **more: Any) -> None:
        super().__init__(*shape, **{"buffer": "hbm", **more})
        self.indices, self.kind = indices or (shape[0], 1), kind

    def make(self, name: str) -> Access:
        made = super().make(name)
        index = Spec(*self.indices, dtype=self.kind).make(f"{name}_index")
        reach = IndexKind.whole if self.indices == (1, 1) else IndexKind.rows
        return Access(
            made.tensor, made.offset, made.shape, made.strides, made.dtype, Dynamic(index, made.strides[0], reach)
        )


class Dst(Spec):
    """The very operand ``dst``, wherever it stands."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(*spec.shape)
        self.spec = spec

    def make(self, name: str) -> Access:
        return self.spec.make("dst")


def hbm(*shape: int, dtype: str = "float32") -> Spec:
    return Spec(*shape, dtype=dtype, buffer="hbm")


def half(*shape: int, buffer: str = "sbuf") -> Spec:
    return Spec(*shape, dtype="bfloat16", buffer=buffer)


def gathered(*shape: int, indices: tuple[int, ...] = (16, 1), kind: str = "uint32", dtype: str = "bfloat16") -> Spec:
    return Gathered(*shape, indices=indices, kind=kind, dtype=dtype)


LEGAL: dict[str, dict[str, Any]] = {
    "dma_copy": call("dst", src=hbm(4, 8)),
    "dma_transpose": call(dst=tile(8, 4), src=hbm(4, 8)),
    "dma_compute": call("dst", srcs=[hbm(4, 8), tile(4, 8)], reduce_op=nl.add),
}
HARDWARE: dict[str, Any] = {"dst": half(8, 16), "src": half(16, 8), "dge_mode": mode.hwdge}
INDIRECT: dict[str, Any] = {"dst": half(8, 16), "src": gathered(16, 8)}
SCATTER: dict[str, Any] = {"dst": Gathered(4, 8), "srcs": [tile(4, 8), Dst(Gathered(4, 8))]}
GATHER: dict[str, Any] = {"dst": tile(4, 8), "srcs": [Gathered(4, 8), Dst(tile(4, 8))]}
ROWS: dict[str, dict[str, Any]] = {
    "dma_copy": {"src": Gathered(4, 8)},
    "dma_transpose": INDIRECT,
    "dma_compute": GATHER,
}


def shared() -> Iterator[Case]:
    """The rules in ``dma_rules``."""
    for name in LEGAL:
        yield Case(name, "DM01", {"dst": psum(*LEGAL[name]["dst"].shape)})
        yield Case(name, "DM05", {}, ROWS[name], "trn1", "trn2", says="trn1")
        if name == "dma_compute":
            continue
        legal = HARDWARE if name == "dma_transpose" else {"dge_mode": mode.hwdge}
        yield Case(name, "DM02", {}, legal, "trn1", "trn2", says="trn1")
        yield Case(name, "DM03", {"priority": 4}, {"priority": 3}, says="priority=4")
        yield Case(name, "DM04", {}, {"priority": 0}, "trn2", "trn3", says="trn2")
        # Indices that no argument names are no reason for hardware descriptors.
        broken = {"dge_mode": mode.none}
        yield Case(name, "DM07", broken, {**ROWS[name], "dge_mode": mode.swdge}, says="dge_mode=none")
    yield Case("dma_copy", "DM06", {"src": Gathered(4, 8, buffer="sbuf")}, ROWS["dma_copy"])
    yield Case("dma_compute", "DM06", {"srcs": [Gathered(4, 8, buffer="sbuf"), Dst(tile(4, 8))]}, GATHER, says="srcs0")
    on_chip = Gathered(16, 8, indices=(16, 1), kind="uint32", dtype="bfloat16", buffer="sbuf")
    yield Case("dma_transpose", "DM06", {"src": on_chip}, INDIRECT)
    yield Case("dma_copy", "DM08", {"src": Gathered(4, 8, indices=(4, 2))}, ROWS["dma_copy"])
    yield Case("dma_copy", "DM08", {"src": Gathered(4, 8, indices=(5, 1))}, ROWS["dma_copy"])
    yield Case("dma_compute", "DM08", {"srcs": [Gathered(4, 8, indices=(2, 2)), Dst(tile(4, 8))]}, GATHER, says="srcs0")


def transpose() -> Iterator[Case]:
    def case(code: str, broken: dict[str, Any], twin: dict[str, Any] | None = None, says: str = "") -> Case:
        return Case("dma_transpose", code, broken, twin or {}, says=says)

    three = {"dst": tile(8, 6, 4), "src": hbm(4, 6, 8)}
    four = {"dst": tile(8, 2, 3, 4), "src": hbm(4, 2, 3, 8)}
    yield case("BU01", {"dst": hbm(8, 4)})
    yield case("DX01", {"src": hbm(4, 2, 3, 1, 8)}, four)
    yield case("DX01", {"src": hbm(4)})
    yield case("DX02", {"axes": (0, 1)}, {"axes": (1, 0)})
    yield case("DX02", {"axes": (1, 2, 0)}, {**three, "axes": (2, 1, 0)})
    yield case("DX02", {"axes": (3, 2, 1, 0)}, {**four, "axes": [3, 1, 2, 0]})
    yield case("DX03", {"dst": tile(4, 8)})
    yield case("DX03", {"dst": tile(8, 1, 4)})  # once padded to the rank of src
    yield case("DX03", {"dst": tile(8, 6, 4)}, four)
    yield case("DX03", {"dst": tile(8, 3, 2, 4)}, four)
    yield case("DX04", {"dst": ints(8, 4)})
    yield case("DX05", {"dge_mode": mode.swdge}, {"dge_mode": mode.none})
    yield case("DX05", {"src": half(16, 8)}, {**INDIRECT, "dge_mode": mode.swdge})
    one = {"dst": tile(8, 4), "src": Gathered(4, 8, indices=(1, 1))}
    yield case("DX05", {"src": hbm(4, 8)}, {**one, "dge_mode": mode.swdge})
    yield case("DX06", {"dst": half(8, 8), "src": half(8, 8)}, HARDWARE)
    yield case(
        "DX06", {"dst": half(8, 3, 8), "src": half(8, 3, 8)}, {**HARDWARE, "dst": half(8, 2, 8), "src": half(8, 2, 8)}
    )
    four_halves = {**HARDWARE, "dst": half(8, 3, 16, 1), "src": half(1, 3, 16, 8)}
    yield case("DX06", {"dst": half(8, 16, 3, 1), "src": half(1, 16, 3, 8)}, four_halves)
    yield case("DX07", {"dst": tile(129, 4), "src": hbm(4, 129)}, {"dst": tile(128, 4), "src": hbm(4, 128)})
    yield case("DX08", {"dst": tile(8, 16), "src": tile(16, 8)}, HARDWARE)
    yield case("DX08", {"dst": tile(8, 16), "src": gathered(16, 8, dtype="float32")}, INDIRECT)
    yield case("DX09", {"oob_mode": skip})
    yield case("DX09", {"src": half(16, 8)}, {**INDIRECT, "oob_mode": skip})
    yield case("DX09", {"src": hbm(4, 8)}, {**one, "oob_mode": skip})
    wide = {"dst": half(8, 1, 3, 16), "src": gathered(16, 1, 3, 8)}
    yield case("DX10", {"dst": half(8, 2, 3, 16), "src": gathered(16, 2, 3, 8)}, wide)
    yield case("DX11", {"dst": half(8, 24), "src": gathered(24, 8, indices=(32, 1))}, INDIRECT)
    yield case("DX12", {"src": gathered(16, 8, kind="int32")}, INDIRECT, says="int32")
    yield case("DX13", {"src": gathered(16, 8, indices=(24, 1))}, INDIRECT, says="(24, 1)")
    yield case("DX13", {"src": gathered(16, 8, indices=(16, 2))}, INDIRECT, says="(16, 2)")
    yield case(
        "DX13",
        {"src": gathered(16, 8, indices=(128, 2, 1))},
        {**INDIRECT, "src": gathered(16, 8, indices=(128, 2))},
        says="2, 1",
    )
    many = {"dst": half(8, 48), "src": gathered(48, 8, indices=(128, 1))}
    yield case("DX14", {"src": gathered(48, 8, indices=(32, 1))}, many)


def compute() -> Iterator[Case]:
    def case(code: str, broken: dict[str, Any], twin: dict[str, Any] | None = None, says: str = "") -> Case:
        return Case("dma_compute", code, broken, twin or {}, says=says)

    yield case("DA01", {"srcs": [tile(4, 8)]}, says="srcs0")
    yield case("DA01", {"srcs": [tile(4, 8)] * 17}, {"srcs": [tile(4, 8)] * 16}, says="srcs16")
    yield case("DA02", {"srcs": [tile(4, 8), tile(4, 9)]}, {"srcs": [tile(4, 8), hbm(32)]})
    yield case("DA03", {"reduce_op": nl.multiply}, says="nl.multiply")
    yield case("DA04", {"scales": [1.0, 2.0]}, {"scales": [1.0, 1]}, says="2.0")
    yield case("DA04", {"scales": [1.0]}, says="(1.0,)")
    yield case("DM01", {"srcs": [tile(4, 8), psum(4, 8)]}, says="srcs1")
    yield case("DA05", {"srcs": [tile(4, 8), tile(4, 8, dtype="float8_e4m3fn_x4")]})
    yield case("DA06", {"srcs": [tile(4, 8), Gathered(4, 8, indices=(1, 1))]})
    yield case("DA07", {"oob_mode": skip})
    yield case("DA07", {"srcs": [hbm(4, 8), tile(4, 8)]}, {**GATHER, "oob_mode": skip})
    yield case("DA08", {"srcs": [Gathered(4, 8), tile(4, 8)]}, GATHER)
    yield case("DA08", {"srcs": [Gathered(4, 8), Dst(tile(4, 8)), tile(4, 8)]}, GATHER)
    yield case("DA08", {"srcs": [tile(4, 8), tile(4, 8)]}, SCATTER)
    yield case("DA09", {"srcs": [hbm(4, 8), Dst(Gathered(4, 8))]}, SCATTER)
    yield case("DA09", {"srcs": [Gathered(4, 8), Dst(Gathered(4, 8))]}, SCATTER)
    yield case("DA09", {"srcs": [Dst(Gathered(4, 8))] * 2}, SCATTER)
    yield case("DA09", {"dst": hbm(4, 8), "srcs": [Gathered(4, 8), Dst(hbm(4, 8))]}, GATHER)
    yield case(
        "DA10", {"srcs": [tile(2, 16), Dst(Gathered(4, 8))]}, {**SCATTER, "srcs": [tile(4, 2, 4), Dst(Gathered(4, 8))]}
    )
    yield case("DA11", {"unique_indices": False}, GATHER, says="srcs0")
    yield case("DA11", {"dst": Gathered(4, 8), "srcs": SCATTER["srcs"]}, {"unique_indices": False})


CASES = [
    *shared(),
    *transpose(),
    *compute(),
    Case("dma_copy", "DC01", {"dst": tile(4, 9)}, {"dst": tile(8, 4)}),
    Case("dma_copy", "DC02", {"engine": engine.vector}, {"dge_mode": mode.hwdge, "engine": engine.sync}, says="vector"),
    Case("dma_copy", "DC02", {"engine": engine.scalar}, says="scalar"),
    Case("dma_copy", "DC03", {"dst": tile(4, 8, dtype="bfloat16")}, {"dge_mode": mode.hwdge}, says="bfloat16"),
    Case(
        "dma_copy",
        "DC04",
        {"dst": ints(4, 8)},
        dict.fromkeys(("dst", "src"), tile(4, 8, dtype="float4_e2m1fn_x4")),
        says="int32",
    ),
    Case("dma_copy", "DC05", {"dst": tile(2, 16)}, ROWS["dma_copy"]),
]
