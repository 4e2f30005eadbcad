"""Random numbers and the state of their generators."""

import nki
import nki.isa as nisa
import nki.language as nl

ARGUMENTS = {
    "rng": [],
    "rand2": [],
    "dropout": ["128x512:float32"],
    "set_rng_seed": [],
    "rand_set_state": [],
    "rand_get_state": [],
}


@nki.jit
def rng():
    """Random 32-bit words."""
    bits = nl.ndarray((128, 512), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.rng(dst=bits)
    out = nl.ndarray(bits.shape, dtype=nl.uint32, buffer=nl.shared_hbm)
    nl.store(out, bits)
    return out


@nki.jit
def rand2():
    """Random numbers from -1 to 1."""
    numbers = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.rand2(dst=numbers, min=-1.0, max=1.0)
    out = nl.ndarray(numbers.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, numbers)
    return out


@nki.jit
def dropout(x):
    """x with a quarter of its elements replaced by 0."""
    tile = nl.load(x)
    kept = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dropout(dst=kept, data=tile, prob=0.25)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, kept)
    return out


@nki.jit
def set_rng_seed():
    """Random words from seed 42: the same in every launch, and others than from seed 43."""
    seed = nl.full((1, 1), 42, dtype=nl.uint32)
    nisa.set_rng_seed(src_seeds=seed)
    bits = nl.ndarray((128, 512), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.rng(dst=bits)
    out = nl.ndarray(bits.shape, dtype=nl.uint32, buffer=nl.shared_hbm)
    nl.store(out, bits)
    return out


@nki.jit
def rand_get_state():
    """The six words of each GpSimd lane's generator."""
    words = nl.ndarray((128, 6), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.rand_get_state(dst=words)
    out = nl.ndarray(words.shape, dtype=nl.uint32, buffer=nl.shared_hbm)
    nl.store(out, words)
    return out


@nki.jit
def rand_set_state():
    """GpSimd's generators, started from words of the kernel's own."""
    words = nl.ndarray((128, 6), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.iota(dst=words, pattern=[[1, 6]], offset=1, channel_multiplier=6)
    nisa.rand_set_state(src_seeds=words)
    bits = nl.ndarray((128, 512), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.rng(dst=bits, engine=nisa.engine.gpsimd)
    out = nl.ndarray(bits.shape, dtype=nl.uint32, buffer=nl.shared_hbm)
    nl.store(out, bits)
    return out
