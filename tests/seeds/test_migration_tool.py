"""The pairs of "NKI Migration Guide from Beta 1 to Beta 2": the tool takes each old program to the guide's new form.

The programs are the guide's, in kernels of Beta 1 that load and store around them. Both versions run on the same data,
and the new file is checked. A pair says which lines of the guide the new file has.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from nki.migrate.migration import Migration, migrated
from nki.migrate.runs.run_comparison import Call
from tests.migrate.kernel_files import findings
from tests.support.both_executors import numbers

HEAD = """\
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.compiler
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
from neuronxcc.nki.language import par_dim

sb_mod = nki.compiler.sbuf.mod_alloc
"""

LISTED = "nl.ndarray(shape=(128, 512), dtype=inp.dtype, buffer=nl.sbuf) for _ in range(8)"

# Name, old program, arguments, forms of the guide's new program.
PAIRS = {
    # result[...] = nisa.reciprocal(src)
    "destinations": (
        """
        @nki.jit
        def kernel(x):
            src = nl.load(x)
            result = nl.ndarray(src.shape, dtype=src.dtype, buffer=nl.sbuf)
            result[...] = nisa.reciprocal(src)
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, result)
            return out
        """,
        (np.abs(numbers(8, 16)) + 1,),
        ["nisa.reciprocal(dst=result, data=src)"],
    ),
    "mgrid of each dimension": (
        """
        @nki.jit
        def kernel(x):
            t = nl.load(x)
            out = nl.ndarray((128, 8, 64), dtype=x.dtype, buffer=nl.shared_hbm)
            i_p, if0, if1 = nl.mgrid[0:128, 0:8, 0:64]
            nl.store(out[i_p, if0, if1], t[i_p, if0, if1])
            return out
        """,
        (numbers(128, 16, 64),),
        ["t[0:128, 0:8, 0:64]"],
    ),
    "mgrid of two in one dimension": (
        """
        @nki.jit
        def kernel(x):
            t = nl.load(x)
            out = nl.ndarray((128, 8, 64), dtype=x.dtype, buffer=nl.shared_hbm)
            i_p, if0, if1 = nl.mgrid[0:128, 0:8, 0:64]
            nl.store(out[i_p, if0, if1], t[i_p, if0*64+if1])
            return out
        """,
        (numbers(128, 16 * 64),),
        ["t[0:128, 0:512]"],
    ),
    "mgrid of two on both sides": (
        """
        @nki.jit
        def kernel(x):
            t = nl.ndarray(shape=(128, 16*64), dtype=x.dtype, buffer=nl.sbuf)
            out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
            i_p, if0, if1 = nl.mgrid[0:128, 0:8, 0:64]
            t[i_p, if0*64+if1] = nl.load(x[i_p, if0*64+if1])
            nl.store(out[i_p, if0*64+if1], t[i_p, if0*64+if1])
            return out
        """,
        (numbers(128, 16 * 64),),
        ["nisa.dma_copy(dst=t[0:128, 0:512], src=x[0:128, 0:512])", "nl.store(out[0:128, 0:512], t[0:128, 0:512])"],
    ),
    "loops": (
        """
        @nki.jit
        def kernel(x):
            val = 0
            for i in range(8):
                if i == 0:
                    val = 1
                else:
                    val = 2
            print(val)
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x) + val)
            return out
        """,
        (numbers(8, 16),),
        ["for i in range(8): if i == 0: val = 1 else: val = 2 print(val)"],
    ),
    # The guide copies between tensors of 129 rows, which only HBM holds, with tensor_copy: a load and a store here.
    "masks": (
        """
        @nki.jit
        def kernel(t):
            result = nl.ndarray(shape=(129, 513), dtype=t.dtype, buffer=nl.shared_hbm)
            for i in range(2):
                for j in range(2):
                    i_p, i_f = nl.mgrid[0:128, 0:512]
                    tile = nl.load(t[i_p+128*i, i_f+512*j], mask=(i_p+128*i<129) & (i_f+512*j<513))
                    nl.store(result[i_p+128*i, i_f+512*j], tile, mask=(i_p+128*i<129) & (i_f+512*j<513))
            return result
        """,
        (numbers(129, 513),),
        ["t[i * 128:min(i * 128 + 128, 129), j * 512:min(j * 512 + 512, 513)]"],
    ),
    "direct allocation": (
        """
        @nki.jit
        def kernel(k):
            num_512_tiles_cur_section, p_k, n_k, sca = 4, 64, 32, 1024
            k_loaded = nl.ndarray((num_512_tiles_cur_section, nl.par_dim(p_k), n_k),
                dtype=nl.bfloat16,
                buffer=sb_mod(base_addr=sca, num_free_tiles=(num_512_tiles_cur_section, )))
            out = nl.ndarray(k.shape, dtype=k.dtype, buffer=nl.shared_hbm)
            for i in range(num_512_tiles_cur_section):
                k_loaded[i] = nl.load(k[i])
            for i in range(num_512_tiles_cur_section):
                nl.store(out[i], k_loaded[i])
            return out
        """,
        (numbers(4, 64, 32),),
        ["nl.ndarray((p_k, n_k),", "buffer=nl.sbuf, address=(0, sca + (i % num_512_tiles_cur_section) * n_k * 2)"],
    ),
    "sub-kernels": (
        """
        @nki.jit(mode='trace')
        def my_kernel(a):
            result = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
            nl.store(result, nl.load(a) * 2)
            return result

        @nki.jit
        def kernel(a):
            return my_kernel(my_kernel(a))

        if __name__ == "__main__":
            a = np.ones((8, 16), np.float32)
            result = my_kernel(a)
            assert np.all(result == 2) and np.all(kernel(a) == 4)
        """,
        (numbers(8, 16),),
        ["\n\ndef my_kernel(a):", "result = nki.jit(my_kernel)(a)"],
    ),
    "block dimensions as lists": (
        """
        @nki.jit
        def kernel(x):
            t = nl.ndarray((8, nl.par_dim(128), 256), dtype=nl.float32, buffer=nl.sbuf)
            for i in range(8):
                t[i] = nl.load(x[i])
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            for i in range(8):
                nl.store(out[i], t[i])
            return out
        """,
        (numbers(8, 128, 256),),
        ["t = [nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.sbuf) for _ in range(8)]"],
    ),
    "blocks that are all alive": (
        """
        @nki.jit
        def kernel(inp):
            res = nl.ndarray(shape=(8, 128, 512), dtype=inp.dtype, buffer=nl.shared_hbm)
            add_buf = nl.ndarray(shape=(8, nl.par_dim(128), 512), dtype=inp.dtype, buffer=nl.sbuf)
            for i in range(8):
                nisa.dma_copy(add_buf[i], inp[i])
            for i in range(8):
                nisa.dma_copy(res[i], add_buf[i])
            return res
        """,
        (numbers(8, 128, 512),),
        [LISTED, "dma_copy(add_buf[i], inp[i])"],
    ),
    "blocks that are not": (
        """
        @nki.jit
        def kernel(inp):
            res = nl.ndarray(shape=(8, 128, 512), dtype=inp.dtype, buffer=nl.shared_hbm)
            add_buf = nl.ndarray(shape=(8, par_dim(128), 512), dtype=inp.dtype, buffer=nl.sbuf)
            for i in range(8):
                nisa.dma_copy(add_buf[i], inp[i])
                nisa.dma_copy(res[i], add_buf[i])
            return res
        """,
        (numbers(8, 128, 512),),
        [LISTED, "dma_copy(res[i], add_buf[i])"],
    ),
    "scalar dynamic access": (
        """
        @nki.jit
        def kernel(A, dynamic_idx):
            batch_idx = nl.multiply(nl.bitwise_and(nl.load(dynamic_idx), y=3), 1)
            result = nl.ndarray((128, 256), A.dtype, buffer=nl.shared_hbm)
            i_p, i_f = nl.mgrid[0:128, 0:256]
            nisa.dma_copy(src=A[batch_idx, i_p, i_f], dst=result[...])
            return result
        """,
        (numbers(4, 128, 512), np.array([[7]], np.int32)),
        ["src=A.ap(pattern=[[A.shape[2], 128], [1, 256]], offset=0, scalar_offset=batch_idx, indirect_dim=0)"],
    ),
    "scalar dynamic access of rows": (
        """
        @nki.jit
        def kernel(A, dynamic_idx):
            batch_idx = nl.multiply(nl.bitwise_and(nl.load(dynamic_idx), y=3), 128)
            result = nl.ndarray((128, 256), A.dtype, buffer=nl.shared_hbm)
            batch_idx[...] = 3 * 128 # set a constant, but batch_idx is a runtime SBUF value
            i_p, i_f = nl.mgrid[0:128, 0:256]
            nisa.dma_copy(src=A[batch_idx + i_p, i_f], dst=result[...])
            return result
        """,
        (numbers(512, 512), np.array([[7]], np.int32)),
        [
            "nisa.memset(dst=batch_idx, value=3 * 128)",
            "src=A.ap(pattern=[[A.shape[1], 128], [1, 256]], offset=0, scalar_offset=batch_idx, indirect_dim=0)",
        ],
    ),
    "vector dynamic access": (
        """
        @nki.jit
        def kernel(A):
            dynamic_idx_legal = nisa.iota(2 * nl.arange(64)[:, None], dtype=nl.int32)
            result_sb = nl.ndarray((64, 512), nl.float32, buffer=nl.sbuf)
            result_hbm = nl.ndarray((64, 512), nl.float32, buffer=nl.shared_hbm)
            i_f = nl.arange(512)[None, :]
            nisa.dma_copy(src=A[dynamic_idx_legal, i_f], dst=result_sb)
            nisa.dma_copy(dst=result_hbm, src=result_sb)
            return result_hbm
        """,
        (numbers(128, 512),),
        [
            "A.ap(pattern=[[A.shape[1], 64], [1, 512]], offset=0, vector_offset=dynamic_idx_legal, indirect_dim=0)",
        ],
    ),
}  # fmt: skip


def moved(name: str, folder: Path) -> Migration:
    old, arguments, _ = PAIRS[name]
    lines = [line.removeprefix(" " * 8) for line in old.strip("\n").split("\n")]
    return migrated(folder / "kernel.py", HEAD + "\n\n" + "\n".join(lines) + "\n", [Call("kernel", arguments)])


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_of_the_guide(name: str, tmp_path: Path) -> None:
    result = moved(name, tmp_path)
    assert {one.text for one in result.outcomes} == {"same bits"} and result.left == [], (result.outcomes, result.new)
    flat = re.sub(r"\s+", " ", result.new).replace("( ", "(").replace(", )", ")").replace(" )", ")")
    for form in PAIRS[name][2]:
        assert re.sub(r"\s+", " ", form).strip() in flat, result.new
    assert findings(result.new, tmp_path) == []
