"""Compile times of kernels of the public NKI library: ``make bench NKILIB=path``.

The library is https://github.com/aws-neuron/nki-library (Apache-2.0), branch ``2.29_release``; nothing of it is in this
repository. Each kernel compiles from source to native code in a process of its own, without a cache on disk, and
nothing runs. ``python -m benchmarks.public_library path [name ...]`` prints for each kernel the instructions, their
rate, the seconds of CPU time of each stage, and the peak of host memory beyond what was resident before, for each
instruction.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STAGES = ("specialise", "accumulate", "hazards", "allocate", "lower", "link", "LLVM")
"""What the table shows of the stages; ``verify`` and ``order`` are in the sum. ``lower`` is all stages between
``allocate`` and ``link``."""

_Arguments = dict[str, tuple[object, ...] | object]

_BF16, _F32, _I32 = "bfloat16", "float32", "int32"


def _tensor(dtype: str, *shape: int) -> tuple[object, ...]:
    return (dtype, *shape)


def _heads(count: int, *shape: int, names: str) -> _Arguments:
    return {name: _tensor(_BF16, count, *shape) for name in names.split()}


KERNELS: dict[str, tuple[str, str, _Arguments]] = {
    "depthwise convolution 2048 x 2048": (
        "experimental.conv.depthwise_conv1d",
        "depthwise_conv1d_implicit_gemm",
        {
            "img_ref": _tensor(_BF16, 1, 2048, 1, 2048),
            "filter_ref": _tensor(_BF16, 2048, 1, 1, 256),
            "padding": ((0, 0), (0, 0)),
            "stride": (1, 4),
            "rhs_dilation": (1, 1),
            "lhs_dilation": (1, 1),
            "feature_group_count": 2048,
            "batch_group_count": 1,
        },
    ),
    "moe_cte, shard on I, 79 blocks": (
        "core.moe.moe_cte.bwmm_shard_on_I",
        "blockwise_mm_baseline_shard_intermediate",
        {
            "hidden_states": _tensor(_BF16, 1025, 3072),
            "expert_affinities_masked": _tensor(_BF16, 65600, 1),
            "gate_up_proj_weight": _tensor(_BF16, 64, 3072, 2, 3072),
            "down_proj_weight": _tensor(_BF16, 64, 3072, 3072),
            "token_position_to_id": _tensor(_I32, 40448),
            "block_to_expert": _tensor(_I32, 79),
            "gate_and_up_proj_bias": _tensor(_BF16, 64, 2, 3072),
            "down_proj_bias": _tensor(_BF16, 64, 3072),
            "block_size": 512,
        },
    ),
    "blockwise MoE backward, 31 blocks": (
        "experimental.moe.bwd.blockwise_mm_backward",
        "blockwise_mm_bwd",
        {
            "hidden_states": _tensor(_BF16, 8193, 5120),
            "expert_affinities_masked": _tensor(_BF16, 131088, 1),
            "gate_up_proj_weight": _tensor(_BF16, 16, 5120, 2, 256),
            "down_proj_weight": _tensor(_BF16, 16, 256, 5120),
            "gate_up_proj_act_checkpoint_T": _tensor(_BF16, 31, 2, 256, 512),
            "down_proj_act_checkpoint": _tensor(_BF16, 31, 512, 5120),
            "token_position_to_id": _tensor(_I32, 15872),
            "block_to_expert": _tensor(_I32, 31),
            "output_hidden_states_grad": _tensor(_BF16, 8193, 5120),
            "block_size": 512,
            "is_tensor_update_accumulating": False,
        },
    ),
    "moe_tkg, all of 64 experts": (
        "core.moe.moe_tkg.moe_tkg",
        "moe_tkg",
        {
            "hidden_input": _tensor("float16", 512, 4096),
            "expert_gate_up_weights": _tensor("float16", 64, 4096, 2, 384),
            "expert_down_weights": _tensor("float16", 64, 384, 4096),
            "expert_affinities": _tensor(_BF16, 512, 64),
            "expert_index": _tensor(_I32, 512, 8),
            "is_all_expert": True,
            "rank_id": _tensor("uint32", 1, 1),
        },
    ),
    "attention backward, 16 heads of 4096": (
        "core.attention.attention_bwd",
        "attention_bwd",
        _heads(1, 16, 128, 4096, names="q_ref k_ref v_ref o_ref dy_ref")
        | {"lse_ref": _tensor(_F32, 1, 16, 128, 32), "use_causal_mask": True, "mixed_precision": True},
    ),
    "attention_cte, 4 heads of 8192": (
        "core.attention.attention_cte",
        "attention_cte",
        _heads(4, 128, 8192, names="q k") | {"v": _tensor(_BF16, 4, 8192, 128), "scale": 1.0, "tp_q": False},
    ),
    "mlp, 4096 x 8192 x 1792": (
        "core.mlp.mlp",
        "mlp",
        {
            "hidden_tensor": _tensor(_BF16, 1, 4096, 8192),
            "gate_proj_weights_tensor": _tensor(_BF16, 8192, 1792),
            "up_proj_weights_tensor": _tensor(_BF16, 8192, 1792),
            "down_proj_weights_tensor": _tensor(_BF16, 1792, 8192),
            "normalization_weights_tensor": _tensor(_BF16, 1, 8192),
        },
    ),
    "qkv, 16384 x 8192 x 1280": (
        "core.qkv.qkv",
        "qkv",
        {"input": _tensor(_BF16, 1, 16384, 8192), "fused_qkv_weights": _tensor(_BF16, 8192, 1280)},
    ),
    "output_projection_cte, 8192 x 2048 x 8192": (
        "core.output_projection.output_projection_cte.output_projection_cte",
        "output_projection_cte",
        {
            "attention": _tensor(_BF16, 1, 16, 128, 8192),
            "weight": _tensor(_BF16, 2048, 8192),
            "bias": _tensor(_BF16, 1, 8192),
        },
    ),
    "cross_entropy_backward, 16384 x 151936": (
        "experimental.loss.cross_entropy",
        "cross_entropy_backward",
        {
            "logits_hbm": _tensor(_BF16, 16384, 151936),
            "targets_hbm": _tensor(_I32, 16384),
            "lse_state_hbm": _tensor(_BF16, 16384),
            "positions_per_batch": 64,
            "chunk_size": 16384,
        },
    ),
    "cross_entropy_forward, 16384 x 151936": (
        "experimental.loss.cross_entropy",
        "cross_entropy_forward",
        {
            "logits_hbm": _tensor(_BF16, 16384, 151936),
            "targets_hbm": _tensor(_I32, 16384),
            "positions_per_batch": 64,
            "chunk_size": 65535,
        },
    ),
}
"""By name: the module below ``nkilib_src.nkilib``, its kernel, and the arguments: dtype and shape of each tensor."""


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.public_library", description=__doc__)
    parser.add_argument("library", type=Path, help="a checkout of the library")
    parser.add_argument("names", nargs="*", help="parts of names of kernels; default: all")
    parser.add_argument("--here", action="store_true", help="in this process, and a line of JSON for each kernel")
    options = parser.parse_args()
    chosen = [name for name in KERNELS if not options.names or any(part in name for part in options.names)]
    if options.here:
        for name in chosen:
            print(json.dumps(measured(options.library, name)), flush=True)
        return 0
    print(f"| kernel | instructions | per second | {' | '.join(STAGES)} | bytes each |")
    print(f"|---|{'--:|' * (len(STAGES) + 3)}")
    for name in chosen:
        for row in _rows(options.library, name):
            stages = " | ".join(f"{row['seconds'].get(stage, 0):.2f}" for stage in STAGES)
            rate, size = row["instructions"] / row["total"], row["memory"] / row["instructions"]
            print(f"| {name} | {row['instructions']:,} | {rate:,.0f} | {stages} | {size:,.0f} |", flush=True)
    return 0


def _rows(library: Path, name: str) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", "benchmarks.public_library", "--here", str(library), name]
    environment = os.environ | {"OPEN_NKI_CACHE_DISABLE": "1"}
    done = subprocess.run(command, env=environment, check=False, stdout=subprocess.PIPE, text=True)
    for line in done.stdout.splitlines():
        if line.startswith("{"):  # kernels of the library print, too
            yield json.loads(line)
    if done.returncode:
        print(f"| {name} | failed |", flush=True)


def arguments_of(name: str) -> dict[str, Any]:
    """Arguments of the kernel called ``name``: tensors of zeros, which take no memory until they are touched."""
    import ml_dtypes
    import numpy as np

    _, _, arguments = KERNELS[name]
    made: dict[str, Any] = {}
    for key, value in arguments.items():
        if isinstance(value, tuple) and isinstance(value[0], str):
            dtype, *shape = value
            made[key] = np.zeros(shape, ml_dtypes.bfloat16 if dtype == _BF16 else dtype)
        else:
            made[key] = value
    return made


def kernel_of(library: Path, name: str) -> Any:
    """The kernel called ``name`` of the checkout at ``library``, on two cores."""
    import nki

    sources = str(library / "src")
    if sources not in sys.path:
        sys.path.insert(0, sources)
    module, function, _ = KERNELS[name]
    kernel = getattr(importlib.import_module(f"nkilib_src.nkilib.{module}"), function)
    return (kernel if hasattr(kernel, "compile") else nki.jit(kernel))[2]


def measured(library: Path, name: str) -> dict[str, Any]:
    """Compile the kernel called ``name``: its instructions, seconds by stage and in sum, and peak memory in bytes."""
    from benchmarks.resident_memory import begin, peak
    from nki.backend.cpu.runtime import link
    from nki.compilation import executable

    warnings.simplefilter("ignore")
    kernel, arguments = kernel_of(library, name), arguments_of(name)
    seconds: dict[str, float] = {}
    instructions = 0
    last = time.process_time()

    def note(stage: str) -> None:
        nonlocal last
        now = time.process_time()
        seconds[stage] = seconds.get(stage, 0) + now - last
        last = now

    def observe(stage: str, program: Any) -> None:
        nonlocal instructions
        instructions = instructions or program.size
        note(stage)

    def noting(module: Any, function: str, before: str | None, after: str) -> None:
        original = getattr(module, function)

        def run(*args: Any, **kwargs: Any) -> Any:
            if before:
                note(before)
            try:
                return original(*args, **kwargs)
            finally:
                note(after)

        setattr(module, function, run)

    noting(executable, "lower", None, "lower")
    noting(link, "compile_routines", "link", "LLVM")
    resident = begin()
    start = last = time.process_time()
    kernel.compile(**arguments, observe=observe)
    note("link")
    return {
        "kernel": name,
        "instructions": instructions,
        "seconds": {stage: round(took, 3) for stage, took in seconds.items()},
        "total": time.process_time() - start,
        "memory": peak() - resident,
    }


if __name__ == "__main__":
    sys.exit(main())
