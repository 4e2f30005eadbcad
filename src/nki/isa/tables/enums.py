"""The enumerations of ``nki.isa``."""

from __future__ import annotations

from enum import Enum, IntEnum


class engine(Enum):
    """The engines of a NeuronCore; ``unknown`` lets the compiler choose."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6

    __hash__ = object.__hash__  # members are single; Enum's is a Python function, several times as slow


class side_engine(Enum):
    """Parts that run instructions beside the engines of a NeuronCore; no kernel can name them."""

    collectives = 1

    __hash__ = object.__hash__


class reduce_cmd(Enum):
    """Effect of an instruction on its engine's reduction registers."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4

    __hash__ = object.__hash__


class dge_mode(Enum):
    """Generator of a DMA's descriptors: software on GpSimd, the hardware block, or none at run time."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3

    __hash__ = object.__hash__


class dma_engine(Enum):
    """Engine that moves data between cores: the DMA engines, which any engine may trigger, or GpSimd's own."""

    dma = 1
    gpsimd_dma = 2

    __hash__ = object.__hash__


class oob_mode(Enum):
    """Behaviour of a DMA at an index outside the tensor: raise an error or skip the element."""

    error = 0
    skip = 1

    __hash__ = object.__hash__


class matmul_perf_mode(Enum):
    """Throughput modes of the Tensor engine; ``double_row`` multiplies two 8-bit rows at once (gen3 and later)."""

    none = "none"
    double_row = "double_row"

    __hash__ = object.__hash__


class nc_version(IntEnum):
    """NeuronCore generations, which kernels compare with each other and with numbers: ``get_nc_version() >= 3``."""

    gen2 = 2
    gen3 = 3
    gen4 = 4

    def __str__(self) -> str:
        return f"nc_version.{self.name}"
