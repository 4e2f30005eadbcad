"""A file of kernels as serving stacks write them: it imports the vendor's packages, and its tensors are on "neuron"."""

import pytest
import torch
from libtorch_neuronx_lite.nki.nki_hop import wrap_nki as wrap_lite
from torch_neuronx import nki_op, wrap_nki
from torch_neuronx.utils import get_logical_neuron_cores, get_platform_target
from torch_neuronx.xla_impl.ops import nki_jit, xla_hlo_call
from torch_xla.core import xla_model as xm

import nki
import nki.isa as nisa
import nki.language as nl

DEVICE = torch.device("neuron")


@wrap_nki
@nki.jit
def scaled(x, scale):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, scale)
    nl.store(out, tile)
    return out


@nki.jit
def shifted(cache, x):
    """The cache without its first columns, and ``x`` behind it, in place."""
    width = cache.shape[1] - x.shape[1]
    kept = nl.load(cache[:, x.shape[1] :])
    nl.store(cache[:, :width], kept)
    nl.store(cache[:, width:], nl.load(x))
    return cache


@nki_op("open_nki_shims::scaled", mutates_args={})
def scaled_op(x: torch.Tensor, scale: float) -> torch.Tensor:
    return scaled[get_logical_neuron_cores()](x, scale)


@nki_op("open_nki_shims::shifted", mutates_args={"cache"})
def shifted_op(cache: torch.Tensor, x: torch.Tensor) -> None:
    wrap_lite(shifted)(cache, x)


@torch.compile(backend="neuron", fullgraph=True)
def compiled(x, cache):
    shifted_op(cache, x)
    return scaled_op(x * 2, 3.0) + 1


@nki_jit
def doubled_beta1(x, out):
    import neuronxcc.nki.language as nl1

    nl1.store(out, nl1.load(x) * 2)


@xla_hlo_call
def uniform(tensor):
    return tensor.dtype[tensor.sizes].Rng()


def main() -> None:
    assert get_platform_target() in ("trn1", "trn2", "trn3")
    x = torch.rand(128, 4).to(DEVICE)
    cache = torch.zeros(128, 6, device="neuron")
    assert torch.equal(compiled(x, cache), 6 * x + 1)
    assert torch.equal(cache[:, 2:], x)
    assert scaled_op(x.to("meta"), 2.0).shape == x.shape
    out = torch.empty_like(x, device=xm.xla_device())
    doubled_beta1(x, out)
    xm.mark_step()
    torch.neuron.synchronize()
    assert torch.equal(out, 2 * x)
    assert out.device.type == "cpu"
    with pytest.raises(nki.NkiError, match="NKI-HN001"):
        uniform(x)
    print("ran")


if __name__ == "__main__":
    main()
