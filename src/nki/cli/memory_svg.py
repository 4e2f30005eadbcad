"""The map of a kernel's memories over time as SVG, and as a page of HTML around it. Neither needs a network."""

from __future__ import annotations

import colorsys
from html import escape
from typing import Final

from nki.cli.memory_map import MemoryMap, described, maps
from nki.ir.program import Program
from nki.target.model import Target

_WIDTH: Final = 1100
_HEIGHT: Final = 360
_LEFT: Final = 90
_RIGHT: Final = 20
_HEAD: Final = 56
_FOOT: Final = 62
_LETTER: Final = 6.6
"""Width of a letter of a label, in pixels, or a little more."""
_TICKS: Final = 8
_ROW: Final = 16
_LISTED: Final = 40
"""Tensors that the legend of a map names, the largest first."""
_COLUMNS: Final = 2


def svg(kernel: Program, target: Target) -> str:
    """All maps, one below the other, each with the largest tensors by colour."""
    drawings = maps(kernel, target)
    legends = [_legend(memory) for memory in drawings]
    tops = [_HEAD]
    for _, rows in legends:
        tops.append(tops[-1] + _HEIGHT + _FOOT + rows * _ROW + _HEAD)
    width, height = _LEFT + _WIDTH + _RIGHT, max(_HEAD, tops[-1] - _HEAD)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f"<title>Memory of {escape(kernel.name)} on {escape(kernel.target)}</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for memory, (legend, _), top in zip(drawings, legends, tops, strict=False):
        parts += [f'<g transform="translate({_LEFT},{top})">', *_map(memory), *legend, "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def html(kernel: Program, target: Target) -> str:
    """The maps, and a table of the tensors in each."""
    title = f"Memory of {escape(kernel.name)} on {escape(kernel.target)}"
    tables = "\n".join(_table(memory) for memory in maps(kernel, target))
    style = (
        "body{font-family:sans-serif;background:#fff;color:#000}svg{max-width:100%;height:auto}"
        "table{border-collapse:collapse}td,th{padding:1px 8px;text-align:left}"
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{style}</style>'
        f"</head><body><h1>{title}</h1>\n{svg(kernel, target)}{tables}\n</body></html>\n"
    )


def _map(memory: MemoryMap) -> list[str]:
    """The tensors as boxes, with a name if the box is large enough, the axes, and the point of peak pressure."""
    across, up = _WIDTH / len(memory.instructions), _HEIGHT / _top(memory)
    first, second = memory.summary().split("\n")
    parts = [
        f'<text x="0" y="-34" font-size="13" font-weight="bold">{escape(first)}</text>',
        f'<text x="0" y="-18">{escape(second)}, where the dashed line is</text>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#888"/>',
    ]
    names: list[str] = []
    for number, live in enumerate(memory.lives):
        offset, name = memory.place(live)[1], live.tensor.name
        x, y = live.first * across, _HEIGHT - (offset + live.size) * up
        wide, high = (live.last + 1 - live.first) * across, live.size * up
        box = f'x="{x:.2f}" y="{y:.2f}" width="{wide:.2f}" height="{high:.2f}"'
        told = escape(described(memory, live))
        parts.append(
            f'<rect {box} fill="{_colour(number)}" stroke="#333" stroke-width="0.4"><title>{told}</title></rect>'
        )
        if high >= 11 and wide >= _LETTER * len(name) + 4:
            names.append(
                f'<text x="{x + 2:.2f}" y="{y + high / 2 + 4:.2f}" pointer-events="none">{escape(name)}</text>'
            )
    peak = (memory.moment + 0.5) * across
    parts.append(f'<line x1="{peak:.2f}" x2="{peak:.2f}" y1="0" y2="{_HEIGHT}" stroke="#c00" stroke-dasharray="4 3"/>')
    return [*parts, *names, *_bytes_axis(memory), *_lines_axis(memory)]


def _top(memory: MemoryMap) -> int:
    """The byte at the upper edge of the map: PSUM shows all banks, SBUF the used bytes."""
    return memory.space.usable if memory.space.name == "psum" else memory.top


def _bytes_axis(memory: MemoryMap) -> list[str]:
    height = _top(memory)
    what = "bytes per partition"
    if memory.space.name == "psum":
        what += f", banks of {memory.space.align}"
    parts = [f'<text transform="translate(-{_LEFT - 14},{_HEIGHT / 2}) rotate(-90)" text-anchor="middle">{what}</text>']
    for i in range(_TICKS + 1):
        size = height * i // _TICKS
        y = _HEIGHT - size * _HEIGHT / height
        parts.append(f'<text x="-8" y="{y + 4:.2f}" text-anchor="end">{size}</text>')
        parts.append(f'<line x1="-5" x2="0" y1="{y:.2f}" y2="{y:.2f}" stroke="#888"/>')
    return parts


def _lines_axis(memory: MemoryMap) -> list[str]:
    """Source lines under the map, as many as there is room for."""
    count, parts, end = len(memory.instructions), list[str](), -1.0
    for moment in range(count):
        x, label = (moment + 0.5) * _WIDTH / count, memory.line(moment)
        if x < end or x + _LETTER * len(label) > _WIDTH + _RIGHT:
            continue
        end = max(x + _LETTER * (len(label) + 2), x + _WIDTH / _TICKS)
        parts.append(f'<line x1="{x:.2f}" x2="{x:.2f}" y1="{_HEIGHT}" y2="{_HEIGHT + 5}" stroke="#888"/>')
        parts.append(f'<text x="{x:.2f}" y="{_HEIGHT + 16}">{escape(label)}</text>')
    words = f"instructions in the order of the program ({count}), by source line"
    return [*parts, f'<text x="{_WIDTH / 2}" y="{_HEIGHT + 34}" text-anchor="middle">{words}</text>']


def _legend(memory: MemoryMap) -> tuple[list[str], int]:
    """The largest tensors, each with its colour, below the map; and how many rows that takes."""
    largest = sorted(range(len(memory.lives)), key=lambda i: -memory.lives[i].size)[:_LISTED]
    room = int(_WIDTH / _COLUMNS / _LETTER) - 3
    entries = [(_colour(i), described(memory, memory.lives[i], room)) for i in sorted(largest)]
    rows = -(-len(entries) // _COLUMNS)
    parts: list[str] = []
    for number, (colour, told) in enumerate(entries):
        column, row = divmod(number, rows)
        x, y = column * _WIDTH / _COLUMNS, _HEIGHT + _FOOT + row * _ROW
        parts.append(f'<rect x="{x:.0f}" y="{y - 9}" width="10" height="10" fill="{colour}" stroke="#333"/>')
        parts.append(f'<text x="{x + 16:.0f}" y="{y}">{escape(told)}</text>')
    rest = len(memory.lives) - len(entries)
    if rest:
        parts.append(f'<text x="0" y="{_HEIGHT + _FOOT + rows * _ROW}">and {rest} smaller ones</text>')
    return parts, rows + bool(rest)


def _colour(number: int) -> str:
    """Colours that differ most from the colours of the numbers around: steps of the golden angle."""
    red, green, blue = colorsys.hls_to_rgb(number * 0.618034 % 1.0, 0.78, 0.6)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def _table(memory: MemoryMap) -> str:
    names = ("", "tensor", "shape", "dtype", "bytes per partition", "first partition", "first byte", "from", "to")
    head = "<tr>" + "".join(f"<th>{name}</th>" for name in names) + "</tr>"
    rows: list[str] = []
    for number, live in enumerate(memory.lives):
        tensor, place = live.tensor, memory.place(live)
        cells = [tensor.name, tensor.shape, tensor.dtype, live.size, *place]
        cells += [memory.line(live.first), memory.line(live.last)]
        swatch = f'<td style="background:{_colour(number)}">&nbsp;</td>'
        rows.append(f"<tr>{swatch}" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>")
    summary = escape(memory.summary().replace("\n", ", "))
    return f"<h2>{summary}</h2>\n<table>{head}\n" + "\n".join(rows) + "</table>"
