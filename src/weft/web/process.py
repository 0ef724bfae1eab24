"""The page as a process: it follows the scheduler, listens and serves until it is stopped."""

from __future__ import annotations

import asyncio
import getpass
import logging
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from weft.access.auth.tokens import follow_tokens
from weft.access.client import Client
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import Credentials, find_credentials
from weft.access.endpoints.open_files import allow_open_files
from weft.access.endpoints.paths import Paths
from weft.access.http.listener import MAX_CONNECTIONS, Listener, TlsFiles
from weft.errors import WeftError
from weft.node.engine.background import TaskSet
from weft.views.answers.changes import ChangesView
from weft.web.access.login import Login
from weft.web.api.calls import Calls
from weft.web.api.handlers import Handlers
from weft.web.api.streams import Streams
from weft.web.app import build_app
from weft.web.live.board import Board
from weft.web.live.follower import Follower
from weft.web.live.job_table import JobTable
from weft.web.live.latency import LatencyReader
from weft.web.live.past import load_past

LATENCY_S: Final = 5.0
SPARE_FILES: Final = 100
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WebPlan:
    """Which scheduler to show, where and to whom."""

    where: Paths | Address
    bound: socket.socket
    """A socket at the address of the page."""
    host: str = "127.0.0.1"
    read_only: bool = False
    names: tuple[str, ...] = ()
    """Further host names that requests may name."""
    tokens: Path | None = None
    """The folder with the tokens of a cluster's users; None: one-time links."""
    credentials: Credentials | None = field(default=None, repr=False)
    """Those of the server's own user, with `tokens`."""
    tls: TlsFiles | None = None
    key: str = field(default="", repr=False)
    """The secret with which another process of this user gets a link."""
    on_open: Callable[[int, str], None] = lambda _port, _link: None
    """Called with the port and a one-time link once the page answers."""
    stop: Callable[[asyncio.Event], None] = lambda _event: None
    """Called with the event that ends the process."""


def run(plan: WebPlan) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    allow_open_files(MAX_CONNECTIONS + SPARE_FILES)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # clients that vanish are not errors
    asyncio.run(_serve(plan))


async def _serve(plan: WebPlan) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    plan.stop(stop)
    table, streams, calls = JobTable(), Streams(), Calls()
    board = Board(table)
    tokens = follow_tokens(plan.tokens) if plan.tokens is not None else None
    login = Login(
        getpass.getuser(), _connect(plan), lambda token: _connect_as(plan, token), tokens,
        secure=plan.tls is not None, key=plan.key,
    )  # fmt: skip
    handlers = Handlers(login, board, streams, calls, _name(plan.where), read_only=plan.read_only)
    listener = Listener(build_app(login, handlers, plan.host, plan.names), plan.tls)

    def receive(changes: ChangesView) -> None:
        streams.publish(board.apply(changes))

    def report(error: str) -> None:
        streams.publish(board.fail(error))

    follower = Follower(lambda: _connect(plan), table, receive, report)
    follower.open()
    tasks = TaskSet()
    tasks.spawn(load_past(board, plan.where))
    latency = LatencyReader(plan.credentials or _own_credentials(plan.where))
    tasks.every(LATENCY_S, lambda: _read_latency(board, latency), "reading the latency of services")
    login.name_cookie(int(plan.bound.getsockname()[1]))
    port = await listener.open(plan.bound)
    scheme = "http" if plan.tls is None else "https"
    plan.on_open(port, f"{scheme}://{Address(plan.host, port)}/login?token={login.links.issue()}")
    await stop.wait()
    streams.close()
    follower.close()
    await tasks.close()
    await listener.close()
    calls.close()
    table.close()


async def _read_latency(board: Board, reader: LatencyReader) -> None:
    if board.services:
        board.latencies = await asyncio.to_thread(reader.read, list(board.services))


def _own_credentials(where: Paths | Address) -> Credentials | None:
    """Return the credentials of the user who runs the page; None: a machine without a cluster has none."""
    if isinstance(where, Address):
        with suppress(WeftError):
            return find_credentials(where)
    return None


def _connect(plan: WebPlan) -> Client:
    """Return a client of the user who runs the page."""
    return Client(plan.where, start=False, credentials=plan.credentials)


def _connect_as(plan: WebPlan, token: str) -> Client:
    """Return a client of the user with this token, so that the scheduler decides what the user may do."""
    ca = plan.credentials.ca if plan.credentials is not None else None
    return Client(plan.where, start=False, credentials=Credentials(token, ca))


def _name(where: Paths | Address) -> str:
    return socket.gethostname() if isinstance(where, Paths) else str(where)
