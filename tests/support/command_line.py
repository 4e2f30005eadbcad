"""Running the command inside this process, and the kernels that it is given."""

from __future__ import annotations

import json

import pytest

from nki.cli import main

KERNELS = '''
import nki
import nki.isa as nisa
import nki.language as nl
from beside import TWO


def tile(x):
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)


@nki.jit
def affine(x, factor, shift=1.0):
    """x * factor + shift."""
    print("specialising for", x.shape)
    t = tile(x)
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=factor, op1=nl.add, operand1=shift)
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=y, src=t)
    return y


def both(a, b, op=nl.add, text="plain", pair=(1, 2)):
    assert text in ("plain", "it's") and pair == (1, 2), f"{text} {pair}"
    s, t = tile(a), tile(b)
    nisa.dma_copy(dst=s, src=a)
    nisa.dma_copy(dst=t, src=b)
    nisa.tensor_tensor(dst=s, data1=s, data2=t, op=op)
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    copy = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=total, src=s)
    nisa.dma_copy(dst=copy, src=t)
    return total, copy


def wrong(x):
    t = nl.ndarray((x.shape[0], 3), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x[:, 0:3])
    nisa.tensor_tensor(dst=t, data1=t, data2=t[:, 0:2], op=nl.add)
    return x


def unsupported(x):
    with x:
        pass
    del x


def broken(x):
    return helper(x)


def helper(x):
    raise_it = []
    return raise_it[3]


class Config:
    pass


two = TWO
'''
SHAPE = "128x32:float32"


class Ran:
    """One command: its exit code and what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        capsys.readouterr()
        self.code = main(list(arguments))
        self.out, self.err = capsys.readouterr()


def complaint(ran: Ran) -> str:
    """The complaint of a command that was wrong."""
    assert ran.code == 2, (ran.code, ran.out, ran.err)
    assert ran.out == "" and ran.err.startswith("nki: ") and "Traceback" not in ran.err
    return ran.err


def report(ran: Ran) -> dict:
    """The JSON of a run that went well."""
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def dumped(nki, file: str, *more: str) -> str:
    ran = nki("dump", f"{file}:both", "--arg", SHAPE, "--arg", SHAPE, *more)
    assert ran.code == 0, ran.err
    return ran.out
