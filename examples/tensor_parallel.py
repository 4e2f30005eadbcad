"""A product over ranks: each has a slice of the inner dimension, and all_reduce adds what they compute.

In one process:     python examples/tensor_parallel.py
In two processes:   torchrun --nproc-per-node 2 examples/tensor_parallel.py
"""

import os

import numpy as np

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl


@nki.jit
def row_parallel(x, w, group):
    """``sum over ranks of x.T @ w``: x (128, 128) and w (128, 512) are the rank's slices; the same result on all."""
    x_tile, w_tile = (nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.sbuf) for t in (x, w))
    nisa.dma_copy(dst=x_tile, src=x)
    nisa.dma_copy(dst=w_tile, src=w)
    shape = (x.shape[1], w.shape[1])
    product = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=x_tile, moving=w_tile)
    tile = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=product)
    # Collectives work on tensors of the kernel's own, never on its arguments or results.
    partial = nl.ndarray(shape, dtype=nl.float32, buffer=nl.private_hbm, name="partial")
    total = nl.ndarray(shape, dtype=nl.float32, buffer=nl.private_hbm, name="total")
    nisa.dma_copy(dst=partial, src=tile)
    ncc.all_reduce(srcs=[partial], dsts=[total], replica_group=group, op=nl.add)
    out = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=total)
    return out


def main(ranks=2):
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal((128, 128), np.float32) for _ in range(ranks)]
    ws = [rng.standard_normal((128, 512), np.float32) for _ in range(ranks)]
    group = ncc.ReplicaGroup([list(range(ranks))])
    if "RANK" in os.environ:  # torchrun has started this process as one of the ranks
        import torch.distributed as dist

        dist.init_process_group("gloo")
        rank = dist.get_rank()
        out = row_parallel(xs[rank], ws[rank], group)
        dist.destroy_process_group()
    else:
        rank = 0
        with nki.ranks(ranks):
            out = row_parallel(xs, ws, group)[0]
    wanted = np.concatenate(xs).T @ np.concatenate(ws)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-3)
    # The line and its end in one write: with PYTHONUNBUFFERED, print would write them apart, and ranks share the pipe.
    print(f"rank {rank} of {ranks}: out[0, :3] = {out[0, :3]}\n", end="", flush=True)


if __name__ == "__main__":
    main()
