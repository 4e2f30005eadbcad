"""The profile of a step as pages of HTML: the step's own, without scripts, and the report of each kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from nki.profiling import html
from nki.profiling.html.markup import Markup, joined, tag
from nki.profiling.html.quantities import count, percent, size, time
from nki.profiling.html.sections import card, figure, name_cell, number_cell, share_cell, table_of
from nki.profiling.steps.step_run import ASSUMPTIONS, StepKernel, StepLaunch, StepRun, Unpriced
from nki.profiling.steps.step_text import by_share, path_text

_UNUSUAL: Final = re.compile(r"[^\w.-]+")
"""Characters that a file's name does without."""
_STRETCHED: Final = {"viewBox": "0 0 100 10", "preserveAspectRatio": "none"}
_LEAST: Final = 0.02
"""Least distance of two launches on the timeline, in percent of it, below which the second one is not drawn."""


def pages(step: StepRun, stem: str) -> dict[str, str]:
    """The pages by the names of their files, which begin with ``stem``; "" is the step's, with links to the others."""
    files: dict[StepKernel, str] = {}
    for each in step.kernels:
        name = f"{stem}-{_UNUSUAL.sub('_', each.title).strip('_')}"
        same = sum(file.startswith((f"{name}.", f"{name}~")) for file in files.values())
        files[each] = f"{name}~{same + 1}.html" if same else f"{name}.html"
    return {"": render(step, files), **{file: html.render(each.profile) for each, file in files.items()}}


def render(step: StepRun, files: Mapping[StepKernel, str]) -> str:
    """The page of the step, with links to the ``files`` of its kernels."""
    main = tag(
        "main",
        _timeline(step, files),
        _kernels(step, files),
        card("Critical path", tag("p", f"{time(step.critical_time * 1e9)}: {path_text(step.critical_path)}"), "path"),
        _unpriced(step),
        card("What the model assumes", tag("ul", [tag("li", each) for each in (*ASSUMPTIONS, *step.notes)]), "assumed"),
    )
    return html.page(f"{step.name} on {step.target} · profile of a step", joined(_head(step), main), html.STEP_STYLES)


def _head(step: StepRun) -> Markup:
    low, high = step.interval
    unpriced = sum(each.count for each in step.unpriced)
    title = tag(
        "div",
        tag("h1", step.name),
        tag("p", tag("b", str(step.target)), f" · {count(len(step.launches))} launches of {len(step.kernels)} kernels"),
        tag("p", "Prediction of a model, no measurement.", class_="mark"),
        tag("p", f"In order: {', '.join(map(str, step.order))}", class_="note"),
        class_="title",
    )
    path = f"{len(step.critical_path)} of {len(step.launches)} launches"
    figures = [
        figure("Latency", time(step.latency * 1e9), "without what has no price", "main"),
        figure("Range", f"{time(low * 1e9)} – {time(high * 1e9)}", "one launch at the fast end"),
        figure("On the device", time(step.device_time * 1e9), percent(step.device_time / step.latency)),
        figure("Launches", time(step.launch_time * 1e9), percent(step.launch_time / step.latency)),
        figure("Critical path", time(step.critical_time * 1e9), path),
        figure("Unpriced", count(unpriced), "operations of the framework"),
    ]
    return tag("header", title, tag("dl", figures, class_="figures"), class_="head")


def _timeline(step: StepRun, files: Mapping[StepKernel, str]) -> Markup:
    """A row for each kernel with its launches."""
    critical = {each.number for each in step.critical_path}
    rows: dict[StepKernel, list[Markup]] = {each: [] for each in step.kernels}
    drawn: dict[StepKernel, float] = {}
    for launch in step.launches:
        x = launch.begin / step.latency * 100
        if x - drawn.get(launch.kernel, -1.0) >= _LEAST:
            drawn[launch.kernel] = x
            rows[launch.kernel].append(_launch(step, launch, launch.number in critical, files[launch.kernel]))
    lines = [
        tag("tr", name_cell(_link(each, files)), tag("td", tag("svg", rects, **_STRETCHED), class_="bar"))
        for each, rects in rows.items()
    ]
    ends = tag("div", tag("span", "0"), tag("span", time(step.latency * 1e9)), class_="axis")
    table = tag("table", tag("tbody", lines, tag("tr", tag("td"), tag("td", ends))))
    key = [
        tag("span", tag("svg", tag("rect", width=18, height=9, class_=class_), viewBox="0 0 18 9"), text)
        for class_, text in (
            ("fill-before", "launch"),
            ("fill-critical", "on the device, on the critical path"),
            ("fill-kernel", "on the device, beside it"),
        )
    ]
    return card("Timeline", [tag("div", table, class_="scroll"), tag("p", key, class_="key")], "step")


def _launch(step: StepRun, launch: StepLaunch, critical: bool, file: str) -> Markup:
    profile = launch.kernel.profile
    scale = 100 / step.latency
    x, before, width = launch.begin * scale, profile.launch_time * scale, profile.device_time * scale
    needed = f", needs {', '.join(map(str, launch.needs))}" if launch.needs else ""
    about = (
        f"{launch.number}: {launch.kernel.title}, {time(profile.latency * 1e9)} from {time(launch.begin * 1e9)}{needed}"
    )
    return tag(
        "a",
        tag("title", about),
        tag("rect", x=x, width=before, height=10, class_="fill-before"),
        tag("rect", x=x + before, width=width, height=10, class_="fill-critical" if critical else "fill-kernel"),
        href=file,
    )


def _link(kernel: StepKernel, files: Mapping[StepKernel, str]) -> Markup:
    return tag("a", kernel.title, href=files[kernel])


def _kernels(step: StepRun, files: Mapping[StepKernel, str]) -> Markup:
    table = table_of(
        by_share(step),
        ("Kernel, with its own report", lambda each: name_cell(_link(each, files))),
        ("Launches", lambda each: number_cell(count(each.launches))),
        ("Each", lambda each: number_cell(time(each.profile.latency * 1e9))),
        ("On the device", lambda each: number_cell(time(each.profile.device_time * 1e9))),
        ("All", lambda each: number_cell(time(each.latency * 1e9))),
        ("Share", lambda each: number_cell(percent(step.share(each)))),
        ("", lambda each: share_cell(step.share(each), "fill-kernel")),
        ("Advice", lambda each: number_cell(f"−{time(best * 1e9)}" if (best := _best(each)) else "")),
    )
    return card("Kernels", table, "kernels")


def _best(kernel: StepKernel) -> float:
    """Seconds that the most valuable advice about a kernel gains in the step, under no condition."""
    return max((each.seconds for each in kernel.profile.advice if not each.condition), default=0.0) * kernel.launches


def _unpriced(step: StepRun) -> Markup | None:
    if not step.unpriced:
        return None

    def name(each: Unpriced) -> Markup:
        return name_cell(f"{each.name} (collective)" if each.is_collective else each.name)

    table = table_of(
        step.unpriced,
        ("Operation", name),
        ("Calls", lambda each: number_cell(count(each.count))),
        ("Bytes of one", lambda each: number_cell(size(each.bytes))),
        ("Bytes of all", lambda each: number_cell(size(each.bytes * each.count))),
        ("Shapes", lambda each: tag("td", each.shapes)),
    )
    return card("Operations without a price", table, "unpriced")
