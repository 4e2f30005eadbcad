"""Registers, and two cores."""

import nki
import nki.isa as nisa
import nki.language as nl

ARGUMENTS = {
    "register_move": ["8x64:float32"],
    "register_load": ["8x64:float32"],
    "register_store": ["8x64:float32"],
    "scalar_store": ["8x64:float32"],
    "core_barrier": ["256x512:float32"],
    "sendrecv": ["256x512:float32"],
}
CORES = {"core_barrier": 2, "sendrecv": 2}


@nki.jit
def register_move(x):
    """Row 3 of x, by a register."""
    row = nisa.register_alloc(0)
    nisa.register_move(dst=row, src=3)
    out = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x[nl.ds(row, 1)])
    return out


@nki.jit
def register_load(x):
    """The row of x with the number that an element of a tile holds."""
    number = nl.full((1, 1), 5, dtype=nl.int32)
    row = nisa.register_alloc(0)
    nisa.register_load(dst=row, src=number)
    out = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x[nl.ds(row, 1)])
    return out


@nki.jit
def register_store(x):
    """The number of rows that a loop on the device has visited."""
    count = nl.zeros((1, 1), dtype=nl.int32)

    def body(i):
        nisa.register_store(dst=count, src=i)

    nl.fori_loop(0, x.shape[0], body)
    out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
    nl.store(out, count)
    return out


@nki.jit
def scalar_store(x):
    """The squares of the numbers of rows, computed by a loop on the device."""
    out = nl.ndarray((x.shape[0], 1), dtype=nl.int32, buffer=nl.shared_hbm)

    def body(i):
        nisa.scalar_store(dst=out[i], value=i * i)

    nl.fori_loop(0, x.shape[0], body)
    return out


@nki.jit
def core_barrier(x):
    """Each core doubles a half of x; core 0 then adds the halves."""
    core, half = nl.program_id(0), x.shape[0] // 2
    doubled = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="doubled")
    tile = nl.load(x[core * half : core * half + half])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nl.store(doubled[core * half : core * half + half], tile)
    nisa.core_barrier(data=doubled, cores=(0, 1))
    out = nl.ndarray((half, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    if core == 0:
        total = nl.load(doubled[0:half])
        nisa.tensor_tensor(dst=total, data1=total, data2=nl.load(doubled[half : 2 * half]), op=nl.add)
        nl.store(out, total)
    return out


@nki.jit
def sendrecv(x):
    """Each core sends its half of x to the other, which stores it."""
    core, half = nl.program_id(0), x.shape[0] // 2
    other = 1 - core
    tile = nl.load(x[core * half : core * half + half])
    received = nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.sendrecv(src=tile, dst=received, send_to_rank=other, recv_from_rank=other, pipe_id=0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out[core * half : core * half + half], received)
    return out
