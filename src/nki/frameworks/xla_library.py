"""Registration of a custom call with the XLA that a library has linked in, without a function of its own for that.

torch_xla 2.9 registers custom calls with its clients for other devices, and raises ``RegisterCustomCall not
implemented`` on the CPU. Its library contains XLA's typed interface nevertheless. The C functions of that are a stable
ABI; only the function that returns their table, ``xla::ffi::GetXlaFfiApi``, is not exported. Its address is in the
library's symbol table. Where the library has no such table, :func:`register` returns False.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from pathlib import Path
from typing import Final, cast

import numpy as np

from nki.frameworks import xla_ffi

_API: Final = b"_ZN3xla3ffi12GetXlaFfiApiEv"
_HEADER: Final = struct.Struct("<IIQQQQIIQQ")
"""A section header of ELF64: name, type, flags, address, offset, size, link, info, alignment, size of an entry."""
_SYMBOLS: Final = 2  # SHT_SYMTAB
_SYMBOL_BYTES: Final = 24


def register(library: Path, known: str, name: str, handler: int) -> bool:
    """Register the C function at ``handler`` as custom call ``name`` of the CPU; False if ``library`` has no way to.

    ``known`` is a function that the library exports, which tells where in memory it lies. Raises RuntimeError if XLA
    refuses.
    """
    values = _symbols(library, (_API, known.encode()))
    if values is None:
        return False
    place = ctypes.cast(ctypes.CDLL(str(library))[known], ctypes.c_void_p).value or 0
    api = ctypes.CFUNCTYPE(ctypes.c_void_p)(place - values[known.encode()] + values[_API])()
    if not api:
        return False
    xla_ffi.register(api, name, "Host", handler)
    return True


def _symbols(library: Path, names: tuple[bytes, ...]) -> dict[bytes, int] | None:
    """The values of the symbols ``names`` in the table of an ELF64 ``library``; None if it lacks one of them."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:5] != b"\x7fELF\x02":
            return None
        (start,) = struct.unpack_from("<Q", data, 0x28)
        size, count = struct.unpack_from("<HH", data, 0x3A)
        sections: list[tuple[int, ...]] = [_HEADER.unpack_from(data, start + size * number) for number in range(count)]
        for table in sections:
            if table[1] == _SYMBOLS:
                values = [_value(data, table, sections[table[6]], name) for name in names]
                return None if None in values else dict(zip(names, cast("list[int]", values), strict=True))
    return None


def _value(data: mmap.mmap, table: tuple[int, ...], strings: tuple[int, ...], name: bytes) -> int | None:
    """The value of symbol ``name`` in the section ``table``; the section ``strings`` holds the names."""
    first, length = strings[4:6]
    position = data.find(b"\0" + name + b"\0", first, first + length)
    symbols = np.frombuffer(data[table[4] : table[4] + table[5]], np.uint8).reshape(-1, _SYMBOL_BYTES)
    rows = np.flatnonzero(symbols[:, :4].copy().view("<u4")[:, 0] == position + 1 - first)
    return int.from_bytes(symbols[rows[0], 8:16].tobytes(), "little") if position >= 0 and rows.size else None
