"""A real Chromium, driven through chromedriver by plain HTTP: pages are opened, used and photographed as people do."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.running.local_scheduler import PATIENCE_S, until
from support.running.secured_cluster import free_port
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import is_listening

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--disable-extensions", "--disable-default-apps", "--force-color-profile=srgb", "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)  # fmt: skip


def is_installed() -> bool:
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


PAGE_LOAD_MS = 40_000
"""A page that is blocked by the streams of earlier ones takes longer."""


class Browser:
    """One window."""

    def __init__(self, port: int, folder: Path, *, dark: bool = False) -> None:
        self._port = port
        options: dict[str, Any] = {
            "args": [*FLAGS, f"--user-data-dir={folder}", *(["--force-dark-mode"] if dark else [])],
            "binary": shutil.which("chromium"),
        }
        wanted = {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"performance": "ALL", "browser": "ALL"},
            "timeouts": {"pageLoad": PAGE_LOAD_MS},
        }  # fmt: skip
        found = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{found['sessionId']}"

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=2 * PATIENCE_S)
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, {"Content-Type": "application/json"})
            found = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(found, dict) and "error" in found and "message" in found:
            raise AssertionError(f"{found['error']}: {found['message']}")
        return found

    def open(self, address: str) -> None:
        self._call("POST", f"{self._session}/url", {"url": address})

    @property
    def address(self) -> str:
        return str(self._call("GET", f"{self._session}/url"))

    def run(self, script: str, *args: Any) -> Any:
        """Run JavaScript in the page and return its value."""
        return self._call("POST", f"{self._session}/execute/sync", {"script": script, "args": list(args)})

    def text(self) -> str:
        return str(self.run("return document.body.innerText"))

    def until(self, condition: str, *args: Any) -> Any:
        """Wait until an expression of JavaScript is true, and return its value."""
        try:
            return until(lambda: self.run(f"return ({condition})", *args))
        except AssertionError:
            raise AssertionError(f"{condition} never came true on {self.address}:\n{self.text()[:3000]}") from None

    def click(self, selector: str) -> None:
        """Click an element once it is there. Pages draw again at any moment, so finding and clicking is one step."""
        self.until(
            "[document.querySelector(arguments[0])].filter(Boolean).map((each) => each.click()).length", selector
        )

    def type(self, selector: str, text: str) -> None:
        found = self._call("POST", f"{self._session}/element", {"using": "css selector", "value": selector})
        self._call("POST", f"{self._session}/element/{found[ELEMENT]}/value", {"text": text})

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the size of the page, as a phone or a screen has it, and the theme that the system prefers."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._devtools("Emulation.setDeviceMetricsOverride", metrics)
        theme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._devtools("Emulation.setEmulatedMedia", {"features": theme})

    def _devtools(self, command: str, params: dict[str, Any]) -> Any:
        return self._call("POST", f"{self._session}/goog/cdp/execute", {"cmd": command, "params": params})

    def picture(self) -> bytes:
        """Return the whole page as PNG."""
        size = self._devtools("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 4000), "scale": 1}
        found = self._devtools("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        return base64.b64decode(found["data"])

    def view(self) -> bytes:
        """Return what the window shows as PNG."""
        return base64.b64decode(self._devtools("Page.captureScreenshot", {})["data"])

    def log(self, kind: str) -> list[dict[str, Any]]:
        """Return the entries of a log since the last call: `browser` (the console) or `performance`."""
        return list(self._call("POST", f"{self._session}/se/log", {"type": kind}))

    def requests(self) -> list[str]:
        """Return the addresses that were requested since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        return [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]

    def problems(self) -> list[str]:
        """Return what the console complains about since the last call."""
        return [entry["message"] for entry in self.log("browser") if entry["level"] == "SEVERE"]

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._call("DELETE", self._session)


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    root = Path(tempfile.mkdtemp(prefix="weft-b-"))
    port = free_port()
    env = {**os.environ, "HOME": str(root)}
    driver = subprocess.Popen(
        ["chromedriver", f"--port={port}", "--allowed-ips=127.0.0.1"], env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    window: Browser | None = None
    try:
        until(lambda: is_listening(Address("127.0.0.1", port)))
        window = Browser(port, root / "profile")
        yield window
    finally:
        if window is not None:
            window.close()
        driver.terminate()
        driver.wait(20)
        shutil.rmtree(root, ignore_errors=True)
