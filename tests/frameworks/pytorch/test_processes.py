"""Kernels in the processes that PyTorch starts: workers of a DataLoader, and two that train one model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def run(program, *arguments, timeout=240):
    """The output of a program, which is a file, because processes that are spawned import it again."""
    done = subprocess.run(
        [sys.executable, str(program), *arguments],
        cwd=program.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


LOADER = """
import sys
import torch
from torch.utils.data import DataLoader, Dataset
import nki.torch
from tests.frameworks.kernels import add, multiply

product = nki.torch.op(multiply, lambda a, b, dy: (multiply(dy, b), multiply(dy, a)))


class Rows(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        row = torch.full((1, 8), float(i))
        assert product(row.requires_grad_(), row.detach()).requires_grad
        return add(row.detach(), row.detach())


def collate(rows):
    return add(torch.cat(rows), torch.ones(len(rows), 8))


if __name__ == "__main__":
    if sys.argv[1] == "fork":  # what the parent compiled, its children have
        add(torch.ones(1, 8), torch.ones(1, 8))
    loader = DataLoader(Rows(), 4, collate_fn=collate, num_workers=2, multiprocessing_context=sys.argv[1])
    rows = torch.cat(list(loader))
    assert torch.equal(rows, (2 * torch.arange(12.0) + 1)[:, None].expand(12, 8)), rows
    print("batches are right")
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_data_loader(tmp_path, method):
    program = tmp_path / "load.py"
    program.write_text(LOADER)
    assert "batches are right" in run(program, method)


TWO = """
import os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import local_map
import nki, nki.torch
from nki.base.framework_errors import NotDifferentiableError, TensorLayoutError
from tests.frameworks.kernels import add, multiply, put, scale_in_place, sum_and_scaled

product = nki.torch.op(multiply, lambda a, b, dy: (multiply(dy, b), multiply(dy, a)))
A = torch.arange(48.0).reshape(8, 6) / 16
B = A.flip(0) + 1


class Layer(torch.nn.Module):
    def __init__(self, kernels):
        super().__init__()
        self.kernels = kernels
        self.linear = torch.nn.Linear(6, 6)
        self.weight = torch.nn.Parameter(torch.linspace(0.5, 1.5, 24).reshape(4, 6))

    def forward(self, x):
        x = self.linear(x)
        return product(x, self.weight) if self.kernels else x * self.weight


class Model(torch.nn.Module):
    def __init__(self, kernels):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(Layer(kernels) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def distributed_tensors(mesh, rank):
    a, b = distribute_tensor(A, mesh, [Shard(0)]), distribute_tensor(B, mesh, [Replicate()])
    total, scaled = sum_and_scaled(a, b, scale=3.0)
    assert total.placements == (Replicate(),) and torch.equal(total.full_tensor(), A + B)
    assert torch.equal(scaled.full_tensor(), 3 * A[:1])
    compiled = torch.compile(lambda a, b: add(a, b) + 1, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(a, b).full_tensor(), A + B + 1)
    a.requires_grad_()
    (product(a, b) * a).sum().backward()
    assert torch.allclose(a.grad.full_tensor(), 2 * A * B)
    try:
        add(a, b).sum().backward()
    except NotDifferentiableError as error:
        assert "'add'" in str(error)
    else:
        raise AssertionError("no error")
    changed = distribute_tensor(A, mesh, [Shard(0)])
    scale_in_place(changed)
    assert changed.placements == (Shard(0),) and torch.equal(changed.full_tensor(), 2 * A)
    for run in (lambda k: k, lambda k: torch.compile(k, fullgraph=True, backend="aot_eager"), nki.simulate):
        cache, x = distribute_tensor(A * 0, mesh, [Shard(0)]), distribute_tensor(B[:4], mesh, [Replicate()])
        assert torch.equal(run(put)(cache, x).full_tensor(), 2 * B[:4])
        assert cache.placements == (Shard(0),) and torch.equal(cache.full_tensor()[:4], B[:4])
    try:
        add(changed, B)
    except TensorLayoutError as error:
        assert "together with plain ones" in str(error)
    else:
        raise AssertionError("no error")
    os.environ["NKI_SIMULATOR"] = "1"
    assert torch.equal(add(changed, b).full_tensor(), 2 * A + B)
    del os.environ["NKI_SIMULATOR"]


def on_shards(mesh, rank):
    shapes = []
    def kernel(a, b):
        shapes.append(tuple(a.shape))
        return product(a, b)
    local = local_map(kernel, out_placements=[Shard(0)], in_placements=([Shard(0)], [Shard(0)]), device_mesh=mesh)
    a, b = (distribute_tensor(t, mesh, [Shard(0)]) for t in (A, B))
    a.requires_grad_()
    result = local(a, b)
    assert shapes == [(4, 6)] and result.placements == (Shard(0),)
    assert torch.equal(result.full_tensor(), A * B)
    result.sum().backward()
    assert torch.equal(a.grad.full_tensor(), B)


def fsdp(mesh, rank):
    losses = []
    for kernels in (True, False):
        model = Model(kernels)
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        assert isinstance(model.layers[0].weight, DTensor)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        losses.append([])
        for step in range(4):
            x = torch.linspace(-1, 1, 24).reshape(4, 6) * (1 + rank + step)
            loss = model(x).square().mean()
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            losses[-1].append(loss.item())
    assert losses[0][-1] < losses[0][0]
    assert all(abs(a - b) <= 1e-6 * abs(b) for a, b in zip(*losses)), losses


def work(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    globals()[sys.argv[1]](mesh, rank)
    dist.barrier()
    dist.destroy_process_group()
    os.write(1, f"rank {rank} is right. ".encode())  # at once: both write to one pipe
    # PyTorch 2.13 may abort at the interpreter's end after fully_shard, without kernels, too: on a busy machine one
    # run of fifty ("terminate called without an active exception").
    os._exit(0)


if __name__ == "__main__":
    # Forked, since each would import PyTorch again, for 4 s; workers of a data loader are spawned above.
    mp.start_processes(work, (os.getcwd(),), nprocs=2, start_method="fork")
"""


@pytest.mark.parametrize("function", ["distributed_tensors", "on_shards", "fsdp"])
def test_two_processes(tmp_path, function):
    program = tmp_path / "two.py"
    program.write_text(TWO)
    shown = run(program, function)
    assert "rank 0 is right" in shown and "rank 1 is right" in shown
