"""The report in a browser: it draws, zooms, finds, follows waits, and asks no network for anything."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from nki.profiling.events import CoreEvents
from nki.profiling.kernel_profile import Profile
from tests.profiling.kernels import profiled_halves
from tests.support import browser as browsers
from tests.support import profiled_kernels as kernels
from tests.support.browser import Page

LARGE = 100_000
SECONDS = 3.0
"""Time in which a report of LARGE instructions has to be ready."""
FRAME = 0.1
"""Time in which it has to draw a frame, at most, without a graphics card: 10 frames in a second still follow a hand."""
GUTTER = 84


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    if browsers.programs() is None:
        browsers.missing()
    with browsers.opened(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture(scope="module")
def layer() -> Profile:
    return kernels.of_layer()


@pytest.fixture(scope="module")
def report(layer: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return layer.to_html(tmp_path_factory.mktemp("report") / "layer.html")


@pytest.fixture
def page(browser: Page, report: Path) -> Iterator[Page]:
    """The report of `layer`; whatever a test does with it, the console stays empty and nothing is requested."""
    browser.open(report)
    yield browser
    browser.run("localStorage.clear()")
    assert browser.console() == []
    assert browser.requests() == []


def x_of(page: Page, ns: float) -> float:
    """The place of a time on the canvas, in pixels from its left edge."""
    begin, end = page.range()
    width = page.run("return document.getElementById('timeline').clientWidth") - GUTTER - 1
    return GUTTER + (ns - begin) / (end - begin) * width


def move_to(page: Page, x: float, y: float) -> None:
    canvas = page.find("#timeline")
    # Offsets count from the middle of the visible part.
    page.run("document.getElementById('timeline').scrollIntoView({block: 'center'})")
    size = canvas.size
    page.actions().move_to_element_with_offset(canvas, x - size["width"] / 2, y - size["height"] / 2).perform()


def lane(page: Page, name: str) -> float:
    """The middle of a lane, in pixels from the top of the canvas: engines are 25 high and 3 apart, below the axis."""
    order = ["tensor", "vector", "scalar"]
    return 22 + order.index(name) * 28 + 12


def row_of(core: CoreEvents, mnemonic: str, which: int = 0) -> int:
    rows = [row for row, number in enumerate(core.number) if core.instructions[number].mnemonic == mnemonic]
    return rows[which]


def test_a_page_that_asks_for_something_is_noticed(browser: Page, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text("<img src='http://example.invalid/a.png'><script>undefined.x</script>")
    browser.load(file)
    assert browser.requests() == ["http://example.invalid/a.png"]
    assert any("TypeError" in message for message in browser.console())


PIXELS = """
    const canvas = document.getElementById("timeline");
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {willReadFrequently: true});
    copy.drawImage(canvas, 0, 0);
