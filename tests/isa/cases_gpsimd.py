"""Rule cases of GpSimd's gathers and searches, of shuffles, and of random numbers."""

from __future__ import annotations

from typing import Any

import nki.isa as nisa

from .spec import Case, Spec, call, ints, psum, tile

engine = nisa.engine
ROTATE = [(p - 1) % 32 for p in range(32)]


def words(partitions: int, count: int, **more: Any) -> Spec:
    return Spec(partitions, count, **{"dtype": "uint32", **more})


def states(partitions: int, count: int, **more: Any) -> Spec:
    return words(partitions, count, buffer="register", **more)


def bf16(*shape: int, **more: Any) -> Spec:
    return Spec(*shape, dtype="bfloat16", **more)


LEGAL: dict[str, dict[str, Any]] = {
    "dropout": call("dst data", "prob"),
    "local_gather": call(
        dst=tile(16, 64),
        src_buffer=tile(16, 100),
        index=ints(16, 4, dtype="uint16"),
        num_elem_per_idx=2,
        num_valid_indices=32,
    ),
    "nc_n_gather": call("dst", data=tile(4, 100), indices=words(4, 8)),
    "nc_stream_shuffle": call(dst=tile(32, 8), src=tile(32, 8), shuffle_mask=ROTATE),
    "nonzero_with_count": call("src", dst=ints(4, 9), index_offset=5, padding_val=0),
    "rand2": call("dst", "min max"),
    "rand_get_state": call(dst=words(4, 6)),
    "rand_set_state": call(src_seeds=words(4, 6)),
    "rng": call(dst=words(4, 8)),
    "sequence_bounds": call(dst=tile(1, 2, 8), segment_ids=tile(1, 8)),
    "set_rng_seed": call(src_seeds=words(1, 1)),
    "topk": call(val_dst=bf16(16, 9), idx_dst=words(16, 9), src=bf16(16, 3), n=42),
}

STATES = [
    (mnemonic, twin, partitions)
    for mnemonic, twin, partitions in (
        ("rng", {"states": states(4, 24)}, 4),
        ("rand2", {"states": states(4, 24)}, 4),
        ("dropout", {"states": states(4, 24)}, 4),
        ("set_rng_seed", {"states": states(128, 24)}, 128),
        ("rand_set_state", {"states": states(4, 6)}, 4),
        ("rand_get_state", {"states": states(4, 6)}, 4),
    )
]

TWO_QUADRANTS = {"dst": tile(33, 8), "src": tile(33, 8), "shuffle_mask": [0] * 32}
BY_VECTOR = {"src_seeds": words(4, 24), "engine": engine.vector}

