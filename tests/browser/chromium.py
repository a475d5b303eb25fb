"""A real Chromium driven through its own chromedriver, with nothing but the standard library.

    with Chromium(width=1280, dark=True) as page:
        page.open(path.as_uri())
        page.run("return document.title")

Speaks W3C WebDriver to chromedriver on loopback; DevTools commands go through its `goog/cdp/execute`.
"""

from __future__ import annotations

import base64
import gzip
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage")
_START_SECONDS = 30.0
_ANSWER_SECONDS = 60.0


def missing() -> str:
    """What has to be installed before a browser can be started, or ""."""
    if not _browser():
        return "no Chromium here: apt-get install chromium chromium-driver"
    if not shutil.which("chromedriver"):
        return "no chromedriver here: apt-get install chromium-driver"
    return ""


def _browser() -> str | None:
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


class Chromium:
    """One browser window; `dark` and `width` are what the page is told."""

    def __init__(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        self._size = (width, height)
        self._dark = dark
        self._driver: subprocess.Popen[bytes] | None = None
        self._url = ""

    def __enter__(self) -> Chromium:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = ["chromedriver", f"--port={port}"]
        self._driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._url = f"http://127.0.0.1:{port}"
        try:
            self._await_driver()
            width, height = self._size
            options = {
                "browserName": "chrome",
                "goog:chromeOptions": {"binary": _browser(), "args": [*_FLAGS, f"--window-size={width},{height}"]},
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            }
            session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": options}})
            self._url += f"/session/{session['sessionId']}"
            self.resize(width, height)
            self.colours(dark=self._dark)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._call("DELETE", "")
        finally:
            self._stop()

    def open(self, url: str) -> None:
        """Load a page and wait for it."""
        self._call("POST", "/url", {"url": url})

    def run(self, script: str, *args: object) -> Any:
        """Run JavaScript as a function's body; returns what it returns."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(args)})

    def click(self, selector: str) -> None:
        """Click the first element that matches, as a mouse would: it must be visible."""
        element = self._call("POST", "/element", {"using": "css selector", "value": selector})
        self._call("POST", f"/element/{next(iter(element.values()))}/click", {})

    def press(self, keys: str) -> None:
        """Type into whatever has the focus."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def violations(self) -> list[str]:
        """Return what axe-core finds wrong on the page for those who see, hear or move otherwise; empty if nothing."""
        self.run(_axe())
        return self.run(
            "return axe.run().then(found => found.violations.map(each => `${each.id}: ${each.nodes[0].html}`))"
        )

    def console(self) -> list[str]:
        """What the console has said since it was last asked."""
        return [entry["message"] for entry in self._call("POST", "/se/log", {"type": "browser"})]

    def requested(self) -> list[str]:
        """URLs that were asked for since this was last asked."""
        entries = [
            json.loads(entry["message"])["message"] for entry in self._call("POST", "/se/log", {"type": "performance"})
        ]
        return [
            entry["params"]["request"]["url"] for entry in entries if entry["method"] == "Network.requestWillBeSent"
        ]

    def resize(self, width: int, height: int = 900) -> None:
        """Tell the page its size: a window of this browser is never narrower than 500 px."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)

    def colours(self, *, dark: bool) -> None:
        """Tell the page what colours its reader prefers; and no motion, or clicks would hit what scrolls past."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        motion = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.devtools("Emulation.setEmulatedMedia", {"features": [scheme, motion]})

    def devtools(self, command: str, params: dict[str, object]) -> Any:
        """A command of the DevTools protocol."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def screenshot(self, path: Path) -> None:
        """The whole page as PNG."""
        picture = self.devtools("Page.captureScreenshot", {"captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(picture["data"]))

    def _call(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with _OPENER.open(request, timeout=_ANSWER_SECONDS) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise RuntimeError(json.load(error)["value"]["message"]) from None

    def _await_driver(self) -> None:
        until = time.monotonic() + _START_SECONDS
        while True:
            try:
                if self._call("GET", "/status")["ready"]:
                    return
            except OSError:
                pass
            if time.monotonic() > until:
                raise TimeoutError("chromedriver does not answer")
            time.sleep(0.05)

    def _stop(self) -> None:
        if self._driver is not None:
            self._driver.terminate()
            self._driver.wait()


@cache
def _axe() -> str:
    """axe-core of Deque Systems, MPL 2.0, as npm has it."""
    return gzip.decompress(Path(__file__).with_name("axe-core-4.14.1.min.js.gz").read_bytes()).decode()


# Loopback is not for a proxy.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
