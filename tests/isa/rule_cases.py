"""The rules' test cases: one legal call of each instruction, and the nearest calls that break one of its rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nki.isa as nisa
import nki.language as nl

from . import cases_cores, cases_dma, cases_gpsimd, cases_indirect, cases_mx, cases_ranks, cases_vector
from .spec import Case, Register, Scalar, Spec, call, ints, psum, tile

engine, double_row = nisa.engine, nisa.matmul_perf_mode.double_row
WORD = 2**31


# One legal call of each instruction, with every tile that it can have.
LEGAL: dict[str, dict[str, Any]] = {
    "activation": call(
        "dst data", "bias scale reduce_res", op=nl.exp, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce
    ),
    "activation_reduce": call("dst data", "reduce_res bias scale", op=nl.exp, reduce_op=nl.add),
    "bn_stats": call(dst=tile(4, 6), data=tile(4, 512)),
    "bn_aggr": call(dst=tile(4, 2), data=tile(4, 6)),
    "device_print": call(prefix="text", src=tile(4, 8)),
    "iota": call(dst=ints(4, 8), pattern=[[1, 8]]),
    "affine_select": call(
        "dst on_true_tile", pattern=[[1, 8]], channel_multiplier=1, on_false_value=0.0, cmp_op=nl.greater
    ),
    "nc_matmul": call(dst=psum(16, 32), stationary=tile(8, 16), moving=tile(8, 32)),
    "nc_transpose": call("data", dst=psum(8, 4)),
    "reciprocal": call("dst data"),
    "register_load": call(dst=Register(), src=ints(1, 1)),
    "register_move": call(dst=Register(), src=Register()),
    "register_store": call(dst=ints(1, 1), src=Register()),
    "scalar_arithmetic": call(dst=Scalar(), op=nl.add, left=Scalar(), right=1),
    "scalar_load": call(dst=Scalar(), src=ints(1, 1)),
    "scalar_store": call(dst=ints(1, 1), value=Scalar()),
    "tensor_copy": call("dst src"),
    "memset": call("dst", value=1.5),
    "tensor_copy_predicated": call("dst src", predicate=ints(4, 8, dtype="uint8")),
    "tensor_reduce": call("data", "dst", op=nl.add, axis=1),
    "tensor_partition_reduce": call("data", dst=tile(1, 8), op=nl.add),
    "tensor_scalar": call("dst data", "operand0 operand1", op0=nl.multiply, op1=nl.add),
    "scalar_tensor_tensor": call("dst data operand1", "operand0", op0=nl.multiply, op1=nl.add),
    "tensor_tensor": call("dst data1 data2", op=nl.add),
    **cases_dma.LEGAL,
    **cases_gpsimd.LEGAL,
    **cases_vector.LEGAL,
    **cases_mx.LEGAL,
    **cases_cores.LEGAL,
    **cases_ranks.LEGAL,
}


# Rules that many instructions share

# What may have a dtype that does not compute, of up to 32 bits.
ANY_DTYPE = {
    *((m, n) for m in ("tensor_copy", "nc_transpose", "nc_stream_shuffle") for n in ("dst", "src", "data")),
    *((m, n) for m in ("nc_n_gather", "local_gather") for n in ("dst", "data", "src_buffer")),
    *(("tensor_copy_predicated", n) for n in ("dst", "src")),
}


def shared_rules() -> Iterator[Case]:
    for mnemonic, legal in LEGAL.items():
        for name, spec in legal.items():
            if (
                mnemonic in ("scalar_load", "scalar_store")
                or mnemonic.startswith(("register", "device", "psum", "dma", "core", "sendrecv", "scalar_arithmetic"))
                or name in cases_mx.SCALES
                or mnemonic in cases_ranks.LEGAL
            ):
                continue
            if isinstance(spec, Spec):
                yield Case(mnemonic, "TL01", {name: spec.but(buffer="hbm")})
                yield Case(mnemonic, "TL02", {name: spec.but(partitions=129)})
                beside = {} if mnemonic in cases_mx.LEGAL else {name: spec.but(at=32)}
                yield Case(mnemonic, "TL03", {name: spec.but(at=1)}, beside)
                if spec.shape[0] > 1:
                    yield Case(mnemonic, "TL04", {name: spec.but(step=2)})
                else:
                    yield Case(mnemonic, "TL04", {name: spec.but(partitions=2, step=2)})
                if (mnemonic, name) != ("memset", "dst"):
                    packed = (mnemonic, name) in ANY_DTYPE | cases_mx.ANY_DTYPE
                    yield Case(mnemonic, "TL05", {name: spec.but(dtype="int64" if packed else "float8_e4m3fn_x4")})


def differing(mnemonic: str, *names: str) -> Iterator[Case]:
    """Another number of partitions, of elements, for each tile that must be like the first."""
    for name in names:
        partitions, *free = LEGAL[mnemonic][name].shape
        yield Case(mnemonic, "SP01", {name: LEGAL[mnemonic][name].but(partitions=partitions + 1)})
        if free[0] > 1 and not mnemonic.startswith("bn") and mnemonic != "tensor_reduce":
            kind = LEGAL[mnemonic][name].dtype
            yield Case(
                mnemonic,
                "SE01",
                {name: tile(partitions, free[0] + 1, dtype=kind)},
                {name: tile(partitions, 2, 4, dtype=kind)},
            )


def columns(mnemonic: str, *names: str) -> Iterator[Case]:
    for name in names:
        yield Case(mnemonic, "CO01", {name: tile(5, 1)})
        yield Case(mnemonic, "CO01", {name: tile(4, 2)})


SHARED = [
    *shared_rules(),
    *differing("activation", "data"),
    *columns("activation", "bias", "scale", "reduce_res"),
    *differing("activation_reduce", "data"),
    *columns("activation_reduce", "bias", "scale", "reduce_res"),
    *differing("bn_stats", "data"),
    *differing("bn_aggr", "data"),
    *differing("affine_select", "on_true_tile"),
    *differing("reciprocal", "data"),
    *differing("tensor_copy", "src"),
    *differing("tensor_copy_predicated", "src", "predicate"),
    # Words for a number in place of a tile.
    Case("tensor_copy_predicated", "SP01", {"predicate": ints(5, 8, dtype="uint8")}, {"src": 1.0}),
    *differing("tensor_reduce", "data"),
    *differing("tensor_scalar", "data"),
    *columns("tensor_scalar", "operand0", "operand1"),
    *differing("scalar_tensor_tensor", "operand1"),
    *columns("scalar_tensor_tensor", "operand0"),
    *differing("tensor_tensor", "data1", "data2"),
    Case("tensor_partition_reduce", "SE01", {"data": tile(4, 9)}),
    *(case for name, tiles in cases_vector.ALIKE.items() for case in differing(name, *tiles)),
    *(case for name, tiles in cases_vector.COLUMNS.items() for case in columns(name, *tiles)),
]

ONE_MEMORY = {
    "affine_select": ("dst", "on_true_tile"),
    "iota": ("dst",),
    "local_gather": ("dst", "src_buffer", "index"),
    "nc_matmul": ("stationary", "moving", "dst"),
    "nc_matmul_mx": ("stationary", "moving", "dst", "stationary_scale", "moving_scale"),
    "nc_n_gather": ("dst", "data", "indices"),
    "nonzero_with_count": ("dst", "src"),
    "psum_zero": ("dst",),
    "quantize_mx": ("dst", "src", "dst_scale"),
    "sequence_bounds": ("dst", "segment_ids"),
    "tensor_partition_reduce": ("dst", "data"),
    "topk": ("val_dst", "idx_dst", "src"),
}
"""Tiles that may be in SBUF and not in PSUM, or the other way round."""
MEMORIES = [
    Case(mnemonic, "BU01", {name: spec.but(buffer="sbuf" if spec.buffer == "psum" else "psum")})
    for mnemonic, names in ONE_MEMORY.items()
    for name, spec in ((name, LEGAL[mnemonic][name]) for name in names)
]
ENGINES = [
    Case("tensor_tensor", "EN01", {"engine": engine.scalar}, {"engine": engine.gpsimd}, says="scalar"),
    Case("tensor_tensor", "EN02", {"engine": engine.gpsimd}, {"data1": psum(4, 8), "engine": engine.vector}),
    Case("tensor_scalar", "EN01", {"engine": engine.tensor}, {"engine": engine.scalar}, says="tensor"),
    Case(
        "tensor_scalar",
        "EN02",
        {"dst": psum(4, 8)},
        {"op0": nl.rsqrt, "operand0": 0.0, "op1": None, "operand1": None, "engine": engine.gpsimd},
    ),
    Case("tensor_copy", "EN01", {"engine": engine.dma}, {"engine": engine.gpsimd}, says="dma"),
    Case("tensor_copy", "EN02", {"src": psum(4, 8)}, {"engine": engine.gpsimd}),
    Case("memset", "EN01", {"engine": engine.scalar}, {"engine": engine.gpsimd}, says="scalar"),
    Case("memset", "EN02", {"dst": psum(4, 8)}, {"engine": engine.gpsimd}),
    Case("nc_transpose", "EN01", {"engine": engine.gpsimd}, {"engine": engine.vector}, says="gpsimd"),
]

OPERATORS = [
    Case("tensor_tensor", "OP01", {"op": nl.exp}, says="nl.exp"),
    Case("tensor_tensor", "OP02", {}, {"op": nl.abs_max}, "trn2", "trn3", says="nl.abs_max"),
    Case(
        "tensor_tensor",
        "DT01",
        {"op": nl.bitwise_and, "dst": ints(4, 8), "data1": ints(4, 8), "data2": ints(4, 8, dtype="int16")},
        {"op": nl.bitwise_and, "dst": ints(4, 8), "data1": ints(4, 8), "data2": ints(4, 8, dtype="uint32")},
    ),
    Case("tensor_scalar", "OP01", {"op0": nl.gelu}, says="nl.gelu"),
    Case("tensor_scalar", "OP01", {"op1": nl.gelu}, says="nl.gelu"),
    Case("tensor_scalar", "OP02", {}, {"op0": nl.abs_min}, "trn1", "trn3", says="nl.abs_min"),
    Case("tensor_scalar", "OP02", {}, {"op1": nl.abs_min}, "trn2", "trn3", says="nl.abs_min"),
    Case("tensor_scalar", "OP02", {}, {"op0": nl.square, "operand0": None}, "trn2", "trn3", says="nl.square"),
    Case("tensor_scalar", "OP02", {}, {"op0": nl.relu, "operand0": 0}, "trn1", "trn3", says="nl.relu"),
    Case("scalar_tensor_tensor", "OP01", {"op0": nl.bitwise_and}, says="nl.bitwise_and"),
    Case("scalar_tensor_tensor", "OP01", {"op1": nl.exp}, says="nl.exp"),
    Case("scalar_tensor_tensor", "OP02", {}, {"op0": nl.abs_max}, "trn2", "trn3", says="nl.abs_max"),
    Case("scalar_tensor_tensor", "OP02", {}, {"op1": nl.abs_max}, "trn1", "trn3", says="nl.abs_max"),
    Case("tensor_reduce", "OP01", {"op": nl.tanh}, says="nl.tanh"),
    Case("tensor_reduce", "DT01", {"data": tile(4, 8)}, {"op": nl.bitwise_or, "dst": ints(4, 1), "data": ints(4, 8)}),
    Case(
        "tensor_partition_reduce",
        "DT01",
        {"dst": tile(1, 8)},
        {"op": nl.bitwise_or, "dst": ints(1, 8), "data": ints(4, 8)},
    ),
]

# Rules of one instruction

BITS = call(dst=ints(4, 8), data=ints(4, 8), op0=nl.left_shift, operand0=3, op1=nl.bitwise_and, operand1=255)
DOUBLE = call(
    stationary=tile(8, 2, 16, dtype="float8_e4m3"), moving=tile(8, 2, 32, dtype="float8_e5m2"), perf_mode=double_row
)
SQUARE = {"dst": psum(16, 8), "moving": tile(8, 8), "is_transpose": True}
ROWS = {"tile_size": (64, 128), "tile_position": (64, 0)}
WHOLE = {"tile_size": None, "tile_position": None}

OWN = [
    Case("activation", "AC01", {"op": nl.add}, says="nl.add"),
    Case("activation", "AC02", {"op": nl.prelu}, {"op": nl.relu}, says="nl.prelu"),
    Case("activation", "AC03", {"scale": tile(4, 1, dtype="bfloat16")}),
    Case("activation", "AC04", {}, {"bias": 1.0}, "trn1", "trn2", says="bias=1.0"),
    Case("activation", "AC08", {"op": nl.reciprocal}, {"op": nl.sqrt}, "trn1", says="reciprocal"),
    Case("activation", "AC05", {"bias": tile(4, 1, dtype="tfloat32")}, {"bias": tile(4, 1, dtype="bfloat16")}),
    Case("activation", "AC06", {"reduce_op": nl.maximum}, says="nl.maximum"),
    Case(
        "activation",
        "AC07",
        {"reduce_cmd": nisa.reduce_cmd.reduce},
        {"reduce_op": None, "reduce_cmd": nisa.reduce_cmd.idle},
        says="reduce_cmd=reduce",
    ),
    Case("activation", "RC01", {"reduce_cmd": nisa.reduce_cmd.load_reduce}, says="load_reduce"),
    Case(
        "activation",
        "RC03",
        {"registers": tile(3, 1, buffer="register")},
        {"registers": tile(4, 1, buffer="register")},
        says="the_registers",
    ),
    Case("activation", "RC03", {"registers": None}, {"registers": tile(4, 1, buffer="register")}, says="registers"),
    Case(
        "activation_reduce",
        "RC03",
        {"registers": tile(4, 1, buffer="register", dtype="bfloat16")},
        {"registers": None},
        says="the_registers",
    ),
    Case("activation_reduce", "AC01", {"op": nl.maximum}, says="nl.maximum"),
    Case("activation_reduce", "AC02", {"op": nl.prelu}, says="nl.prelu"),
    Case("activation_reduce", "AC03", {"scale": tile(4, 1, dtype="float16")}),
    Case("activation_reduce", "AC04", {"bias": 0.5}, {"scale": 2.0}, "trn1", says="bias=0.5"),
    Case("activation_reduce", "AC08", {"op": nl.reciprocal}, {"bias": tile(4, 1)}, "trn1", says="reciprocal"),
    Case("activation_reduce", "AC05", {"bias": tile(4, 1, dtype="tfloat32")}),
    Case("activation_reduce", "AC06", {"reduce_op": nl.multiply}, says="nl.multiply"),
    Case("bn_stats", "BN01", {"data": tile(4, 513)}, says="512"),
    Case("bn_stats", "BN02", {"dst": tile(4, 5)}, {"dst": tile(4, 2, 3)}),
    Case("bn_aggr", "BN03", {"data": tile(4, 7)}, {"data": tile(4, 9)}, says="7"),
    Case("bn_aggr", "BN04", {"dst": tile(4, 3)}),
    Case("device_print", "DP01", {"src": psum(4, 8)}),
    Case("device_print", "DP02", {"prefix": ""}, says="prefix"),
    Case("register_move", "RG01", {"dst": ints(1, 1)}),
    Case("register_move", "RG02", {"dst": Register(frozen=True)}),
    Case("register_move", "RG06", {"src": ints(1, 1)}),
    Case("register_move", "RG08", {"dst": Scalar()}),
    Case("register_move", "RG07", {"src": 2 * WORD}, {"src": 2 * WORD - 1}, says="4294967296"),
    Case("register_load", "RG01", {"dst": ints(1, 1)}),
    Case("register_load", "RG02", {"dst": Register(frozen=True)}),
    Case("register_load", "RG08", {"dst": Scalar()}),
    Case("register_load", "RG03", {"src": ints(1, 2)}),
    Case("register_load", "RG04", {"src": psum(1, 1, dtype="int32")}, {"src": ints(1, 1, dtype="uint8")}),
    Case("register_load", "RG05", {"src": tile(1, 1, dtype="bfloat16")}, {"src": tile(1, 1)}),
    Case("register_store", "RG01", {"src": ints(1, 1)}),
    Case("register_store", "RG03", {"dst": ints(2, 1)}),
    Case("register_store", "RG04", {"dst": psum(1, 1, dtype="int32")}, {"dst": tile(1, 1, buffer="hbm")}),
    Case("scalar_arithmetic", "NS01", {"dst": Register()}),
    Case("scalar_arithmetic", "NS05", {"op": nl.divide}, {"op": nl.subtract}, says="op is"),
    Case("scalar_arithmetic", "NS06", {"right": Scalar("int64")}, {"right": Scalar()}),
    Case("scalar_arithmetic", "NS07", {"right": WORD}, {"right": WORD - 1}, says="2147483648"),
    Case("scalar_load", "NS01", {"dst": Register()}),
    Case("scalar_load", "NS02", {"src": ints(1, 2)}),
    Case("scalar_load", "NS03", {"src": psum(1, 1, dtype="int32")}, {"src": tile(1, 1, dtype="int32", buffer="hbm")}),
    Case("scalar_load", "NS04", {"src": ints(1, 1, dtype="uint32")}),
    Case("scalar_store", "NS01", {"value": Register()}),
    Case("scalar_store", "NS02", {"dst": ints(2, 1)}),
    Case("scalar_store", "NS03", {"dst": psum(1, 1, dtype="int32")}, {"dst": tile(1, 1, dtype="int32", buffer="hbm")}),
    Case("scalar_store", "NS04", {"dst": ints(1, 1, dtype="int64")}, {"dst": ints(1, 1)}),
    Case("register_store", "RG05", {"dst": tile(1, 1, dtype="float16")}, {"dst": ints(1, 1, dtype="int16")}),
    Case("iota", "IO01", {"pattern": [[1, 2]] * 3 + [[1, 1]] * 2}, {"pattern": [[1, 2]] * 3 + [[1, 1]]}, says="1 to 4"),
    Case("iota", "IO01", {"pattern": [[1, 8, 1]]}, says="(1, 8, 1)"),
    Case("iota", "IO02", {"pattern": [[1, 7]]}, {"pattern": [[4, 2], [1, 4]]}),
    Case("iota", "IO03", {"offset": WORD}, {"offset": WORD - 1}, says=str(WORD)),
    Case("iota", "IO04", {"offset": ints(1, 1)}, {"offset": Register()}),
    Case("affine_select", "IO04", {"offset": ints(1, 1)}, {"offset": Register()}),
    Case("affine_select", "IO01", {"pattern": []}, says="1 to 4"),
    Case("affine_select", "IO02", {"pattern": [[1, 9]]}),
    Case(
        "affine_select", "IO03", {"channel_multiplier": -WORD - 1}, {"channel_multiplier": -WORD}, says=str(-WORD - 1)
    ),
    Case("affine_select", "AS01", {"cmp_op": nl.maximum}, {"cmp_op": nl.not_equal}, says="nl.maximum"),
    Case("nc_matmul", "MM01", {"moving": tile(9, 32)}),
    Case("nc_matmul", "MM02", {"stationary": tile(8, 129)}, {"stationary": tile(8, 128), "dst": psum(128, 32)}),
    Case("nc_matmul", "MM03", {"moving": tile(8, 513)}, {"moving": tile(8, 512), "dst": psum(16, 512)}, "trn2"),
    Case("nc_matmul", "MM04", {"dst": psum(32, 16)}),
    Case("nc_matmul", "MM05", {"moving": tile(8, 32, dtype="bfloat16")}, {"moving": tile(8, 32, dtype="tfloat32")}),
    Case("nc_matmul", "MM06", {"stationary": ints(8, 16, dtype="int8"), "moving": ints(8, 32, dtype="int8")}),
    Case(
        "nc_matmul",
        "MM06",
        {"moving": tile(8, 32, dtype="float8_e4m3fn")},
        {"stationary": tile(8, 16, dtype="float8_e4m3"), "moving": tile(8, 32, dtype="float8_e5m2")},
    ),
    Case("nc_matmul", "MM07", {"dst": psum(16, 32, dtype="float16")}, {"dst": psum(16, 32, dtype="bfloat16")}),
    Case(
        "nc_matmul",
        "MM08",
        {"dst": psum(16, 32, skip=481, width=600)},
        {"dst": psum(16, 32, skip=480, width=600)},
        "trn2",
    ),
    Case("nc_matmul", "MM09", {}, DOUBLE, "trn1", "trn2", says="trn1"),
    Case("nc_matmul", "MM10", {"moving": tile(8, 32, dtype="float8_e5m2")}, DOUBLE),
    Case("nc_matmul", "MM10", {"moving": tile(8, 2, 32, dtype="bfloat16")}, DOUBLE),
    Case("nc_matmul", "MM11", {"tile_position": (32, 0)}, ROWS, says="(32, 0)"),
    Case("nc_matmul", "MM11", {"tile_position": ()}, ROWS, says="tile_position=()"),
    Case("nc_matmul", "MM11", {}, {"tile_size": (32, 128), "tile_position": (96, 0)}, "trn1", "trn2", says="(32, 128)"),
    Case(
        "nc_matmul",
        "MM12",
        {"stationary": tile(65, 16), "moving": tile(65, 32)},
        {**ROWS, "stationary": tile(64, 16), "moving": tile(64, 32)},
    ),
    Case("nc_matmul", "MM13", {"tile_size": (128, 64), "tile_position": (0, 64)}, DOUBLE, says="(128, 64)"),
    Case("nc_matmul", "MM13", {"tile_size": (128, 64), "tile_position": (0, 0)}, {**DOUBLE, **WHOLE}, says="(128, 64)"),
    Case(
        "nc_matmul",
        "MM16",
        {"is_transpose": True},
        {**DOUBLE, "moving": tile(8, 2, 4, dtype="float8_e5m2"), "dst": psum(16, 4)},
        says="double_row",
    ),
    Case("nc_matmul", "MM14", {"moving": tile(8, 32), "dst": psum(16, 32)}, SQUARE),
    Case("nc_matmul", "MM15", {"accumulate": True}, SQUARE),
    Case("nc_transpose", "NT01", {"dst": psum(4, 8)}),
    Case("nc_transpose", "NT02", {"dst": psum(8, 4, dtype="bfloat16")}),
    Case("nc_transpose", "NT03", {"data": tile(4, 129)}, {"data": tile(4, 128), "dst": psum(128, 4)}, says="128"),
    Case("nc_transpose", "NT04", {"dst": tile(8, 4)}, {"engine": engine.tensor}, says="psum"),
    Case(
        "nc_transpose",
        "NT05",
        {"data": tile(4, 33), "dst": psum(33, 4)},
        {"engine": engine.vector, "data": tile(4, 32), "dst": psum(32, 4)},
        says="32 x 32",
    ),
    Case("nc_transpose", "NT06", {"dst": tile(33, 4)}, {"data": tile(4, 33), "dst": psum(33, 4)}, says="psum"),
    Case("tensor_copy", "TC01", {}, {"engine": engine.scalar}, "trn1", "trn2", says="trn1"),
    Case(
        "tensor_copy",
        "TC01",
        {"src": ints(4, 8)},
        {"engine": engine.scalar},
        "trn1",
        says="int32",
        release="0.2",
    ),
    Case("memset", "MS01", {"value": 1.5}, {"dst": ints(4, 8), "value": 2}),
    Case(
        "tensor_copy",
        "TC02",
        {"dst": ints(4, 8, dtype="uint32")},
        {n: tile(4, 8, dtype="float8_e5m2_x4") for n in ("dst", "src")},
        says="float8_e5m2_x4 to uint32",
    ),
    Case("memset", "MS02", {"value": 1}, {"dst": tile(4, 8, dtype="float8_e5m2_x4"), "value": 0}),
    Case("memset", "MS02", {"value": 3.0}, {"dst": tile(4, 8, dtype="float8_e8m0fnu"), "value": 0.25}),
    Case(
        "memset", "MS02", {"value": 0}, {"dst": tile(4, 8, dtype="float8_e8m0fnu"), "value": 2.0**-127}, says="never 0"
    ),
    Case("memset", "MS01", {"value": 256}, {"dst": ints(4, 8, dtype="uint8"), "value": 255}),
    Case("tensor_copy_predicated", "BU02", {"src": psum(4, 8)}, {"predicate": psum(4, 8, dtype="uint8")}),
    Case("tensor_copy_predicated", "CP01", {"predicate": ints(4, 8, dtype="int8")}),
    Case("tensor_copy_predicated", "CP02", {"src": tile(4, 8, dtype="bfloat16")}),
    Case("tensor_copy_predicated", "CP03", {"src": 2.5}, {"src": 2, "dst": ints(4, 8)}),
    Case("tensor_copy_predicated", "CP03", {"src": 256}, {"src": 255, "dst": ints(4, 8, dtype="uint8")}),
    Case("tensor_copy_predicated", "CP03", {"dst": tile(4, 8, dtype="float4_e2m1fn_x4")}, {"src": 0.0}),
    Case("tensor_reduce", "TR01", {"op": nl.power}, {"op": nl.subtract}, says="nl.power"),
    Case("tensor_reduce", "TR02", {"axis": 0}, {"axis": -1}),
    Case("tensor_reduce", "TR02", {"axis": 1}, {"data": tile(4, 8, 2), "dst": tile(4, 8), "axis": 2}),
    Case("tensor_reduce", "TR03", {"axis": (1, 2)}, {"data": tile(4, 8, 2), "dst": tile(4, 8), "axis": 2}),
    Case(
        "tensor_reduce",
        "TR04",
        {"negate": True},
        {"op": nl.bitwise_xor, "dst": ints(4, 1), "data": ints(4, 8)},
        says="negate",
    ),
    Case("tensor_partition_reduce", "PR01", {"op": nl.minimum}, {"op": nl.average}, says="nl.minimum"),
    Case("tensor_partition_reduce", "PR02", {"dst": tile(2, 8)}),
    Case("tensor_scalar", "TS01", {"op1": nl.bitwise_and}, says="nl.bitwise_and"),
    Case("tensor_scalar", "TS02", {"operand1": None}, says="operand1=None"),
    Case("tensor_scalar", "TS02", {"op0": nl.add}, {"op0": nl.abs, "operand0": None}, says="nl.add"),
    Case("tensor_scalar", "TS03", {"op1": nl.subtract}, {"engine": engine.scalar}, "trn2", says="nl.subtract"),
    Case("tensor_scalar", "TS03", {}, {"engine": engine.scalar}, "trn1", "trn2", says="Scalar"),
    Case(
        "tensor_scalar",
        "TS04",
        {"op0": nl.reciprocal},
        {"op0": nl.rsqrt, "operand0": 0.0, "op1": None, "operand1": None, "engine": engine.gpsimd},
        says="nl.reciprocal",
    ),
    Case("tensor_scalar", "TS07", {"operand0": 2.0}, {"op0": nl.abs, "operand0": 0}, says="operand0=2.0"),
    Case("tensor_scalar", "TS07", {"operand0": tile(4, 1)}, {"op0": nl.reciprocal, "operand0": None}),
    Case("tensor_scalar", "TS05", {"engine": engine.scalar}, {**BITS, "engine": engine.vector}, says="scalar"),
    Case("tensor_scalar", "TS06", {"operand1": 2.5}, {**BITS, "operand1": 2.0}),
    Case(
        "tensor_scalar",
        "TS06",
        {"operand0": 256},
        {**BITS, "dst": ints(4, 8, dtype="int8"), "data": ints(4, 8, dtype="int8"), "operand0": 255},
    ),
    Case("tensor_scalar", "DT01", {"dst": tile(4, 8)}, BITS),
    Case("tensor_scalar", "DT02", {"operand0": tile(4, 1, dtype="bfloat16")}),
    Case("tensor_scalar", "DT02", {"operand1": ints(4, 1)}),
    Case("scalar_tensor_tensor", "BU02", {"data": psum(4, 8)}, {"operand1": psum(4, 8)}),
    Case("scalar_tensor_tensor", "ST01", {"op1": nl.square}, says="nl.square"),
    Case("tensor_tensor", "BU02", {"data1": psum(4, 8)}, {"data2": psum(4, 8)}),
    Case("tensor_tensor", "TT01", {"op": nl.square}, {"op": nl.multiply}, says="nl.square"),
    Case("tensor_tensor", "TT02", {"dst": psum(4, 8)}, {"op": nl.power}),
    Case(
        "tensor_tensor", "TT03", {"engine": engine.vector}, {"op": nl.power, "engine": engine.gpsimd}, says="nl.power"
    ),
    Case(
        "tensor_tensor",
        "TT04",
        {"engine": engine.gpsimd},
        {"op": nl.bitwise_or, **{name: ints(4, 8) for name in ("dst", "data1", "data2")}},
        says="gpsimd",
    ),
]

CASES = [
    *SHARED,
    *MEMORIES,
    *ENGINES,
    *OPERATORS,
    *OWN,
    *cases_dma.CASES,
    *cases_gpsimd.CASES,
    *cases_mx.CASES,
    *cases_cores.OWN,
    *cases_ranks.CASES,
    *cases_vector.CASES,
    *cases_indirect.cases(LEGAL),
]
