"""The web page of a test's own: `weft web` as a real process, and requests as browsers send them."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from support.running.local_scheduler import PATIENCE_S, Site, until

SETTINGS = {"gpus": "0,1", "models": "A100,A100", "memories": "40960,40960", "policy": "fifo", "idle_s": 0.0}


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Page:
    """A page at a port, and the cookie and the CSRF token of a browser that is logged in."""

    port: int
    link: str = ""
    cookie: str = ""
    csrf: str = ""
    process: subprocess.Popen[str] | None = field(default=None, repr=False)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def send(self, method: str, path: str, body: str | None = None, **headers: str) -> Answer:
        """Send a request without anything that was not given."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            found = connection.getresponse()
            return Answer(found.status, {key.lower(): value for key, value in found.getheaders()}, found.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, Cookie=self.cookie, **headers)

    def post(self, path: str, **headers: str) -> Answer:
        """Send a change as the page does."""
        given = {"Cookie": self.cookie, "Origin": self.origin, "X_CSRF_Token": self.csrf, **headers}
        return self.send("POST", path, **{name: value for name, value in given.items() if value})

    def log_in(self) -> Answer:
        found = self.send("GET", self.link.partition(str(self.port))[2])
        assert found.status == 200, found
        self._remember(found)
        return found

    def log_in_with(self, token: str) -> Answer:
        found = self.send(
            "POST", "/login", f"token={token}", Origin=self.origin, Content_Type="application/x-www-form-urlencoded"
        )
        if found.status == 200:
            self._remember(found)
        return found

    def _remember(self, found: Answer) -> None:
        self.cookie = found.headers["set-cookie"].partition(";")[0]
        self.csrf = self.get("/api/v1/session").json["csrf"]


@contextlib.contextmanager
def web_page(site: Site, *words: str) -> Iterator[Page]:
    """The page of a local scheduler. Nothing is logged in."""
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", "web", "--port", "0", *words], env=site.env, cwd=site.root,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/login\?token=\S+", line)
        assert found, line + process.stdout.read()
        with contextlib.suppress(OSError, ValueError):
            site.started.add(site.pid())
        yield Page(int(found[1]), found[0], process=process)
    finally:
        process.terminate()
        process.wait(20)
        assert process.stdout is not None
        process.stdout.close()


def until_rows(page: Page, **wanted: Any) -> dict[str, Any]:
    """Wait until the page knows jobs with these values, and return the first of them."""

    def find() -> dict[str, Any] | None:
        rows = page.get("/api/v1/jobs").json["jobs"]
        return next((row for row in rows if all(row[key] == value for key, value in wanted.items())), None)

    found: dict[str, Any] = until(find)
    return found