"""


def colour(page: Page, x: float, y: float) -> list[int]:
    """Red, green and blue of a pixel of the timeline."""
    return page.run(f"{PIXELS} return Array.from(copy.getImageData(arguments[0], arguments[1], 1, 1).data)", x, y)[:3]


def test_it_draws_the_whole_run(page: Page, layer: Profile) -> None:
    begin, end = page.range()
    assert begin <= 0 and end >= layer.timeline.ns
    assert page.text("h1") == "layer"
    core = layer.cores[0]
    row = row_of(core, "nc_matmul", 2)
    middle = (core.start[row] + core.release[row]) / 2
    inside = colour(page, x_of(page, middle), lane(page, "tensor"))
    empty = colour(page, x_of(page, layer.timeline.ns * 0.999), lane(page, "tensor"))
    assert inside[2] > inside[0] + 40, f"the Tensor engine is blue: {inside}"
    assert max(empty) - min(empty) < 12, f"an idle engine has no colour: {empty}"
    canvases = page.run("return Array.from(document.querySelectorAll('canvas'), c => [c.width, c.height])")
    assert all(width > 500 and height > 30 for width, height in canvases)


def test_keys_and_wheel_zoom_and_move(page: Page) -> None:
    whole = page.range()
    page.find("#timeline").click()
    page.press("w", "+", Keys.ARROW_UP)
    closer = page.range()
    assert closer[1] - closer[0] == pytest.approx((whole[1] - whole[0]) / 1.35**3, rel=1e-6)
    page.press("d")
    moved = page.range()
    assert moved[1] - moved[0] == pytest.approx(closer[1] - closer[0])
    assert moved[0] == pytest.approx(closer[0] + (closer[1] - closer[0]) / 8)
    page.press(Keys.ARROW_LEFT)
    assert page.range() == pytest.approx(closer)
    page.press("0")
    assert page.range() == pytest.approx(whole)
    under = x_of(page, 5000.0)
    move_to(page, under, 80)
    page.run("""document.getElementById("timeline").dispatchEvent(new WheelEvent("wheel",
        {deltaY: -300, clientX: arguments[0] + document.getElementById("timeline").getBoundingClientRect().left,
         bubbles: true, cancelable: true}))""", under)  # fmt: skip
    near = page.range()
    assert near[1] - near[0] < (whole[1] - whole[0]) / 1.5
    assert x_of(page, 5000.0) == pytest.approx(under, abs=1.5), "what is under the pointer stays there"


def test_dragging_moves_and_shift_chooses_a_range(page: Page) -> None:
    page.find("#timeline").click()
    page.press("w", "w", "w")
    before = page.range()
    move_to(page, 700, 80)
    page.actions().click_and_hold().move_by_offset(-100, 0).release().perform()
    after = page.range()
    assert after[0] > before[0] and after[1] - after[0] == pytest.approx(before[1] - before[0])
    page.press("0")
    first, last = x_of(page, 2000.0), x_of(page, 4000.0)
    move_to(page, first, 80)
    drag = page.actions().key_down(Keys.SHIFT).click_and_hold().move_by_offset(round(last - first), 0)
    drag.release().key_up(Keys.SHIFT).perform()
    assert page.range() == pytest.approx((2000.0, 4000.0), abs=40)


def test_two_fingers_zoom(page: Page) -> None:
    whole = page.range()
    top = page.run("return document.getElementById('timeline').getBoundingClientRect().top") + 80
    page.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})

    def touch(kind: str, *xs: int) -> None:
        points = [{"x": x, "y": top, "id": number} for number, x in enumerate(xs)]
        page.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 600)
    touch("touchStart", 600, 700)
    for step in range(1, 6):
        touch("touchMove", 600 - 20 * step, 700 + 20 * step)
    touch("touchEnd")
    closer = page.range()
    page.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
    assert closer[1] - closer[0] == pytest.approx((whole[1] - whole[0]) / 3, rel=0.05)


def test_search_finds_and_goes_on(page: Page, layer: Profile) -> None:
    core = layer.cores[0]
    page.press("/")
    page.press("nc_matmul")
    assert page.text("#matches") == "6 found"
    page.press(Keys.ENTER)
    assert page.text("#matches") == "1 of 6"
    assert page.selected() == (0, row_of(core, "nc_matmul", 0))
    page.press(Keys.ENTER)
    assert page.selected() == (0, row_of(core, "nc_matmul", 1))
    page.actions().key_down(Keys.SHIFT).send_keys(Keys.ENTER).key_up(Keys.SHIFT).perform()
    assert page.selected() == (0, row_of(core, "nc_matmul", 0))
    assert "nc_matmul" in page.text("#details")
    span = core.span(int(core.number[row_of(core, "nc_matmul")]))
    assert span is not None
    for text, count in (("squashed", 18), (f"profiled_kernels.py:{span.line}", 6), ("no such thing", 0)):
        field = page.find("#search")
        field.clear()
        field.send_keys(text)
        assert page.text("#matches") == f"{count} found", text
    page.press(Keys.ESCAPE)
    assert page.text("#matches") == ""
    assert page.run("return document.getElementById('timeline').dataset.focus") == ""


def test_it_follows_a_wait_to_the_instruction_that_caused_it(page: Page, layer: Profile) -> None:
    core = layer.cores[0]
    row = row_of(core, "nc_matmul")
    page.press("/")
    page.press("nc_matmul", Keys.ENTER)
    assert page.selected() == (0, row)
    assert "a result of another queue" in page.text("#details .wait")
    blocker = int(core.blocker[row])
    page.find("#blocker").click()
    assert page.selected() == (0, blocker)
    assert "dma_copy" in page.text("#details h3")
    page.find("#timeline").send_keys("b")
    assert page.selected() == (0, int(core.blocker[blocker]))


def test_it_follows_a_wait_to_another_core(browser: Page, tmp_path: Path) -> None:
    profile = kernels.of_in_turn()
    browser.open(profile.to_html(tmp_path / "report.html"))
    first, late = (row_of(core, "core_barrier") for core in profile.cores)
    browser.press("/")
    browser.press("core_barrier", Keys.ENTER, Keys.ENTER)
    assert browser.selected() == (1, late)
    assert "another core" in browser.text("#details .wait") and "core 0 · gpsimd" in browser.text("#blocker")
    assert "Critical path" in browser.text("#details")
    browser.find("#timeline").send_keys("b")
    assert browser.selected() == (0, first)
    assert "core 1 · gpsimd" in browser.text("#details .followers")
    assert browser.console() == []


def test_moments_of_a_long_run_differ(browser: Page, tmp_path: Path) -> None:
    base = kernels.of_layer()
    profile = kernels.repeated(base, 100)
    browser.open(profile.to_html(tmp_path / "report.html"))
    browser.press("/")
    browser.press("tensor_scalar", Keys.ENTER)
    browser.find("#timeline").send_keys(Keys.SHIFT, "n")  # the last one
    begin, end = re.findall(r"([\d.]+ ms) – ([\d.]+ ms)", browser.text("#details dl"))[0]
    assert begin != end


def test_a_key_that_moves_the_view_hides_the_tip(page: Page, layer: Profile) -> None:
    core = layer.cores[0]
    row = row_of(core, "activation", 3)
    move_to(page, x_of(page, float(core.start[row] + core.release[row]) / 2), lane(page, "scalar"))
    page.until("!document.getElementById('tip').hidden")
    page.press("d")
    page.until("document.getElementById('tip').hidden")


@pytest.mark.parametrize("width", [390, 1400])
def test_the_code_has_room(page: Page, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    room = page.run("""
        const [listing, code] = [".listing", ".listing td.code"].map((name) => document.querySelector(name));
        return listing.getBoundingClientRect().right - code.getBoundingClientRect().left;
    """)
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert room > 0.5 * min(width, 700)


def test_a_click_selects_and_the_tip_explains(page: Page, layer: Profile) -> None:
    core = layer.cores[0]
    row = row_of(core, "activation", 3)
    x = x_of(page, float(core.start[row] + core.release[row]) / 2)
    move_to(page, x, lane(page, "scalar"))
    page.until("!document.getElementById('tip').hidden")
    tip = page.text("#tip")
    assert tip.startswith("activation · ") and "profiled_kernels.py:" in tip and "waited" in tip
    page.actions().click().perform()
    assert page.selected() == (0, row)
    assert page.text("#said").startswith("activation")
    line = page.find("tr.marked").text
    assert "nisa.activation(" in line
    page.press("]")
    assert page.selected() == (0, row_of(core, "activation", 4))
    page.press("[")
    assert page.selected() == (0, row)
    page.press(Keys.ESCAPE)
    assert page.selected() is None


def test_a_gap_says_what_its_engine_waits_for(page: Page, layer: Profile) -> None:
    core = layer.cores[0]
    first, second = row_of(core, "nc_matmul"), row_of(core, "nc_matmul", 1)
    middle = (core.release[first] + core.start[second]) / 2
    assert core.start[second] - core.release[first] > 100, "there is a gap"
    move_to(page, x_of(page, middle), lane(page, "tensor"))
    tip = page.text("#tip")
    assert tip.startswith("tensor stands still · ") and "until " in tip and "then nc_matmul" in tip
    page.actions().click().perform()
    assert page.selected() == (0, second)
    page.press(Keys.ESCAPE)
    assert page.selected() is None


def test_a_line_highlights_its_instructions(page: Page) -> None:
    row = next(r for r in page.driver.find_elements("css selector", "tr[data-line]") if "nc_matmul" in r.text)
    row.find_element("css selector", "button").send_keys(Keys.ENTER)
    assert row.find_element("css selector", "button").get_attribute("aria-pressed") == "true"
    assert page.run("return document.getElementById('timeline').dataset.focus") == "some"
    row.find_element("css selector", "button").click()
    assert page.run("return document.getElementById('timeline').dataset.focus") == ""


def test_the_critical_path_can_be_hidden(page: Page) -> None:
    page.find("#timeline").click()
    page.settled()
    count = f"""
        {PIXELS}
        const data = copy.getImageData(0, 0, canvas.width, canvas.height).data;
        let red = 0;
        for (let i = 0; i < data.length; i += 4) if (data[i] > 180 && data[i + 1] < 60 && data[i + 2] < 90) red++;
        return red;
    """
    shown = page.run(count)
    page.press("c")
    page.until("document.getElementById('timeline').dataset.critical === 'false'")
    assert shown > 500 and page.run(count) == 0
    assert page.find("#critical").get_attribute("aria-pressed") == "false"


def test_dark_and_light(page: Page) -> None:
    background = "return getComputedStyle(document.body).backgroundColor"
    corner = (GUTTER + 2, 3)
    assert page.run(background) == "rgb(244, 245, 247)"
    assert min(colour(page, *corner)) > 240
    page.find("#theme").click()
    page.settled()
    assert page.run(background) == "rgb(20, 22, 26)"
    assert max(colour(page, *corner)) < 60
    page.find("#theme").click()
    assert page.run(background) == "rgb(244, 245, 247)"
    page.run("delete document.documentElement.dataset.theme")
    feature = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)
    assert page.run(background) == "rgb(20, 22, 26)"
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_everything_has_a_name_and_the_keyboard_reaches_it(page: Page) -> None:
    unnamed = page.run("""
        const named = (e) => e.textContent.trim() || e.ariaLabel || e.title;
        const controls = "button, input, canvas[tabindex], [role=region], [role=img]";
        return Array.from(document.querySelectorAll(controls), (e) => (named(e) ? "" : e.outerHTML)).filter(Boolean);
    """)
    assert unnamed == []
    seen = set()
    for _ in range(10):  # a link to the advice among them
        page.press(Keys.TAB)
        seen.add(page.run("return document.activeElement.id"))
        assert page.run("return getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert {"search", "critical", "out", "in", "all", "keys", "theme", "timeline"} <= seen


def test_the_keys_are_listed(page: Page) -> None:
    assert not page.find("#help").is_displayed()
    page.find("#keys").click()
    assert "instruction that the selected one waited for" in page.text("#help")


def test_every_instruction_can_be_explained(page: Page, layer: Profile) -> None:
    page.press("/", ":", Keys.ENTER)
    row = page.selected()
    page.find("#timeline").click()
    assert row is not None
    for _ in layer.cores[0].number:
        page.find("#search").send_keys(Keys.ENTER)
        text = page.text("#details")
        assert text.startswith(("dma_copy", "nc_matmul", "activation", "tensor_scalar")), text
        assert not any(word in text for word in ("null", "undefined", "NaN", "[object")), text


def test_a_cause_leads_to_its_longest_stall(page: Page, layer: Profile) -> None:
    use = next(use for use in layer.engines if use.engine == "tensor")
    cause = max(use.stalls, key=lambda name: use.stalls[name])
    button = page.find(".engines td.causes button")
    assert button.text == cause
    button.click()
    assert page.selected() == (0, use.longest[cause])
    assert layer.cores[0].instructions[layer.cores[0].number[use.longest[cause]]].mnemonic == "nc_matmul"


def test_a_long_step_is_one_click_away(page: Page) -> None:
    button = page.find(".steps button")
    button.click()
    row = int(button.get_attribute("data-row") or -1)
    assert page.selected() == (0, row)


def test_the_page_does_not_overflow(page: Page) -> None:
    for width in (1400, 700, 420):
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        assert page.run("return document.documentElement.scrollWidth <= innerWidth"), width
    screen = {"width": browsers.WIDTH, "height": browsers.HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)


@pytest.mark.parametrize("name", ["looped", "halves", "one_works", "in_turn", "hostile"])
def test_other_kernels(browser: Page, tmp_path: Path, name: str) -> None:
    make = profiled_halves if name == "halves" else getattr(kernels, f"of_{name}")
    file = make().to_html(tmp_path / "report.html")
    browser.open(file)
    browser.press("/")
    browser.press("dma_copy", Keys.ENTER)
    assert browser.selected() is not None
    browser.press(Keys.ESCAPE)
    browser.press("c", "w", "0")
    browser.settled()
    assert browser.console() == [] and browser.requests() == []
    assert browser.run("return window.stolen") is None
    assert browser.run("return document.images.length") == 0
    if name == "hostile":
        assert browser.text("h1") == kernels.HOSTILE


def test_a_large_report_is_ready_in_time(browser: Page, tmp_path: Path) -> None:
    base = kernels.of_layer(40)
    profile = kernels.repeated(base, -(-LARGE // len(base.cores[0])))
    assert len(profile.cores[0]) >= LARGE
    file = profile.to_html(tmp_path / "large.html")
    started = time.monotonic()
    browser.open(file)
    browser.press("w")
    browser.until("Number(document.getElementById('timeline').dataset.begin) > 0")
    ready = time.monotonic() - started
    assert ready < SECONDS, f"{ready:.2f} s until a key zooms {LARGE} instructions"
    frames = browser.driver.execute_async_script("""
        const done = arguments[0];
        const canvas = document.getElementById("timeline");
        const times = [];
        let before = performance.now();
        const step = (now) => {
          times.push(performance.now() - before);
          before = performance.now();
          if (times.length === 40) return done(times.slice(2));
          const event = {deltaY: times.length % 20 < 10 ? -60 : 60, clientX: 700, bubbles: true, cancelable: true};
          canvas.dispatchEvent(new WheelEvent("wheel", event));
          requestAnimationFrame(step);
        };
        requestAnimationFrame(step);
    """)
    median = sorted(frames)[len(frames) // 2] / 1000
    assert median < FRAME, f"{median * 1000:.0f} ms for a frame"
    browser.press("/")
    browser.press("nc_matmul", Keys.ENTER)
    assert browser.selected() == (0, row_of(profile.cores[0], "nc_matmul"))
    assert browser.console() == [] and browser.requests() == []
    print(f"{LARGE} instructions: {file.stat().st_size} bytes, ready in {ready:.2f} s, frame {median * 1000:.0f} ms")
