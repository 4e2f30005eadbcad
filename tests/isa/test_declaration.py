"""What a declaration must have, and that the public functions and their stub are what it says."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki.isa as nisa
from nki import target
from nki.base.errors import OutsideKernelError
from nki.ir import instruction as inst_module
from nki.ir.estimate import Compute, Dma
from nki.ir.instruction import REGISTRY, Inst, instruction
from nki.ir.sample import Draw
from nki.ir.types import In, Out, Role, Tile
from nki.isa.stub import stub
from nki.isa.tables.operators import OPS
from tests.support import instruction_bench

# The parameters of the NKI reference, in its order; "=" marks those with a default value.
DOCUMENTED = {
    "activation": "dst op data bias= scale= reduce_op= reduce_res= reduce_cmd= name=",
    "activation_reduce": "dst op data reduce_op reduce_res bias= scale= name=",
    "affine_select": "dst pattern channel_multiplier on_true_tile on_false_value cmp_op= offset= name=",
    "bn_aggr": "dst data name=",
    "bn_stats": "dst data name=",
    "dma_compute": "dst srcs reduce_op scales= unique_indices= oob_mode= name=",
    "dma_transpose": "dst src axes= priority= dge_mode= oob_mode= name=",
    "dma_copy": "dst src priority= oob_mode= dge_mode= engine= name=",
    "iota": "dst pattern offset= channel_multiplier= name=",
    "memset": "dst value engine= name=",
    "nc_matmul": "dst stationary moving is_stationary_onezero= is_moving_onezero= is_transpose= accumulate= "
    "tile_position= tile_size= perf_mode= name=",
    "nc_matmul_mx": "dst stationary moving stationary_scale moving_scale tile_position= tile_size= accumulate= name=",
    "nc_transpose": "dst data engine= name=",
    "quantize_mx": "dst src dst_scale name=",
    "reciprocal": "dst data name=",
    "register_load": "dst src",
    "register_move": "dst src",
    "register_store": "dst src",
    "scalar_store": "dst value",
    "scalar_tensor_tensor": "dst data op0 operand0 op1 operand1 reverse0= reverse1= name=",
    "tensor_copy": "dst src engine= name=",
    "tensor_copy_predicated": "dst src predicate reverse_pred= name=",
    "tensor_partition_reduce": "dst op data name=",
    "tensor_reduce": "dst op data axis negate= keepdims= name=",
    "tensor_scalar": "dst data op0 operand0 reverse0= op1= operand1= reverse1= engine= name=",
    "activate2": "dst op data imm0 imm1 op0 op1 relu_param= reverse0= reverse1= reduce_op= reduce_res= reduce_cmd= "
    "name=",
    "exponential": "dst src max_value= reduce_res= reduce_cmd= reduce_init= name=",
    "max8": "dst src name=",
    "nc_find_index8": "dst data vals name=",
    "nc_match_replace8": "dst data vals imm dst_idx= name=",
    "range_select": "dst on_true_tile comp_op0 comp_op1 bound0 bound1 reduce_cmd= reduce_res= reduce_op= range_start= "
    "on_false_value= name=",
    "select_reduce": "dst predicate on_true on_false reduce_res= reduce_cmd= reduce_op= reverse_pred= name=",
    "tensor_scalar_cumulative": "dst src op0 op1 imm0 imm1= reduce_cmd= name=",
    "tensor_scalar_reduce": "dst data op0 operand0 reduce_op reduce_res= reverse0= reduce_cmd= reduce_init= "
    "reduce_res_negate= name=",
    "tensor_tensor_scan": "dst data0 data1 initial op0 op1 reverse0= reverse1= name=",
    "core_barrier": "data cores engine= name=",
    "sendrecv": "src dst send_to_rank recv_from_rank pipe_id dma_engine= name=",
    "dropout": "dst data prob name=",
    "local_gather": "dst src_buffer index num_elem_per_idx= num_valid_indices= name=",
    "nc_n_gather": "dst data indices name=",
    "nc_stream_shuffle": "dst src shuffle_mask name=",
    "nonzero_with_count": "dst src index_offset= padding_val= name=",
    "rand2": "dst min max name=",
    "rand_get_state": "dst engine= name=",
    "rand_set_state": "src_seeds engine= name=",
    "rng": "dst engine= name=",
    "sequence_bounds": "dst segment_ids name=",
    "set_rng_seed": "src_seeds name=",
    "topk": "val_dst idx_dst src n name=",
    "tensor_tensor": "dst data1 data2 op engine= name=",
}
DEFAULTS = {
    "scale": 1.0, "reduce_cmd": nisa.reduce_cmd.idle, "offset": 0, "channel_multiplier": 0,
    "engine": nisa.engine.unknown, "unique_indices": True,
    "dma_engine": nisa.dma_engine.dma,
    "oob_mode": nisa.oob_mode.error, "dge_mode": nisa.dge_mode.unknown, "tile_position": (), "tile_size": (),
    "perf_mode": nisa.matmul_perf_mode.none, "cmp_op": OPS["equal"],
}  # fmt: skip

_RESET, _MAXIMUM = {"reduce_cmd": nisa.reduce_cmd.reset_reduce}, {"reduce_op": OPS["maximum"]}
DEFAULTS_OF = {
    "activate2": {"relu_param": 0.0},
    "core_barrier": {"engine": nisa.engine.gpsimd},
    "local_gather": {"num_elem_per_idx": 1},
    "nonzero_with_count": {"index_offset": 0, "padding_val": -1},
    "rand_get_state": {"engine": nisa.engine.gpsimd},
    "rand_set_state": {"engine": nisa.engine.gpsimd},
    "rng": {"engine": nisa.engine.vector},
    "exponential": {"max_value": 0.0, "reduce_init": 0.0},
    "range_select": {**_RESET, **_MAXIMUM, "range_start": 0, "on_false_value": float(np.finfo(np.float32).min)},
    "select_reduce": _MAXIMUM,
    "tensor_scalar_cumulative": _RESET,
    "tensor_scalar_reduce": _RESET,
}


@pytest.mark.parametrize("mnemonic", [name for name, cls in REGISTRY.items() if cls.public])
def test_signature_is_the_documented_one(mnemonic: str) -> None:
    parameters = inspect.signature(getattr(nisa, mnemonic)).parameters.values()
    shown = " ".join(p.name + ("" if p.default is p.empty else "=") for p in parameters)
    assert shown == DOCUMENTED.get(mnemonic), (
        "write in DOCUMENTED the parameters that NKI's reference has, in its order"
    )
    for p in parameters:
        if p.default is not p.empty:
            if mnemonic == "nc_matmul_mx" and p.name.startswith("tile_"):  # unlike in nc_matmul
                assert p.default is None
                continue
            # What has no entry is a switch that is off, or something that is left out.
            known = {**DEFAULTS, **DEFAULTS_OF.get(mnemonic, {})}
            assert p.default == known[p.name] if p.name in known else p.default in (None, False)


def test_functions_say_what_they_are() -> None:
    for mnemonic, cls in REGISTRY.items():
        if not cls.public:
            continue
        function = getattr(nisa, mnemonic)
        assert (function.__name__, function.__module__) == (mnemonic, "nki.isa")
        assert inspect.getdoc(cls) in function.__doc__
        assert mnemonic in nisa.__all__


def test_generations_are_ordered() -> None:
    versions = nisa.nc_version
    assert versions.gen2 < versions.gen3 <= versions.gen4
    assert versions.gen4 >= 3 > versions.gen2
    assert (versions.gen3 == versions.gen4, versions.gen3 == 3) == (False, True)
    assert f"{versions.gen3} {versions.gen3!s}" == "nc_version.gen3 nc_version.gen3"


def test_instructions_need_a_kernel() -> None:
    with pytest.raises(OutsideKernelError, match=r"nisa\.memset was called outside a kernel"):
        nisa.memset(None, 0)


def test_stub_is_current() -> None:
    committed = Path(nisa.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    assert committed == stub(), "run `make docs`"


# A whole declaration, and the same with one part missing at a time.


def semantics(self: Any, m: Any) -> None:
    m.store(self.dst, m.load(self.data))


PARTS: dict[str, Any] = {
    "__doc__": "Moves a tile.",
    "__annotations__": {"dst": Out[Tile], "data": In[Tile]},
    "rules": (),
    "semantics": semantics,
    "cost": lambda self, target: Compute(1.0, 1.0, "guess", "a test", "vector"),
    "sample": classmethod(lambda cls, draw: cls(draw.tile(1, 1, None), draw.tile(1, 1, None))),
}


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inst_module, "REGISTRY", dict(REGISTRY))


def declare(engines: tuple[Any, ...] = (nisa.engine.vector,), name: str = "MoveTile", **parts: Any) -> type[Inst]:
    content = {key: value for key, value in {**PARTS, **parts}.items() if value is not None}
    return instruction(engines=engines)(type(name, (Inst,), content))


def test_a_whole_declaration_is_accepted() -> None:
    made = declare()
    assert inst_module.REGISTRY["move_tile"] is made
    assert [(f.name, f.role) for f in made.fields] == [("dst", Role.OUT), ("data", Role.IN)]
    assert "move_tile" not in REGISTRY


@pytest.mark.parametrize("part", ["rules", "semantics", "cost", "sample"])
def test_a_missing_part_is_an_error_at_import(part: str) -> None:
    with pytest.raises(TypeError, match=f"MoveTile lacks: {part}"):
        declare(**{part: None})


@pytest.mark.parametrize("text", ["", "  \n "])
def test_a_missing_docstring_is_an_error_at_import(text: str) -> None:
    with pytest.raises(TypeError, match="MoveTile lacks: docstring"):
        declare(__doc__=text)


def test_missing_engines_are_an_error_at_import() -> None:
    with pytest.raises(TypeError, match="MoveTile lacks: engines"):
        declare(engines=())


def test_all_that_is_missing_is_named() -> None:
    with pytest.raises(TypeError, match="MoveTile lacks: rules, cost, docstring, engines"):
        declare((), rules=None, cost=None, __doc__="")


def test_inherited_parts_do_not_count() -> None:
    base = declare()
    with pytest.raises(TypeError, match="Other lacks: rules, semantics, cost, sample"):
        instruction(engines=(nisa.engine.vector,))(type("Other", (base,), {"__doc__": "Moves too."}))


def test_an_instruction_writes_something() -> None:
    with pytest.raises(TypeError, match="MoveTile writes nothing"):
        declare(__annotations__={"dst": In[Tile], "data": In[Tile]})


def test_one_mnemonic_has_one_declaration() -> None:
    with pytest.raises(TypeError, match="memset is declared twice"):
        declare(name="Memset")


def test_every_cost_says_where_it_is_from() -> None:
    for mnemonic, cls in REGISTRY.items():
        for generation in (g for g in target.GENERATIONS if instruction_bench.exists(cls, g)):
            draw = Draw(instruction_bench.source("cost", mnemonic), generation)
            for _ in range(10):
                estimate = instruction_bench.sample(cls, draw).cost(generation)
                assert 0 < estimate.occupancy <= estimate.latency and estimate.dependent >= 0
                assert estimate.kind in ("docs", "measured", "guess") and len(estimate.source) > 10
                assert estimate.resource in {engine.name for engine in cls.engines}
                assert (estimate.resource in ("dma", "collectives")) == isinstance(estimate, Dma)
                if isinstance(estimate, Dma):
                    assert estimate.bytes > 0 and estimate.issue > 0
