"""Rule cases of the collectives, by which ranks meet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nki.language as nl

from .spec import Case, Register, Spec, call, tile

ONE = ((0,),)
TWO = ((0, 1),)


def memory(*shape: int, **more: Any) -> Spec:
    return Spec(*(shape or (4, 8)), buffer="hbm", **more)


def row(columns: int = 1, dtype: str = "uint32", buffer: str = "hbm") -> Spec:
    """A row of the table of an exchange by count."""
    return Spec(1, columns, dtype=dtype, buffer=buffer)


_BOTH = {"srcs": [memory()], "dsts": [memory()], "groups": ONE}
_TILES = {"srcs": [tile(4, 8)], "dsts": [tile(4, 8)]}
_ROWS = {"send_counts": row(), "send_displs": row(), "recv_displs": row()}
LEGAL: dict[str, dict[str, Any]] = {
    "all_reduce": call(**_BOTH, op=nl.add),
    "all_gather": call(**_BOTH, collective_dim=0),
    "reduce_scatter": call(**_BOTH, collective_dim=0, op=nl.add),
    "all_to_all": call(**_BOTH, collective_dim=0),
    "collective_permute": call(**_BOTH, pairs=((0, 0),)),
    "collective_permute_reduce": call(**_BOTH, others=[memory()], pairs=((0, 0),), op=nl.add),
    "rank_id": call(dst=Register()),
    "processing_rank_id": call(dst=Register(), iteration=Register(), groups=ONE),
    "exchange_by_count": call(
        src=memory(), dst=memory(), recv_counts=row(), **_ROWS, groups=ONE, by_rank=True, priority=None
    ),
    "prepare_exchange": call(slot=row(3), **_ROWS, groups=ONE, priority=None),
}
_LISTS = [name for name, legal in LEGAL.items() if "srcs" in legal]
_REDUCING = [name for name, legal in LEGAL.items() if "op" in legal]
_BY_COUNT = ("exchange_by_count", "prepare_exchange")


def _everywhere() -> Iterator[Case]:
    for name in (*_LISTS, *_BY_COUNT, "processing_rank_id"):
        yield Case(name, "CL01", {"groups": ((0,), (1, 2))}, {"groups": ((0,), (1,))}, says="differ in size")
    for name in (*_LISTS, *_BY_COUNT):
        yield Case(name, "DM03", {"priority": 4}, {"priority": 3}, says="priority=4")
        yield Case(name, "DM04", {}, {"priority": 0}, "trn2", "trn3", says="trn2")


def _like_sources(name: str, specs: list[Spec]) -> dict[str, Any]:
    """As many destinations, of the same kind, as there are sources, and sources of both sides of a sum."""
    more = {"others": specs} if "others" in LEGAL[name] else {}
    return {"srcs": specs, "dsts": specs, **more}


def _lists(name: str) -> Iterator[Case]:
    one, two, shared = memory(), [memory(), memory()], Spec(4, 8, buffer="shared_hbm")
    yield Case(name, "CL02", {"dsts": two}, says="as many destinations")
    yield Case(name, "CL02", {"srcs": [], "dsts": []}, says="as many destinations")
    yield Case(name, "CL03", {"dsts": [tile(4, 8)]}, {"dsts": [shared]}, says="must be in HBM")
    if name == "all_to_all":
        yield Case(name, "CL03", _TILES, says="must be in HBM")
    else:
        tiles = _like_sources(name, [tile(4, 8)])
        yield Case(name, "CL03", {"srcs": [one]}, tiles, says="must be in HBM")
        yield Case(name, "CL03", {"dsts": [Spec(4, 8, buffer="psum")]}, tiles, says="or all in SBUF")
    yield Case(name, "CL04", {"srcs": [one, shared]}, _like_sources(name, two), says="one kind of HBM")
    yield Case(name, "CL04", {"dsts": [one, shared]}, _like_sources(name, two), says="one kind of HBM")
    if name in ("all_reduce", "all_gather", "reduce_scatter"):
        yield Case(
            name, "CL05", _like_sources(name, [tile(4, 8)] * 2), _like_sources(name, two), says="several tensors"
        )
    yield Case(name, "CL06", {"dsts": [memory(dtype="bfloat16")]}, says="bfloat16")
    yield Case(name, "CL07", {"srcs": [memory(role="input")]}, says="the_srcs0")
    yield Case(name, "CL07", {"dsts": [memory(role="input")]}, says="the_dsts0")
    yield Case(name, "CL08", {"dsts": [memory(4, 9)]}, says="(4, 9)")


def _by_count() -> Iterator[Case]:
    for name in _BY_COUNT:
        for field in ("send_counts", "send_displs", "recv_counts", "recv_displs"):
            if field in LEGAL[name]:
                yield Case(name, "CV02", {field: row(dtype="int32")}, {field: row(buffer="sbuf")}, says="int32")
                yield Case(name, "CV02", {field: row(2)}, says="(1, 2)")


CASES = [
    *_everywhere(),
    *(case for name in _LISTS for case in _lists(name)),
    *_by_count(),
    *(Case(name, "CL10", {"op": nl.multiply}, {"op": nl.minimum}, says="nl.multiply") for name in _REDUCING),
    *(Case(n, "CL09", {"collective_dim": 1}, says="it is 0") for n in ("all_gather", "reduce_scatter", "all_to_all")),
    Case("all_gather", "CL09", {"collective_dim": 2}, {**_TILES, "collective_dim": 1}, says="or 1 in SBUF"),
    Case("reduce_scatter", "CL09", {"collective_dim": 1}, _TILES, says="collective_dim=1"),
    # Of a wrong size by the number of ranks.
    Case("all_gather", "CL08", {"groups": ONE}, {"groups": TWO, "dsts": [memory(8, 8)]}, says="(8, 8)"),
    Case(
        "all_gather",
        "CL08",
        {"collective_dim": 0},
        {"groups": TWO, "srcs": [tile(4, 8)], "dsts": [tile(4, 16)], "collective_dim": 1},
        says="(4, 16)",
    ),
    Case("reduce_scatter", "CL08", {"groups": ONE}, {"groups": TWO, "srcs": [memory(8, 8)]}, says="(8, 8)"),
    Case("all_to_all", "CL08", {"groups": ((0, 1, 2),)}, {"dsts": [memory(8, 4)], "groups": TWO}, says="3 ranks"),
    Case(
        "all_gather",
        "CL11",
        {"srcs": [tile(4, 2, 4)], "dsts": [tile(4, 2, 4)]},
        {"srcs": [memory(4, 2, 4)], "dsts": [memory(4, 2, 4)]},
        says="2 dimensions",
    ),
    Case(
        "collective_permute",
        "CL12",
        {"pairs": ((0, 1), (0, 0))},
        {"groups": TWO, "pairs": ((0, 1), (1, 0))},
        says="the source of one pair",
    ),
    Case(
        "collective_permute",
        "CL12",
        {"pairs": ((0, 1), (1, 1))},
        {"groups": TWO, "pairs": ((0, 1),)},
        says="the target of one",
    ),
    Case("collective_permute_reduce", "CL13", {"others": [memory(4, 9)]}, says="(4, 9)"),
    Case("collective_permute_reduce", "CL13", {"others": [memory(dtype="bfloat16")]}, says="bfloat16"),
    *(Case(name, "CL14", {"dst": row(dtype="int32")}) for name in ("rank_id", "processing_rank_id")),
    Case("exchange_by_count", "CV03", {"src": tile(4, 8)}),
    Case("exchange_by_count", "CV03", {"dst": tile(4, 8)}),
    Case("exchange_by_count", "CV04", {"dst": memory(dtype="bfloat16")}),
    Case(
        "exchange_by_count",
        "CV01",
        {"dst": memory(3, 9)},
        {"groups": TWO, **{name: row(2) for name in (*_ROWS, "recv_counts")}},
        says="2 ranks",
    ),
    Case("exchange_by_count", "CL07", {"src": memory(role="input")}),
    Case("exchange_by_count", "CL07", {"dst": memory(role="input")}),
]
