"""The map of a kernel's memories over time as SVG, and as a page of HTML around it. Neither needs a network."""

from __future__ import annotations

import colorsys
from html import escape
from typing import Final

from nki.cli.memory import MemoryMap, maps
from nki.ir.kernel import Kernel
from nki.ir.types import Buffer
from nki.passes.liveness import Life
from nki.target.model import Target

_WIDTH: Final = 1100
_HEIGHT: Final = 360
_LEFT: Final = 70
_HEAD: Final = 40
_FOOT: Final = 40
_LETTER: Final = 6.2
"""Width of a letter of a label, in pixels."""
_TICKS: Final = 8


def svg(kernel: Kernel, target: Target) -> str:
    """All maps, one below the other."""
    found = maps(kernel, target)
    block = _HEAD + _HEIGHT + _FOOT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 20}" height="{max(1, len(found)) * block}" '
        'font-family="sans-serif" font-size="11">',
        f"<title>Memory of {escape(kernel.name)} on {escape(kernel.target)}</title>",
    ]
    for number, memory in enumerate(found):
        parts += [f'<g transform="translate({_LEFT},{number * block + _HEAD})">', *_map(memory), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def html(kernel: Kernel, target: Target) -> str:
    """The maps, and a table of the tensors in each."""
    title = f"Memory of {escape(kernel.name)} on {escape(kernel.target)}"
    tables = "\n".join(_table(memory) for memory in maps(kernel, target))
    style = "body{font-family:sans-serif}table{border-collapse:collapse}td,th{padding:1px 8px;text-align:left}"
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{style}</style>'
        f"</head><body><h1>{title}</h1>\n{svg(kernel, target)}{tables}\n</body></html>\n"
    )


def _map(memory: MemoryMap) -> list[str]:
    height = memory.region.usable if memory.region.buffer is Buffer.psum else memory.top
    across, up = _WIDTH / len(memory.instructions), _HEIGHT / height
    parts = [
        f'<text x="0" y="-14" font-size="13">{escape(_summary(memory))}</text>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#888"/>',
    ]
    for number, life in enumerate(memory.lives):
        offset = memory.place(life)[1]
        x, y = life.first * across, _HEIGHT - (offset + life.size) * up
        wide, high = (life.last + 1 - life.first) * across, life.size * up
        box = f'x="{x:.2f}" y="{y:.2f}" width="{wide:.2f}" height="{high:.2f}"'
        told = escape(described(memory, life))
        parts.append(
            f'<rect {box} fill="{_colour(number)}" stroke="#333" stroke-width="0.4"><title>{told}</title></rect>'
        )
        name = life.tensor.name
        if high >= 11 and wide >= _LETTER * len(name) + 4:
            parts.append(f'<text x="{x + 2:.2f}" y="{y + high / 2 + 4:.2f}">{escape(name)}</text>')
    for i in range(_TICKS + 1):
        size = height * i // _TICKS
        parts.append(f'<text x="-6" y="{_HEIGHT - size * up + 4:.2f}" text-anchor="end">{size}</text>')
    for i in range(_TICKS):
        moment = len(memory.instructions) * i // _TICKS
        parts.append(f'<text x="{moment * across:.2f}" y="{_HEIGHT + 16}">{escape(memory.line(moment))}</text>')
    peak = (memory.moment + 0.5) * across
    parts.append(f'<line x1="{peak:.2f}" x2="{peak:.2f}" y1="0" y2="{_HEIGHT}" stroke="#c00" stroke-dasharray="4 3"/>')
    return parts


def _summary(memory: MemoryMap) -> str:
    return memory.summary().replace("\n", ", ")


def described(memory: MemoryMap, life: Life) -> str:
    """A tensor in words: what it is, where it lies, and when it is in use."""
    tensor, (partition, offset) = life.tensor, memory.place(life)
    return (
        f"{tensor.name} {tensor.shape} {tensor.dtype}: {life.size} bytes at partition {partition}, byte {offset}; "
        f"{memory.line(life.first)} to {memory.line(life.last)}"
    )


def _colour(number: int) -> str:
    """Colours that differ most from those of the numbers around: steps of the golden angle."""
    red, green, blue = colorsys.hls_to_rgb(number * 0.618034 % 1.0, 0.78, 0.6)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def _table(memory: MemoryMap) -> str:
    head = "<tr><th>tensor</th><th>shape</th><th>dtype</th><th>bytes</th><th>place</th><th>from</th><th>to</th></tr>"
    rows: list[str] = []
    for life in memory.lives:
        tensor = life.tensor
        cells = [tensor.name, tensor.shape, tensor.dtype, life.size, memory.place(life)]
        cells += [memory.line(life.first), memory.line(life.last)]
        rows.append("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>")
    return f"<h2>{escape(_summary(memory))}</h2>\n<table>{head}\n" + "\n".join(rows) + "</table>"
