"""A headless Chromium, driven by Selenium, that records its console and every request that it makes.

Without a browser the tests that need one are skipped; with ``OPEN_NKI_REQUIRE_BROWSER=1``, as in continuous
integration, they fail.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

REQUIRE = "OPEN_NKI_REQUIRE_BROWSER"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
)
WIDTH, HEIGHT = 1400, 900
PATIENCE = 20.0
"""Seconds to wait for the page, at most."""


def programs() -> tuple[str, str] | None:
    """The paths of the browser and of its driver; None if one of them is missing."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


class Page:
    """A page in the browser."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def load(self, file: Path) -> None:
        """Load ``file``, and forget what pages before it did."""
        self.driver.get_log("performance")
        self.driver.get_log("browser")
        self.driver.get(file.as_uri())

    def open(self, file: Path) -> None:
        """Load the report ``file``, and wait until it has drawn its timeline."""
        self.load(file)
        self.until("document.documentElement.dataset.ready === 'true'")

    def run(self, script: str, *args: Any) -> Any:
        """The value that ``script`` returns in the page."""
        return self.driver.execute_script(script, *args)

    def until(self, condition: str) -> None:
        """Wait for a condition in JavaScript."""
        end = time.monotonic() + PATIENCE
        while not self.run(f"return Boolean({condition})"):
            assert time.monotonic() < end, f"never true: {condition}; console: {self.console()}"
            time.sleep(0.02)

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return self.find(selector).text

    def press(self, *keys: str) -> None:
        """Press keys where the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def actions(self) -> ActionChains:
        return ActionChains(self.driver, duration=20)

    def settled(self) -> None:
        """Wait until the timeline is drawn and stands still."""
        frames = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
        self.driver.execute_async_script(frames)
        script = "const c = document.getElementById('timeline').dataset; return c.begin + c.end + c.selected"
        before = None
        while before != (before := self.run(script)):
            time.sleep(0.1)

    def range(self) -> tuple[float, float]:
        """Begin and end of the visible time, in ns."""
        self.settled()
        data = self.run("const c = document.getElementById('timeline').dataset; return [c.begin, c.end]")
        return float(data[0]), float(data[1])

    def selected(self) -> tuple[int, int] | None:
        """Core and row of the selected instruction."""
        self.settled()
        value = self.run("return document.getElementById('timeline').dataset.selected")
        return tuple(map(int, value.split(":"))) if value else None  # type: ignore[return-value]

    def console(self) -> list[str]:
        """What the page has written to the console, errors of its policy included."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses that the page asked for since it was opened, itself left out."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        here = self.driver.current_url  # the browser's own first page may still be asking for its parts
        urls = [each["request"]["url"] for each in sent if each["documentURL"] == here]
        return [url for url in urls if not url.startswith("data:") and url != here]


def missing() -> None:
    """Skip the test, or fail where the browser is demanded."""
    reason = "no headless browser: install chromium and chromedriver (Debian: chromium, chromium-driver)"
    if os.environ.get(REQUIRE):
        pytest.fail(f"{REQUIRE} is set, and there is {reason}")
    pytest.skip(reason)


@contextmanager
def opened(folder: Path) -> Iterator[Page]:
    """A browser with an empty profile in ``folder``."""
    paths = programs()
    assert paths is not None
    options = webdriver.ChromeOptions()
    options.binary_location = paths[0]
    for flag in (*FLAGS, f"--user-data-dir={folder}", f"--window-size={WIDTH},{HEIGHT}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # The path spares Selenium the search for a driver in the network.
    driver = webdriver.Chrome(options=options, service=Service(paths[1]))
    try:
        screen = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        yield Page(driver)
    finally:
        driver.quit()
