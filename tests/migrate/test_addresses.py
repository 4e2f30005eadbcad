"""Direct allocation of Beta 1: its addresses become ``address=``, with the names of the source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nki.migrate.migration import Migration, migrated
from nki.migrate.runs.run_comparison import Call

KERNEL = """\
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
from neuronxcc.nki.compiler import sbuf

sb_mod = ncc.sbuf.mod_alloc


def layout(idx, pdim_size, fdim_size):
    return 0, 2048 + idx[0] * fdim_size


@nki.jit
def kernel(k, n=4, p_k=64, n_k=32):
    sca = 1024
    out = nl.ndarray(k.shape, dtype=k.dtype, buffer=nl.shared_hbm)
    {made}
    for t in nl.affine_range(n):
        {tile} = {source}
        nl.store(out[t], {result})
    return out
"""
PLAIN = {"tile": "tiles[t]", "source": "nl.load(k[t])", "result": "tiles[t]"}
IN_PSUM = {"tile": "tiles[t]", "source": "nisa.tensor_copy(nl.load(k[t]))", "result": "nisa.tensor_copy(tiles[t])"}
SQUARE = {"tile": "tiles[t // 2, t % 2]", "source": "nl.load(k[t])", "result": "tiles[t // 2, t % 2]"}
ONE = {"tile": "tiles[...]", "source": "nl.load(k[t])", "result": "tiles"}
# The buffer, the address, the rest of the kernel.
CASES = [
    ("(n, nl.par_dim(p_k), n_k)", "nl.bfloat16", "sb_mod(base_addr=sca, num_free_tiles=(n,))",
     "address=(0, sca + (i % n) * n_k * 2)) for i in range(n)]", PLAIN),
    ("(n, nl.par_dim(p_k), n_k)", "nl.bfloat16", "nki.compiler.sbuf.mod_alloc(base_addr=sca, num_free_tiles=[2])",
     "address=(0, sca + (i % 2) * n_k * 2)) for i in range(n)]", PLAIN),
    ("(n, nl.par_dim(p_k), n_k)", "k.dtype", "sbuf.mod_alloc(base_addr=0, base_partition=64, num_free_tiles=n)",
     "address=(64, (i % n) * n_k * k.dtype.itemsize)) for i in range(n)]", PLAIN),
    ("(2, 2, nl.par_dim(p_k), n_k)", "k.dtype", "sb_mod(base_addr=0, num_par_tiles=(1, 2), num_free_tiles=(2, 1))",
     "address=((j % 2) * p_k, (i % 2) * n_k * k.dtype.itemsize)) for j in range(2)] for i in range(2)]", SQUARE),
    ("(2, 2, nl.par_dim(p_k), n_k)", "k.dtype", "sb_mod(base_addr=64, num_free_tiles=(2, 2))",
     "address=(0, ((i % 2) * 2 + j % 2) * n_k * k.dtype.itemsize + 64)) for j in range(2)] for i in range(2)]", SQUARE),
    ("(nl.par_dim(p_k), n_k)", "k.dtype", "sb_mod(base_addr=4096)", "address=(0, 4096))", ONE),
    ("(n, nl.par_dim(p_k), n_k)", "k.dtype", "sb_mod(base_addr=4096)", "address=(0, 4096)) for i in range(n)]", PLAIN),
    ("(n, nl.par_dim(p_k), n_k)", "nl.float32", "ncc.psum.mod_alloc(base_bank=2, num_bank_tiles=(2,))",
     "address=(0, (i % 2 + 2) * 2048)) for i in range(n)]", IN_PSUM),
    ("(n, nl.par_dim(p_k), n_k)", "nl.float32",
     "ncc.psum.mod_alloc(base_bank=1, base_partition=64)", "address=(64, 2048)) for i in range(n)]", IN_PSUM),
    ("(n, nl.par_dim(p_k), n_k)", "k.dtype", "ncc.sbuf.alloc(layout)",
     "address=layout((i,), p_k, n_k * k.dtype.itemsize)) for i in range(n)]", PLAIN),
    ("(n, nl.par_dim(p_k), n_k)", "k.dtype", "ncc.sbuf.auto_alloc()", "buffer=nl.sbuf) for _ in range(n)]", PLAIN),
]  # fmt: skip


def migration(made: str, rest: dict[str, str], folder: Path) -> Migration:
    k = np.round(np.random.default_rng(0).standard_normal((4, 64, 32)) * 8).astype(np.float32)
    return migrated(folder / "kernel.py", KERNEL.format(made=made, **rest), [Call("kernel", (k,))])


@pytest.mark.parametrize(("shape", "dtype", "buffer", "address", "rest"), CASES)
def test_addresses_stay(
    shape: str, dtype: str, buffer: str, address: str, rest: dict[str, str], tmp_path: Path
) -> None:
    for made in (
        f"tiles = nl.ndarray({shape}, dtype={dtype}, buffer={buffer})",
        f"memory = {buffer}\n    tiles = nl.ndarray({shape}, dtype={dtype}, buffer=memory)",
    ):
        result = migration(made, rest, tmp_path)
        assert result.done, (result.outcomes, result.left, result.new)
        assert address in result.new, result.new
        assert not [note for note in result.notes if "address" in note]


def test_an_address_that_the_source_does_not_tell_is_noted(tmp_path: Path) -> None:
    rule = "ncc.psum.alloc(lambda idx, pdim_size, fdim_size: (idx[0], 0, 0))"
    result = migration(f"tiles = nl.ndarray((n, nl.par_dim(p_k), n_k), nl.float32, buffer={rule})", IN_PSUM, tmp_path)
    assert result.done, (result.outcomes, result.left, result.new)
    assert result.notes == ["`tiles`: the compiler chooses the address; nl.ndarray(address=…) fixes one"]


HOST = """\
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

try:
    import package_that_is_missing
except ImportError:
    package_that_is_missing = None


@nki.jit
def doubled(x):
    import math

    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) * math.sqrt(4.0))
    return out


def measured(x):
    import package_that_is_missing.timing as timing

    return timing.of(doubled, x)


if __name__ == "__main__":
    import ml_dtypes

    doubled(np.ones((8, 16), ml_dtypes.bfloat16))
"""


def test_imports_of_host_code_stay_where_they_are(tmp_path: Path) -> None:
    result = migrated(tmp_path / "kernel.py", HOST, [Call("doubled", (np.ones((8, 16), np.float32),))])
    assert result.done, (result.outcomes, result.left, result.new)
    assert 'if __name__ == "__main__":\n    import ml_dtypes\n' in result.new
    assert "try:\n    import package_that_is_missing\n" in result.new
    assert "def measured(x):\n    import package_that_is_missing.timing as timing\n" in result.new
    assert result.new.count("import math\n") == 1 and "    import math" not in result.new
