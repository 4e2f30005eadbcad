"""Charts of the report as SVG: the roofline, and memory in use over time."""

from __future__ import annotations

import math

from nki.profiling.html.markup import Markup, tag
from nki.profiling.html.payload import thinned
from nki.profiling.html.quantities import percent, rate, size, time
from nki.profiling.html.sections import card
from nki.profiling.metrics import MemoryUse
from nki.profiling.predicted_run import PredictedRun

WIDTH, HEIGHT = 460, 250
LEFT, RIGHT, TOP, BOTTOM = 62, 18, 14, 34
LABEL = 92
"""Room for the label of the kernel's point."""
CURVE_HEIGHT = 122
CURVE_POINTS = 800
THIN = 2.0
"""Least height of memory in use, so that a tile of few bytes does not vanish."""


class _Logs:
    """A logarithmic axis: ``at`` maps the values from 10^``low`` to 10^``high`` to a length."""

    def __init__(self, least: float, most: float, begin: float, end: float) -> None:
        self.low, self.high = math.floor(math.log10(least)), math.ceil(math.log10(most))
        self.begin, self.end = begin, end

    def at(self, value: float) -> float:
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return self.begin + (self.end - self.begin) * min(max(part, 0.0), 1.0)

    def marks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def roofline(profile: PredictedRun) -> Markup:
    """Operations per second over operations per byte: the roofs of the target, and the kernel's point."""
    peak, bandwidth, ridge = profile.peak_flops, profile.peak_bandwidth, profile.ridge
    reached = profile.flops / profile.device_time if profile.device_time else 0.0
    intensity = profile.intensity
    has_point = reached > 0 and intensity > 0
    xs = _Logs(min(ridge / 1000, intensity / 3) if has_point else ridge / 1000, max(ridge * 10, intensity * 3),
               LEFT, WIDTH - RIGHT)  # fmt: skip
    ys = _Logs(min(peak / 1e4, reached / 3) if has_point else peak / 1e4, peak * 1.5, HEIGHT - BOTTOM, TOP)
    first = 10.0**xs.low
    least = 10.0**ys.low
    if first * bandwidth < least:
        first = least / bandwidth
    roof = [(first, first * bandwidth), (ridge, peak), (10.0**xs.high, peak)]
    points = " ".join(f"{xs.at(x):.1f},{ys.at(y):.1f}" for x, y in roof)
    parts = [*_axes(xs, ys), tag("polyline", points=points, class_="roof")]
    parts += [
        tag("line", x1=xs.at(ridge), x2=xs.at(ridge), y1=ys.at(peak), y2=HEIGHT - BOTTOM, class_="ridge"),
        tag("text", f"ridge {ridge:.0f}", x=xs.at(ridge) + 4, y=HEIGHT - BOTTOM - 5, class_="note"),
        tag("text", rate(peak, "FLOP/s"), x=WIDTH - RIGHT, y=ys.at(peak) - 5, text_anchor="end"),
    ]
    note = "The kernel has no matrix products, so it has no point here: compare its MBU."
    if has_point:
        attainable = min(peak, intensity * bandwidth)
        x, y = xs.at(intensity), ys.at(reached)
        side = "end" if x > WIDTH - RIGHT - LABEL else "start"  # on its right no roof is below it
        parts += [
            tag("line", x1=x, x2=x, y1=ys.at(attainable), y2=y, class_="gap"),
            tag("circle", cx=x, cy=y, r=5, class_="point"),
            tag("text", rate(reached, "FLOP/s"), x=x + (-9 if side == "end" else 9), y=y + 14, text_anchor=side,
                class_="strong"),
        ]  # fmt: skip
        side_of_ridge = "transfers" if intensity < ridge else "the Tensor engine"
        note = (
            f"{percent(reached / attainable)} of the roof at {intensity:.3g} FLOP per byte of HBM traffic, where "
            f"{side_of_ridge} would be the limit."
        )
    svg = tag("svg", parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=f"Roofline. {note}")
    return card("Roofline", [svg, tag("p", note, class_="note")], "roofline")


def _axes(xs: _Logs, ys: _Logs) -> list[Markup]:
    parts: list[Markup] = []
    bottom = HEIGHT - BOTTOM
    for value in xs.marks():
        x = xs.at(value)
        parts += [tag("line", x1=x, x2=x, y1=TOP, y2=bottom, class_="grid")]
        parts += [tag("text", f"{value:g}", x=x, y=bottom + 13, text_anchor="middle", class_="note")]
    for value in ys.marks():
        y = ys.at(value)
        parts += [tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid")]
        label = rate(value, "FLOP/s").replace(".00", "").replace(".0 ", " ")
        parts += [tag("text", label.replace("FLOP/s", ""), x=LEFT - 6, y=y + 3, text_anchor="end", class_="note")]
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts += [tag("text", "FLOP per byte of HBM traffic", x=middle, y=HEIGHT - 4, text_anchor="middle", class_="note")]
    upright = f"translate(11 {(TOP + bottom) / 2:.0f}) rotate(-90)"
    parts += [tag("text", "FLOP/s", transform=upright, text_anchor="middle", class_="note")]
    return parts


def memory(profile: PredictedRun) -> Markup:
    """Bytes per partition in use over time, with the line of the capacity, for each core and memory."""
    several = len(profile.cores) > 1
    end = profile.timeline.ns or 1.0
    curves = [_curve(use, profile.available_memory[use.memory], end, several) for use in profile.memory if use.peak]
    unused = [_title(use, several) for use in profile.memory if not use.peak]
    note = tag("p", f"Not used: {'; '.join(unused)}.", class_="note") if unused else None
    return card("Memory over time, per partition", [*curves, note], "memory")


def _title(use: MemoryUse, several: bool) -> str:
    return use.memory.upper() + (f", core {use.core}" if several else "")


def _curve(use: MemoryUse, capacity: int, end: float, several: bool) -> Markup:
    height, top, bottom = CURVE_HEIGHT, 16.0, CURVE_HEIGHT - 14.0
    most = max(capacity, use.peak)
    times, used = thinned(use, CURVE_POINTS)

    def x(ns: float) -> float:
        return LEFT + (WIDTH - RIGHT - LEFT) * min(ns / end, 1.0)

    def y(count: int) -> float:
        return bottom - max((bottom - top) * count / most, THIN) if count else bottom

    path = [f"M{LEFT} {bottom:.1f}"]
    for ns, count in zip(times, used, strict=True):
        path.append(f"H{x(ns):.1f}V{y(count):.1f}")
    path.append(f"V{bottom:.1f}Z")
    name = _title(use, several)
    peak = f"peak {size(use.peak)} of {size(capacity)} ({percent(use.peak / capacity)})"
    parts = [
        tag("path", d="".join(path), class_=f"curve {use.memory}"),
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(capacity), y2=y(capacity), class_="capacity"),
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=bottom, y2=bottom, class_="axis"),
        tag("text", size(capacity), x=LEFT - 6, y=y(capacity) + 3, text_anchor="end", class_="note"),
        tag("text", "0", x=LEFT - 6, y=bottom + 3, text_anchor="end", class_="note"),
        tag("text", f"{name} · {peak}", x=LEFT, y=top - 5),
        tag("text", time(end), x=WIDTH - RIGHT, y=height - 3, text_anchor="end", class_="note"),
        tag("text", "0", x=LEFT, y=height - 3, class_="note"),
    ]
    return tag("svg", parts, viewBox=f"0 0 {WIDTH} {height}", role="img", aria_label=f"{name}: {peak}")
