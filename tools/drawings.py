"""The drawings of the documentation, as SVG: the device with the numbers of its targets, and work that overlaps.

``tools.reference`` writes them beside the pages.
"""

from __future__ import annotations

from html import escape

from nki import target

INK, FAINT, PAPER = "#1f2328", "#59636e", "#ffffff"
COLOURS = {
    "engine": "#d6e4ff",
    "memory": "#ffe2b8",
    "dma": "#cdeccd",
    "core": "#f3f4f6",
    "hbm": "#f6d5d5",
}


def _text(x: float, y: float, words: str, *, size: int = 13, bold: bool = False, colour: str = INK) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}"{weight}>{escape(words)}</text>'


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{COLOURS[colour]}" stroke="{FAINT}"/>'


def _arrow(x: float, y: float, to_x: float, to_y: float, *, both: bool = False) -> str:
    start = ' marker-start="url(#tip)"' if both else ""
    return f'<path d="M{x} {y}L{to_x} {to_y}" stroke="{INK}" stroke-width="1.5" marker-end="url(#tip)"{start}/>'


def _drawing(width: int, height: int, title: str, parts: list[str]) -> str:
    tip = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="{INK}"/></marker></defs>'
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" role="img">'
        f"<title>{escape(title)}</title>{tip}"
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>'
    )
    return "\n".join([head, *parts, "</svg>\n"])


def _each(name: str, scale: float = 1.0) -> str:
    """A fact of each target, once if it is the same for all."""
    values = [f"{t.fact(name).value / scale:g}" for t in target.GENERATIONS]
    return values[0] if len(set(values)) == 1 else " / ".join(values)


def device() -> str:
    """A core with its engines and memories, and the memory of the chip."""
    names = " / ".join(t.name for t in target.GENERATIONS)
    array = f"{_each('partitions')} × {_each('matmul_stationary_free_max')}"
    engines = (
        ("Tensor", "matrix products", f"array of {array}", f"{_each('tensor_clock_ghz')} GHz"),
        ("Vector", "element by element,", "sums along rows", f"{_each('vector_clock_ghz')} GHz"),
        ("Scalar", "functions such as exp", "scale and bias", f"{_each('scalar_clock_ghz')} GHz"),
        ("GpSimd", "all else: indices,", "across partitions", f"{_each('gpsimd_clock_ghz')} GHz"),
        ("Sync", "semaphores,", "descriptors of DMA", ""),
    )
    parts = [
        _text(16, 26, f"A NeuronCore and its memories: {names}", size=16, bold=True),
        _box(12, 40, 856, 336, "core"),
        _text(24, 60, f"NeuronCore, {_each('cores_per_chip')} on a chip", colour=FAINT),
    ]
    for number, (name, *lines) in enumerate(engines):
        x = 24 + number * 168
        parts += [_box(x, 70, 160, 84, "engine"), _text(x + 10, 90, name, bold=True)]
        parts += [_text(x + 10, 108 + 16 * row, line, size=12) for row, line in enumerate(lines)]
    psum = f"{_each('psum_banks')} banks of {_each('psum_bank_bytes', 1024)} KiB in each partition"
    sbuf = f"{_each('partitions')} partitions of {_each('sbuf_partition_bytes', 1024)} KiB"
    parts += [
        _box(24, 200, 244, 96, "memory"),
        _text(34, 220, "PSUM", bold=True),
        _text(34, 238, f"{_each('partitions')} partitions of {_each('psum_partition_bytes', 1024)} KiB", size=12),
        _text(34, 254, psum, size=12),
        _text(34, 270, "sums of products", size=12),
        _box(284, 200, 572, 96, "memory"),
        _text(294, 220, "SBUF", bold=True),
        _text(294, 238, sbuf, size=12),
        _text(294, 254, f"a kernel can use {_each('sbuf_usable_partition_bytes')} bytes of each", size=12),
        _text(294, 270, "tiles: dimension 0 is the partition, the others lie in its bytes", size=12),
        *(f'<path d="M680 {y}H844" stroke="{FAINT}"/>' for y in range(210, 274, 8)),
        _text(686, 290, "one line, one partition", size=11, colour=FAINT),
        _arrow(104, 154, 104, 198),
        _text(110, 182, "writes", size=11, colour=FAINT),
        _arrow(300, 198, 170, 156),
        _text(196, 182, "reads", size=11, colour=FAINT),
        _arrow(440, 156, 440, 198, both=True),
        _text(446, 182, "Vector and Scalar read and write both, GpSimd only SBUF", size=11, colour=FAINT),
        _box(284, 324, 572, 40, "dma"),
        _text(294, 342, f"{_each('dma_engines')} DMA engines", bold=True),
        _text(294, 358, f"{_each('dma_queues_per_engine')} queues each; they move data while engines compute", size=12),
        _arrow(560, 298, 560, 322, both=True),
        _box(12, 404, 856, 52, "hbm"),
        _text(24, 424, "HBM, shared by the cores of a chip", bold=True),
        _text(
            24, 444, f"{_each('hbm_bytes', 1 << 30)} GiB, {_each('hbm_chip_gbps')} GB/s: inputs and results", size=12
        ),
        _arrow(560, 366, 560, 402, both=True),
    ]
    return _drawing(880, 468, f"A NeuronCore of {names}: engines, PSUM, SBUF, DMA engines, HBM", parts)


def overlap() -> str:
    """The same work with one tile in memory, and with two."""
    scale, left = 56, 130
    parts = [_text(16, 26, "One tile: loads wait for the memory. Two tiles: they overlap.", size=16, bold=True)]

    def lane(y: int, name: str, colour: str, begins: list[float], length: float, word: str) -> None:
        parts.append(_text(16, y + 19, name, size=12))
        for number, begin in enumerate(begins, 1):
            x = left + begin * scale
            parts.append(_box(x, y, length * scale, 28, colour))
            parts.append(_text(x + 8, y + 19, f"{word} {number}", size=12))

    one = [0.0, 3.5, 7.0]
    lane(46, "DMA engines", "dma", one, 2, "load")
    lane(80, "Vector", "engine", [begin + 2 for begin in one], 1.5, "work")
    two = [0.0, 2.0, 4.0]
    lane(136, "DMA engines", "dma", two, 2, "load")
    lane(170, "Vector", "engine", [begin + 2 for begin in two], 1.5, "work")
    end_one, end_two = left + 10.5 * scale, left + 7.5 * scale
    parts += [
        f'<path d="M{end_one} 42V112" stroke="{INK}" stroke-dasharray="4 3"/>',
        f'<path d="M{end_two} 132V202" stroke="{INK}" stroke-dasharray="4 3"/>',
        _text(end_two + 8, 172, "the engine that has most to do, here DMA, never stands still", size=12, colour=FAINT),
        _text(left, 222, "time", size=12, colour=FAINT),
        _arrow(left + 32, 218, left + 140, 218),
    ]
    return _drawing(1100, 234, "Loads and work with one tile, one after the other, and with two tiles, at once", parts)
