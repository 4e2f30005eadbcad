"""Rule cases of quantize_mx, nc_matmul_mx and psum_zero."""

from __future__ import annotations

from typing import Any

from .spec import Case, Spec, call, ints, psum, tile

SCALES = ("stationary_scale", "moving_scale", "dst_scale")
"""They lie where other tiles may not."""
ANY_DTYPE = {("quantize_mx", "dst"), ("nc_matmul_mx", "stationary"), ("nc_matmul_mx", "moving")}


def e4(*shape: int, **more: Any) -> Spec:
    return Spec(*shape, dtype="float8_e4m3fn_x4", **more)


def f4(*shape: int, **more: Any) -> Spec:
    return Spec(*shape, dtype="float4_e2m1fn_x4", **more)


def e8(*shape: int, **more: Any) -> Spec:
    return Spec(*shape, dtype="float8_e8m0fnu", **more)


def u8(*shape: int, **more: Any) -> Spec:
    return Spec(*shape, dtype="uint8", **more)


def bf16(*shape: int, **more: Any) -> Spec:
    return Spec(*shape, dtype="bfloat16", **more)


LEGAL: dict[str, dict[str, Any]] = {
    "psum_zero": call(dst=psum(16, 24)),
    "quantize_mx": call(dst=e4(32, 8), src=bf16(32, 32), dst_scale=u8(4, 8)),
    "nc_matmul_mx": call(
        dst=psum(16, 24), stationary=e4(32, 16), moving=f4(32, 24), stationary_scale=u8(4, 16), moving_scale=e8(4, 24)
    ),
}
# Four quadrants, the scales shifted.
TALL = {"dst": e4(128, 8), "src": bf16(128, 8, 4), "dst_scale": e8(112, 8, at=12)}
DEEP = call(stationary=e4(128, 16), moving=f4(128, 24), stationary_scale=u8(128, 16), moving_scale=u8(124, 24, at=4))
THIRD = {"dst": e4(32, 8, at=64), "src": bf16(32, 32, at=64), "dst_scale": u8(4, 8, at=72)}
ROWS = {"tile_size": (64, 128), "tile_position": (64, 0)}

CASES = [
    Case("quantize_mx", "GE01", {}, {}, "trn2", "trn3", says="trn2"),
    Case("quantize_mx", "QM02", {"src": tile(32, 32)}, {"src": Spec(32, 32, dtype="float16")}),
    Case("quantize_mx", "QM03", {"dst": f4(32, 8)}, {"dst": Spec(32, 8, dtype="float8_e5m2_x4")}),
    Case("quantize_mx", "QM04", {"src": bf16(24, 32), "dst": e4(24, 8)}),
    Case("quantize_mx", "QM05", {"src": bf16(32, 30)}, {"src": bf16(32, 16, 2)}),
    Case("quantize_mx", "QM05", {"src": bf16(32, 16, 2, width=3)}, {"src": bf16(32, 8, 4, width=5)}),
    Case("quantize_mx", "QM06", {"dst": e4(32, 9)}, {"dst": e4(32, 2, 4)}),
    Case("quantize_mx", "QM06", {"dst": e4(64, 8)}),
    Case("quantize_mx", "SC01", {"dst_scale": ints(4, 8, dtype="int8")}),
    Case("quantize_mx", "SC02", {"dst_scale": u8(4, 9)}, {"dst_scale": u8(4, 2, 4)}),
    Case("quantize_mx", "SC03", {"dst_scale": u8(4, 8, at=2)}, {"dst_scale": u8(4, 8, at=12)}),
    Case("quantize_mx", "SC03", {"dst_scale": u8(4, 8, at=16)}, says="starts at partition 16"),
    Case("quantize_mx", "SC03", {"dst_scale": u8(4, 8)}, THIRD),
    Case("quantize_mx", "SC04", {"dst_scale": u8(3, 8)}, {"dst_scale": u8(32, 8)}),
    Case("quantize_mx", "SC04", {"dst_scale": u8(99, 8)}, TALL),
    Case("quantize_mx", "SC05", {"dst_scale": u8(4, 8, step=2)}),
    Case("nc_matmul_mx", "GE01", {}, {}, "trn1", "trn3", says="trn1"),
    Case("nc_matmul_mx", "XM02", {"moving": ints(32, 24, dtype="uint32")}, {"moving": e4(32, 24)}),
    Case("nc_matmul_mx", "XM03", {"moving": f4(64, 24)}),
    Case("nc_matmul_mx", "XM04", {"stationary": e4(48, 16), "moving": f4(48, 24)}, DEEP),
    Case("nc_matmul_mx", "XM05", {"stationary": e4(32, 15), "dst": psum(15, 24)}),
    Case("nc_matmul_mx", "XM05", {"stationary": e4(32, 130), "dst": psum(128, 24)}),
    Case("nc_matmul_mx", "XM06", {"dst": psum(16, 24, dtype="float16")}, {"dst": psum(16, 24, dtype="bfloat16")}),
    Case(
        "nc_matmul_mx",
        "XM07",
        {"moving": f4(32, 8193)},
        {"moving": f4(32, 8192), "dst": psum(16, 8192, dtype="bfloat16"), "moving_scale": e8(4, 8192)},
    ),
    Case(
        "nc_matmul_mx",
        "XM07",
        {"moving": f4(32, 4097)},
        {"moving": f4(32, 4096), "dst": psum(16, 4096), "moving_scale": e8(4, 4096)},
    ),
    Case("nc_matmul_mx", "XM08", {"dst": psum(24, 16)}, {"dst": psum(16, 3, 8)}),
    Case("nc_matmul_mx", "XM09", {"tile_position": (32, 0)}, ROWS, says="(32, 0)"),
    Case("nc_matmul_mx", "XM09", {"tile_position": None}, ROWS, says="tile_position=None"),
    Case("nc_matmul_mx", "XM09", {"tile_size": (64, 64)}, ROWS, says="(64, 64)"),
    Case("nc_matmul_mx", "XM10", DEEP, ROWS),
    Case("nc_matmul_mx", "SC01", {"stationary_scale": bf16(4, 16)}),
    Case("nc_matmul_mx", "SC02", {"stationary_scale": u8(4, 17)}),
    Case("nc_matmul_mx", "SC03", {"stationary_scale": u8(4, 16, at=1)}, {"stationary_scale": u8(4, 16, at=8)}),
    Case("nc_matmul_mx", "SC04", {"stationary_scale": u8(16, 16)}, DEEP),
    Case("nc_matmul_mx", "SC05", {"stationary_scale": u8(4, 16, step=4)}),
    Case("nc_matmul_mx", "SC01", {"moving_scale": tile(4, 24)}),
    Case("nc_matmul_mx", "SC02", {"moving_scale": e8(4, 6)}, {"moving_scale": e8(4, 24)}),
    Case("nc_matmul_mx", "SC03", {"moving_scale": u8(4, 24, at=32)}),
    Case("nc_matmul_mx", "SC04", {"moving_scale": u8(96, 24, at=4)}, DEEP),
    Case("nc_matmul_mx", "SC05", {"moving_scale": u8(4, 24, step=8)}),
]
