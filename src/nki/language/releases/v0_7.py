"""NKI 0.7: CPython traces kernels ("Announcing changes to NKI specialization"), and the device has scalars."""

from __future__ import annotations

from typing import Final

from nki.frontend.frontend_errors import PARSER_ERRORS
from nki.frontend.release import LIST_ARGUMENT, Release, full_names
from nki.frontend.rewrite import WHILE

RELEASE: Final = Release(
    version="0.7",
    traced=True,
    names=full_names({
        "nki.isa": "NkiScalar scalar_load scalar_store",
        "nki.language": "NkiBlockGrid NkiGrid NkiTileGrid alloc_blocks alloc_tiles blocks int64 tiles uint64",
        "nki.language.NkiTensor": "data",
    }),
    instead={
        "nki.isa.scalar_load": "load a register with nisa.register_alloc or nisa.register_load",
        "nki.isa.scalar_store": "write nisa.register_store",
        "nki.language.NkiTensor.data": "leave it out: a tensor is its own data",
        "nki.language.tiles": "cut the tensor with slices",
    },
    removed={
        "nki.language.dynamic_range": "use `nl.fori_loop(start, stop, body)`, where `body(i)` is a function",
    },
    accepts=PARSER_ERRORS,
    hooks={WHILE: None},
    warnings={LIST_ARGUMENT: ""},  # nothing says that it refuses lists
    compiler_frontends=("tracer",),
)  # fmt: skip
