"""Curves of the loss as a line of text and as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

BLOCKS = "▁▂▃▄▅▆▇█"
COLOURS = ("#0072b2", "#d55e00")  # blue and vermilion, told apart by everybody
WIDTH, HEIGHT, MARGIN = 640, 360, 48  # pixels


def sparkline(values: Sequence[float], width: int = 60) -> str:
    """Means of up to ``width`` stretches of the values as bars, between the least and the largest of them."""
    means = np.array([part.mean() for part in np.array_split(np.asarray(values), min(width, len(values)))])
    span = np.ptp(means) or 1.0
    bars = "".join(BLOCKS[int(level)] for level in (means - means.min()) / span * (len(BLOCKS) - 1))
    return f"{bars} {values[0]:.3f} to {values[-1]:.3f}"


def curves(series: Mapping[str, Sequence[float]]) -> str:
    """An SVG of the series over their steps; the second is dashed, for it hides the first where they are equal."""
    top = max(max(values) for values in series.values())
    longest = max(len(values) for values in series.values())
    wide, high = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN

    def place(step: float, loss: float) -> str:
        return f"{MARGIN + wide * step / max(1, longest - 1):.1f},{HEIGHT - MARGIN - high * loss / top:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<polyline points="{MARGIN},{MARGIN} {MARGIN},{HEIGHT - MARGIN} {WIDTH - MARGIN},{HEIGHT - MARGIN}" '
        'fill="none" stroke="#666"/>',
        f'<text x="{WIDTH // 2}" y="{HEIGHT - 12}" text-anchor="middle">step (1 to {longest})</text>',
        f'<text x="{MARGIN - 6}" y="{MARGIN + 4}" text-anchor="end">{top:.2f}</text>',
        f'<text x="{MARGIN - 6}" y="{HEIGHT - MARGIN + 4}" text-anchor="end">0</text>',
        f'<text x="{MARGIN}" y="{MARGIN - 16}">loss, nats a character</text>',
    ]
    for index, (name, values) in enumerate(series.items()):
        colour, dash = COLOURS[index % len(COLOURS)], ' stroke-dasharray="6 6"' if index else ""
        points = " ".join(place(step, loss) for step, loss in enumerate(values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"{dash}/>')
        y = MARGIN + 18 * (index + 1)
        parts.append(f'<text x="{WIDTH - MARGIN}" y="{y}" text-anchor="end" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])
