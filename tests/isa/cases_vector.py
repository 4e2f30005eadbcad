"""Rule cases of instructions with reduction registers, of scans, and of those that take eight values at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nki.isa as nisa
import nki.language as nl

from .spec import Case, call, ints, psum, tile

command = nisa.reduce_cmd
EXACT = 1 << 24

LEGAL: dict[str, dict[str, Any]] = {
    "tensor_scalar_reduce": call(
        "dst data",
        "operand0 reduce_res reduce_init",
        op0=nl.multiply,
        reduce_op=nl.maximum,
        reduce_cmd=command.load_reduce,
    ),
    "tensor_scalar_cumulative": call("dst src", "imm0 imm1", op0=nl.multiply, op1=nl.add),
    "tensor_tensor_scan": call("dst data0 data1", "initial", op0=nl.multiply, op1=nl.add),
    "select_reduce": call(
        "dst on_true", "on_false reduce_res", predicate=ints(4, 8, dtype="uint8"), reduce_cmd=command.reset_reduce
    ),
    "range_select": call("dst on_true_tile", "bound0 bound1 reduce_res", comp_op0=nl.greater_equal, comp_op1=nl.less),
    "exponential": call("dst src", "max_value reduce_res reduce_init", reduce_cmd=command.load_reduce),
    "activate2": call(
        "dst data",
        "imm0 imm1 relu_param reduce_res",
        op=nl.prelu,
        op0=nl.multiply,
        op1=nl.add,
        reduce_op=nl.abs_max,
        reduce_cmd=command.reset_reduce,
    ),
    "max8": call("dst", src=tile(4, 16)),
    "nc_find_index8": call("vals", dst=ints(4, 8, dtype="uint32"), data=tile(4, 16)),
    "nc_match_replace8": call("dst data vals", imm=0.0, dst_idx=ints(4, 8, dtype="uint32")),
}


ALIKE = call(
    tensor_scalar_reduce=("data",),
    tensor_scalar_cumulative=("src",),
    tensor_tensor_scan=("data0", "data1"),
    select_reduce=("predicate", "on_true"),
    range_select=("on_true_tile",),
    exponential=("src",),
    activate2=("data",),
    nc_match_replace8=("data",),
)
"""Tiles with as many partitions and elements as ``dst``."""
COLUMNS = call(
    tensor_scalar_reduce=("operand0", "reduce_res", "reduce_init"),
    tensor_scalar_cumulative=("imm0", "imm1"),
    tensor_tensor_scan=("initial",),
    select_reduce=("on_false", "reduce_res"),
    range_select=("bound0", "bound1", "reduce_res"),
    exponential=("max_value", "reduce_res", "reduce_init"),
    activate2=("imm0", "imm1", "relu_param", "reduce_res"),
)
"""Tiles of one element per partition."""


def shared() -> Iterator[Case]:
    """Rules that instructions with reduction registers share, and generations."""
    for mnemonic, name in (("max8", "src"), ("nc_find_index8", "vals"), ("nc_match_replace8", "dst_idx")):
        yield Case(mnemonic, "SP01", {name: LEGAL[mnemonic][name].but(partitions=5)})
    for mnemonic, target, exists in (
        ("range_select", "trn1", "trn2"),
        ("exponential", "trn2", "trn3"),
        ("activate2", "trn2", "trn3"),
    ):
        yield Case(mnemonic, "GE01", {}, {}, target, exists, says=target)
    for mnemonic, no_such in REFUSED_COMMANDS.items():
        yield Case(mnemonic, "RC01", {"reduce_cmd": no_such}, WITHOUT_LOAD.get(mnemonic, {}), says=no_such.name)
    for mnemonic in REFUSED_COMMANDS:
        there = {"registers": tile(4, 1, buffer="register")}
        yield Case(mnemonic, "RC03", {"registers": None}, there, says="registers")
        yield Case(mnemonic, "RC03", {"registers": tile(3, 1, buffer="register")}, there, says="the_registers")


REFUSED_COMMANDS = call(
    tensor_scalar_reduce=command.idle,
    tensor_scalar_cumulative=command.reset,
    select_reduce=command.load_reduce,
    range_select=command.load_reduce,
    exponential=command.reset,
    activate2=command.load_reduce,
)
WITHOUT_LOAD: dict[str, dict[str, Any]] = {
    "tensor_scalar_reduce": {"reduce_cmd": command.reduce, "reduce_init": None},
    "exponential": {"reduce_cmd": command.idle, "reduce_init": 0.0},
}

CASES = [
    *shared(),
    Case("tensor_scalar_reduce", "OP01", {"op0": nl.bitwise_and}, says="nl.bitwise_and"),
    Case("tensor_scalar_reduce", "OP02", {}, {"op0": nl.abs_max}, "trn2", "trn3", says="nl.abs_max"),
    Case("tensor_scalar_reduce", "TD01", {"operand0": None}, says="operand0"),
    Case("tensor_scalar_reduce", "TD02", {"operand0": 1.0}, {"op0": nl.abs, "operand0": 0.0}, says="operand0=1.0"),
    Case("tensor_scalar_reduce", "TD02", {"operand0": tile(4, 1)}, {"op0": nl.square, "operand0": None}),
    Case("tensor_scalar_reduce", "TD03", {"reverse0": True}, says="reverse0"),
    Case("tensor_scalar_reduce", "TD04", {"reduce_cmd": command.reduce}, says="reduce_cmd=reduce"),
    Case("tensor_scalar_reduce", "DT02", {"operand0": tile(4, 1, dtype="bfloat16")}),
    Case("tensor_scalar_reduce", "DT03", {"reduce_init": tile(4, 1, dtype="bfloat16")}),
    Case("tensor_scalar_reduce", "RC02", {"reduce_op": nl.subtract}, says="nl.subtract"),
    Case("tensor_scalar_reduce", "RC04", {"reduce_init": None}, says="reduce_init"),
    Case("tensor_scalar_cumulative", "OP01", {"op0": nl.invert}, says="nl.invert"),
    Case("tensor_scalar_reduce", "OP02", {}, {"op0": nl.square, "operand0": None}, "trn2", "trn3", says="nl.square"),
    Case("tensor_scalar_cumulative", "OP02", {}, {"op0": nl.abs_max}, "trn2", "trn3", says="nl.abs_max"),
    Case("tensor_scalar_cumulative", "DT03", {"imm0": ints(4, 1)}),
    Case("tensor_scalar_cumulative", "DT03", {"imm1": tile(4, 1, dtype="float16")}),
    Case("tensor_scalar_cumulative", "TU01", {"src": ints(4, 8)}, {"src": ints(4, 8, dtype="int16")}),
    Case("tensor_scalar_cumulative", "TU01", {"dst": ints(4, 8, dtype="uint32")}),
    Case("tensor_scalar_cumulative", "RC02", {"op1": nl.power}, {"op1": nl.subtract}, says="nl.power"),
    Case("tensor_scalar_cumulative", "RC04", {"imm1": None}, {"reduce_cmd": command.load_reduce}, says="imm1"),
    Case("tensor_tensor_scan", "BU02", {"data0": psum(4, 8)}, {"data1": psum(4, 8)}),
    Case("tensor_tensor_scan", "OP01", {"op0": nl.left_shift}, says="nl.left_shift"),
    Case("tensor_tensor_scan", "OP01", {"op1": nl.tanh}, says="nl.tanh"),
    Case("tensor_tensor_scan", "OP02", {}, {"op0": nl.abs_min}, "trn2", "trn3", says="nl.abs_min"),
    Case("tensor_tensor_scan", "OP02", {}, {"op1": nl.abs_min}, "trn1", "trn3", says="nl.abs_min"),
    Case("tensor_tensor_scan", "SC01", {"op1": nl.abs}, says="nl.abs"),
    Case("select_reduce", "BU02", {"on_true": psum(4, 8)}, {"predicate": psum(4, 8, dtype="uint8")}),
    Case("select_reduce", "SR01", {"on_true": ints(4, 8)}, {"on_true": ints(4, 8, dtype="int16")}),
    Case("select_reduce", "SR02", {"predicate": tile(4, 8)}, {"predicate": tile(4, 8, dtype="bool")}),
    Case("select_reduce", "RC02", {"reduce_op": nl.add}, says="nl.add"),
    Case("select_reduce", "RC05", {"reduce_res": ints(4, 1)}, {"reduce_res": tile(4, 1, dtype="bfloat16")}),
    Case("range_select", "DT03", {"bound0": ints(4, 1)}),
    Case("range_select", "DT03", {"bound1": tile(4, 1, dtype="bfloat16")}),
    Case("range_select", "RS01", {"on_true_tile": ints(4, 8)}, {"on_true_tile": psum(4, 8, dtype="bfloat16")}),
    Case("range_select", "RS02", {"comp_op0": nl.not_equal}, {"comp_op0": nl.equal}, says="nl.not_equal"),
    Case("range_select", "RS03", {"on_false_value": -3.4e38}, {"on_false_value": -3.4028235e38}, says="-3.4e+38"),
    Case("range_select", "RS03", {"on_false_value": float("-inf")}, says="-inf"),
    Case("range_select", "RS04", {"range_start": EXACT - 6}, {"range_start": EXACT - 7}, says=str(EXACT - 6)),
    Case("range_select", "RC02", {"reduce_op": nl.minimum}, says="nl.minimum"),
    Case("exponential", "DI01", {"dst": tile(4, 1, 2, 2, 2)}, {"dst": tile(4, 2, 2, 2)}),
    Case("exponential", "DI01", {"src": tile(4, 1, 2, 2, 2)}, {"src": tile(4, 2, 2, 2)}),
    Case("exponential", "DT03", {"max_value": tile(4, 1, dtype="bfloat16")}),
    Case("exponential", "DT03", {"reduce_init": tile(4, 1, dtype="bfloat16")}),
    Case("exponential", "EX01", {"src": tile(4, 8, dtype="tfloat32")}, {"src": ints(4, 8, dtype="uint32")}),
    Case("exponential", "EX02", {"dst": ints(4, 8, dtype="uint32")}, {"dst": tile(4, 8, dtype="tfloat32")}),
    Case("exponential", "EX03", {"reduce_res": ints(4, 1)}, {"reduce_res": tile(4, 1, dtype="float8_e5m2")}),
    Case("exponential", "EX04", {"reduce_cmd": command.reset_reduce}, says="reset_reduce"),
    Case("exponential", "EX04", {"reduce_init": 1.0}, WITHOUT_LOAD["exponential"], says="reduce_init=1.0"),
    Case("activate2", "AT01", {"op": nl.add}, says="nl.add"),
    Case("activate2", "AT02", {"op0": nl.add}, {"op1": nl.subtract}, says="nl.add"),
    Case("activate2", "AT03", {"op0": nl.bypass}, {"op1": nl.bypass, "reverse0": True}, says="reverse0=True"),
    Case("activate2", "AT03", {"op1": nl.bypass}, {"reverse1": True}, says="reverse1=True"),
    Case("activate2", "AT04", {"imm0": tile(4, 1, dtype="bfloat16")}),
    Case("activate2", "AT05", {"reduce_op": None}, {"reduce_cmd": command.reset}, says="reset"),
    Case("activate2", "RC02", {"reduce_op": nl.multiply}, says="nl.multiply"),
    Case("max8", "DI01", {"src": tile(4, 2, 2, 4)}, {"src": tile(4, 4, 4)}),
    Case("max8", "DI01", {"dst": tile(4, 2, 4)}),
    Case("max8", "EL01", {"src": tile(4, 7)}, {"src": tile(4, 8)}, says="8 to 16384"),
    Case("max8", "EL01", {"src": tile(4, 16385)}, {"src": tile(4, 16384)}, says="16385"),
    Case("max8", "EL01", {"dst": tile(4, 9)}, says="exactly 8"),
    Case("nc_find_index8", "DI01", {"data": tile(4, 2, 2, 4)}),
    Case("nc_find_index8", "DI01", {"vals": tile(4, 2, 2, 2)}, {"vals": tile(4, 2, 4)}),
    Case("nc_find_index8", "DI01", {"dst": ints(4, 2, 4, dtype="uint32")}),
    Case("nc_find_index8", "EL01", {"data": tile(4, 7)}),
    Case("nc_find_index8", "EL01", {"vals": tile(4, 9)}),
    Case("nc_find_index8", "EL01", {"dst": ints(4, 16, dtype="uint32")}),
    Case("nc_find_index8", "M801", {"dst": ints(4, 8)}, {"dst": ints(4, 8, dtype="uint16")}),
    Case("nc_match_replace8", "EL01", {"data": tile(4, 16385), "dst": tile(4, 16385)}),
    Case("nc_match_replace8", "EL01", {"vals": tile(4, 7)}),
    Case("nc_match_replace8", "EL01", {"dst_idx": ints(4, 9, dtype="uint32")}),
    Case("nc_match_replace8", "M801", {"dst_idx": ints(4, 8, dtype="int16")}),
]
