"""The web page under load: idle connections, a browser that never reads. Memory stays limited."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.local_scheduler import Site, site, until
from support.running.web_page import SETTINGS, Page, until_rows, web_page

MAX_GROWTH_MB = 60


@pytest.fixture(scope="module")
def here() -> Iterator[Site]:
    with site(SETTINGS) as made:
        made.weft("submit", "--hold", "--gpus", "1", "--name", "first", "--", "true", check=True)
        yield made


@pytest.fixture
def page(here: Site) -> Iterator[Page]:
    with web_page(here) as made:
        made.log_in()
        until_rows(made, name="first")
        yield made


def memory_mb(page: Page) -> float:
    assert page.process is not None
    (line,) = [
        line for line in Path(f"/proc/{page.process.pid}/status").read_text().splitlines() if line.startswith("VmRSS")
    ]
    return int(line.split()[1]) / 1024


def connect(page: Page) -> socket.socket:
    return socket.create_connection(("127.0.0.1", page.port), timeout=30)


def ask_for_stream(page: Page, *, buffer_bytes: int | None = None) -> socket.socket:
    made = socket.socket()
    if buffer_bytes is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    made.settimeout(30)
    made.connect(("127.0.0.1", page.port))
    head = f"GET /api/v1/stream HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\nCookie: {page.cookie}\r\n\r\n"
    made.sendall(head.encode())
    return made


def idle_connections(page: Page, count: int) -> None:
    before = memory_mb(page)
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(connect(page))
        assert page.get("/api/v1/overview").status == 200
        assert memory_mb(page) - before < MAX_GROWTH_MB
    until(lambda: page.get("/api/v1/overview").status == 200)


def test_idle_connections_cost_little_and_others_are_served(page: Page) -> None:
    idle_connections(page, 200)


@pytest.mark.soak
def test_a_thousand_idle_connections_cost_little(page: Page) -> None:
    idle_connections(page, 1000)


def test_a_browser_that_never_reads_costs_a_limited_amount_of_memory(here: Site, page: Page) -> None:
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(ask_for_stream(page, buffer_bytes=4096)) for _ in range(20)]
        before = memory_mb(page)
        for at in range(3):
            array = f"submit --hold --gpus 1 --name many{at} --array 0-499 --quiet -- true"
            here.weft(*array.split(), check=True)
            until_rows(page, name=f"many{at}")
        assert memory_mb(page) - before < MAX_GROWTH_MB
        until(lambda: page.get("/api/v1/jobs?q=many2").json["total"] == 500)
        reader = stack.enter_context(ask_for_stream(page))
        assert reader.recv(100).startswith(b"HTTP/1.1 200")
        assert len(silent) == 20
