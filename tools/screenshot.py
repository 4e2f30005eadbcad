"""Write the picture of a report that the README shows: ``python -m tools.screenshot [FILE]``.

It is the profile of the attention of examples/minilm on trn2, in a headless Chromium.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from examples.minilm.kernels import attention_block
from nki.profiling.kernel_profile import Profile, profile
from nki.profiling.shapes import ShapeDtype
from tests.support import browser

FILE = Path(__file__).parent.parent / "docs" / "images" / "profile.png"
HEIGHT = 1120
"""Pixels of the picture from top to bottom: down to the costliest line and the first advice."""
TOKENS, SENTENCES, SPAN, HIDDEN = 512, 4, 128, 384


def attention() -> Profile:
    shapes = (
        (TOKENS, HIDDEN),
        (TOKENS // SPAN, SENTENCES, SPAN),
        (TOKENS // SPAN, SENTENCES, SPAN),
        (HIDDEN, 3 * HIDDEN),
        (3 * HIDDEN,),
        (HIDDEN, HIDDEN),
        *[(HIDDEN,)] * 3,
    )
    return profile(attention_block, target="trn2")(*[ShapeDtype(shape, "float32") for shape in shapes])


def main(arguments: list[str]) -> None:
    file = Path(arguments[0]) if arguments else FILE
    if browser.programs() is None:
        sys.exit("there is no headless browser: install chromium and chromedriver")
    with tempfile.TemporaryDirectory() as folder:
        report = attention().to_html(Path(folder, "report.html"))
        with browser.opened(Path(folder, "browser")) as page:
            size = {"width": browser.WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
            page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            page.driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
            page.open(report)
            page.settled()
            file.parent.mkdir(parents=True, exist_ok=True)
            page.driver.save_screenshot(str(file))
    print(f"{file}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
