"""NKI 0.6: loops on the device as functions."""

from __future__ import annotations

from typing import Final

from nki.frontend.release import Release, full_names

_ENGINES: Final = ("tensor", "vector", "scalar", "gpsimd", "unknown")

RELEASE: Final = Release(
    version="0.6",
    traced=False,
    names=full_names({
        "nki.collectives": "all_gather_v",
        "nki.isa": "NkiInstruction topk",
        "nki.language": "DType fori_loop while_loop",
    }),
    parameters=full_names({"nki.isa.tensor_scalar_reduce": "reduce_res_negate"}),
    instead={
        "nki.isa.topk": "write nisa.max8 and nisa.nc_match_replace8",
        "nki.language.fori_loop": "write `for i in nl.dynamic_range(…)`",
        "nki.language.while_loop": "write `while register:`",
    },
    deprecated={
        "nki.language.dynamic_range": "use nl.fori_loop(start, stop, body)",
        **{f"nki.isa.{name}_engine": f"write `nisa.engine.{name}`" for name in _ENGINES},
    },
    compiler_frontends=("parser", "custom"),
)  # fmt: skip
