"""NKI 0.7: CPython traces kernels ("Announcing changes to NKI specialization"), the device has scalars, and collectives
return their instructions, which older releases do not promise; a kernel for them leaves the result alone.
"""

from __future__ import annotations

from typing import Final

from nki.frontend.frontend_errors import PARSER_ERRORS
from nki.frontend.release import LIST_ARGUMENT, Release, full_names
from nki.frontend.rewrite import WHILE

RELEASE: Final = Release(
    version="0.7",
    traced=True,
    names=full_names({
        "nki.collectives": "all_gather_v_prepare all_gather_v_trigger all_to_all_v_prepare all_to_all_v_trigger "
        "rg_partition_op",
        "nki.collectives.ReplicaGroup": "from_partition_op",
        "nki.isa": "NkiScalar scalar_load scalar_store",
        "nki.language": "NkiBlockGrid NkiGrid NkiTileGrid alloc_blocks alloc_tiles blocks int64 tiles uint64",
        "nki.language.NkiTensor": "data",
    }),
    instead={
        **{
            f"nki.collectives.{name}_{step}": f"write nki.collectives.{name}, which does both steps at once"
            for name in ("all_gather_v", "all_to_all_v")
            for step in ("prepare", "trigger")
        },
        "nki.collectives.ReplicaGroup.from_partition_op": "write the lists of ranks",
        "nki.collectives.rg_partition_op": "write the lists of ranks",
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
