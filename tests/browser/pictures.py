"""The pictures of the README, from the bundled logs before and after `tiersnap tier`: `make docs-pictures`."""

from __future__ import annotations

import base64
import contextlib
import shutil
import sys
import tempfile
from pathlib import Path

from tests.browser.chromium import Chromium, missing
from tests.reference.command import tiersnap
from tiersnap.jobs.commands.demo import TOPIC_IDS, find_logs

IMAGES = Path(__file__).parents[2] / "docs" / "img"
WIDTH = 1100
# Offset of an element from the top of the page.
_TOP = "return document.querySelector(arguments[0]).getBoundingClientRect().top + scrollY"


def main() -> None:
    """Write docs/img/before.png, after.png and failover.png."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, Chromium(width=WIDTH) as browser, contextlib.chdir(folder):
        # Commands on the page name the temporary folder, and nothing else of this machine.
        shutil.copytree(find_logs(), "kafka-logs")
        Path("topic-ids.txt").write_text(TOPIC_IDS, encoding="utf-8")
        words = ("tier", "kafka-logs", "--remote", "./tiers", "--topic", "ledger", "--topic-ids", "topic-ids.txt")
        tiersnap(*words, "--report", "report")
        page = Path("report/index.html").resolve()
        picture(browser, page, "body", 850, IMAGES / "before.png")
        tiersnap(*words, "--report", "report", "--apply")
        picture(browser, page, "#changes", 620, IMAGES / "after.png")
        tiersnap("scan", "kafka-logs", "--report", "scanned")
        picture(browser, Path("scanned/failover.html").resolve(), "body", 620, IMAGES / "failover.png")


def picture(browser: Chromium, page: Path, selector: str, height: int, to: Path) -> None:
    """A piece of a page, from an element on."""
    browser.open("about:blank")
    browser.open(page.as_uri())
    clip = {"x": 0, "y": browser.run(_TOP, selector), "width": WIDTH, "height": height, "scale": 0.8}
    taken = browser.devtools("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    to.write_bytes(base64.b64decode(taken["data"]))


if __name__ == "__main__":
    if why := missing():
        sys.exit(why)
    main()