CASES = [
    Case("dropout", "SP01", {"data": tile(5, 8)}),
    Case("dropout", "SE01", {"data": tile(4, 9)}, {"data": tile(4, 2, 4)}),
    Case("dropout", "DT05", {"data": bf16(4, 8)}),
    Case("dropout", "CO01", {"prob": tile(5, 1)}, {"prob": bf16(4, 1)}),
    Case("dropout", "RN05", {"prob": bf16(4, 1)}, {"dst": ints(4, 8), "data": ints(4, 8)}, says="the_prob"),
    Case("local_gather", "SP01", {"src_buffer": tile(32, 100)}),
    Case("local_gather", "DT05", {"dst": bf16(16, 64)}),
    Case("local_gather", "DT04", {"index": ints(16, 4, dtype="int16")}),
    Case("local_gather", "LG01", {"dst": tile(8, 64), "src_buffer": tile(8, 100), "index": ints(8, 4, dtype="uint16")}),
    Case("local_gather", "LG02", {"num_elem_per_idx": 3, "dst": tile(16, 96)}, says="num_elem_per_idx=3"),
    Case("local_gather", "LG03", {"num_valid_indices": 65, "dst": tile(16, 130)}),
    Case("local_gather", "LG03", {"num_valid_indices": 0}, {"num_valid_indices": 1, "dst": tile(16, 2)}),
    Case(
        "local_gather",
        "LG04",
        {"num_valid_indices": None},
        call(index=ints(16, 257, dtype="uint16"), num_valid_indices=4096, num_elem_per_idx=1, dst=tile(16, 4096)),
    ),
    # Without both numbers the vendor's compiler takes the number of elements from the size of dst.
    Case("local_gather", "LG05", {"num_elem_per_idx": 1}),
    Case("local_gather", "LG05", {"num_valid_indices": None}, {"num_valid_indices": 32}),
    Case("nc_n_gather", "SP01", {"data": tile(5, 100)}),
    Case("nc_n_gather", "SE01", {"indices": words(4, 9)}, {"indices": Spec(4, 2, 4, dtype="uint32")}),
    Case("nc_n_gather", "DT05", {"dst": bf16(4, 8)}),
    Case("nc_n_gather", "DT04", {"indices": ints(4, 8)}),
    Case("nc_stream_shuffle", "DT05", {"dst": ints(32, 8)}),
    Case("nc_stream_shuffle", "SE01", {"src": tile(32, 9)}, {"src": psum(32, 2, 4)}),
    Case("nc_stream_shuffle", "SH01", {"shuffle_mask": ROTATE[1:]}, says="shuffle_mask"),
    Case(
        "nc_stream_shuffle",
        "SH01",
        {"shuffle_mask": [32, *ROTATE[1:]]},
        {"shuffle_mask": [255, *ROTATE[1:]]},
        says="32",
    ),
    Case("nc_stream_shuffle", "SH02", {"dst": tile(64, 8)}, {"src": tile(32, 8, at=96), "dst": psum(32, 8, at=32)}),
    Case(
        "nc_stream_shuffle",
        "SH02",
        {"src": tile(1, 8, at=32)},
        {"dst": tile(33, 8), "src": tile(33, 8), "shuffle_mask": [0] * 32},
    ),
    Case("nc_stream_shuffle", "SH03", {"dst": tile(64, 8)}, {"src": tile(1, 8), "shuffle_mask": [0] * 32}),
    Case("nc_stream_shuffle", "SH03", {"src": tile(31, 8)}, {"dst": tile(1, 8)}),
    Case("nonzero_with_count", "GE01", {}, {"src": ints(4, 8)}, "trn1", "trn2", says="trn1"),
    Case("nonzero_with_count", "DT04", {"dst": words(4, 9)}),
    Case("nonzero_with_count", "DT04", {"src": bf16(4, 8)}, {"src": ints(4, 8)}),
    Case("nonzero_with_count", "SP01", {"src": tile(5, 8)}),
    Case("nonzero_with_count", "NZ01", {"dst": ints(4, 8)}, {"dst": ints(4, 3, 3)}),
    Case("nonzero_with_count", "NZ02", {"index_offset": 2**31}, {"index_offset": 2**31 - 1}, says=str(2**31)),
    Case("rand2", "GE01", {}, {"min": 0.0, "max": 1.0}, "trn2", "trn3", says="trn2"),
    Case("rand2", "DT04", {"dst": tile(4, 8, dtype="bool")}, {"dst": psum(4, 8, dtype="float8_e5m2")}),
    Case("rand2", "DT04", {"min": bf16(4, 1)}),
    Case("rand2", "DT04", {"max": ints(4, 1)}),
    Case("rand2", "CO01", {"min": tile(5, 1)}),
    Case("rand2", "CO01", {"max": tile(4, 2)}),
    Case("rand2", "RN04", {"max": 1.0}, {"min": 1.0, "max": 1.5}, says="1.0"),
    Case("rng", "DT04", {"dst": tile(4, 8)}, {"dst": psum(4, 8, dtype="int8")}),
    Case("rng", "EN01", {"engine": engine.scalar}, {"engine": engine.gpsimd}, says="scalar"),
    Case("rng", "EN02", {"dst": psum(4, 8, dtype="uint32")}, {"engine": engine.gpsimd}),
    Case("rng", "RN02", {}, {"engine": engine.gpsimd}, "trn1", "trn2", says="trn1"),
    Case("rand_set_state", "GE01", {}, {}, "trn1", "trn2", says="trn1"),
    Case("rand_set_state", "DT04", {"src_seeds": ints(4, 6)}),
    Case("rand_set_state", "EN01", {"engine": engine.scalar}, says="scalar"),
    Case("rand_set_state", "EN02", {"src_seeds": psum(4, 6, dtype="uint32")}),
    Case("rand_set_state", "BU01", {"src_seeds": psum(4, 24, dtype="uint32")}, BY_VECTOR),
    Case(
        "rand_set_state", "RN03", {}, {"src_seeds": words(4, 24), "engine": engine.vector}, "trn2", "trn3", says="trn2"
    ),
    Case("rand_set_state", "RN07", {"src_seeds": words(4, 24)}),
    Case("rand_set_state", "RN07", {"src_seeds": words(4, 6)}, BY_VECTOR),
    Case("rand_get_state", "GE01", {}, {}, "trn1", "trn3", says="trn1"),
    Case("rand_get_state", "DT04", {"dst": ints(4, 6)}),
    Case("rand_get_state", "EN01", {"engine": engine.tensor}, says="tensor"),
    Case("rand_get_state", "EN02", {"dst": psum(4, 6, dtype="uint32")}),
    Case(
        "rand_get_state",
        "RN03",
        {},
        {"dst": psum(4, 24, dtype="uint32"), "engine": engine.vector},
        "trn2",
        "trn3",
        says="trn2",
    ),
    Case("rand_get_state", "RN07", {"dst": Spec(4, 2, 3, dtype="uint32")}),
    Case("sequence_bounds", "DT04", {"dst": bf16(1, 2, 8)}, {"dst": ints(1, 2, 8)}),
    Case("sequence_bounds", "DT04", {"segment_ids": words(1, 8)}, {"segment_ids": ints(1, 8)}),
    Case("sequence_bounds", "SB01", {"segment_ids": tile(2, 8)}),
    Case("sequence_bounds", "SB02", {"dst": tile(1, 16)}),
    Case("sequence_bounds", "SB02", {"segment_ids": tile(1, 9)}, {"segment_ids": tile(1, 2, 4)}),
    Case("set_rng_seed", "RN06", {"src_seeds": words(1, 2)}),
    Case("set_rng_seed", "RN06", {"src_seeds": ints(1, 1, dtype="uint16")}, {"src_seeds": psum(1, 1)}),
    Case("topk", "DT04", {"val_dst": tile(16, 9)}),
    Case("topk", "DT04", {"idx_dst": ints(16, 9)}),
    Case("topk", "DT04", {"src": tile(16, 3)}),
    Case("topk", "SP01", {"src": bf16(32, 3)}),
    Case("topk", "SE01", {"idx_dst": words(16, 10)}),
    Case("topk", "TK01", {"val_dst": bf16(20, 9), "idx_dst": words(20, 9), "src": bf16(20, 3)}),
    Case("topk", "TK02", {"src": bf16(16, 3, 1)}),
    Case("topk", "TK03", {"n": 7}, {"n": 8, "val_dst": bf16(16, 1), "idx_dst": words(16, 1)}, says="n=7"),
    Case("topk", "TK03", {"n": 65536}, {"src": bf16(16, 4096), "n": 65535}, says="n=65536"),
    Case("topk", "TK04", {"n": 49}, {"n": 48}),
    Case("topk", "TK05", {"n": 8}, {"n": 9}),
    *(Case(name, "RN01", {"states": None}, twin, says="states=None") for name, twin, _ in STATES),
    *(Case(name, "RN01", {"states": states(n, 24, skip=1, width=26)}, twin) for name, twin, n in STATES),
    *(Case(name, "RN01", {"states": states(n, 8)}, twin) for name, twin, n in STATES),
]
