"""A router as a process: its event loop, its signals, and other processes on the same port."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from weft.access.endpoints.addresses import Address
from weft.access.endpoints.open_files import allow_open_files
from weft.errors import WeftError
from weft.node.engine.background import TaskSet
from weft.router.app import Router
from weft.router.scheduler_link import SchedulerLink
from weft.router.settings import RouterSettings
from weft.router.sources import TableSource
from weft.router.table import RouteTable

SPARE_FILES: Final = 64
"""Open files apart from connections."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RouterPlan:
    """Where and how a router runs."""

    listen: Address
    source: TableSource
    settings: RouterSettings
    tls: ssl.SSLContext | None = None
    share_port: bool = False
    listening: socket.socket | None = None
    """A socket that listens already, instead of `listen`."""
    link: SchedulerLink | None = None
    """The scheduler to report the load to; None: there is none."""
    on_start: Callable[[], None] = lambda: None
    """Called first, in the event loop."""
    on_open: Callable[[int], None] = lambda _port: None
    """Called with the port once connections are accepted."""


def run(plan: RouterPlan) -> None:
    """Serve until SIGTERM or Ctrl-C, then end the requests under way."""
    wanted = 2 * plan.settings.max_connections + SPARE_FILES
    if (most := allow_open_files(wanted)) < wanted:
        log.warning("at most %d open files: fewer connections than --max-connections may be possible", most)
    _run_loop(_serve(plan))


def _run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run in uvloop if it is installed: it takes half the CPU time of asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


async def _serve(plan: RouterPlan) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    plan.on_start()
    router = Router(plan.settings, listener=plan.link)
    tables = plan.source.tables()
    first = await _unless_stopped(anext(tables), stop)
    if first is None:
        await router.close()
        return
    router.apply(first)  # an unusable first table ends the process
    try:
        port = await router.listen(
            plan.listen.host, plan.listen.port, tls=plan.tls, share_port=plan.share_port, listening=plan.listening
        )
    except OSError as error:
        await router.close()
        raise WeftError(
            f"cannot listen on {plan.listen}: {error.strerror or error}\n"
            "  another process uses it, or it is no address of this machine; see weft router --listen"
        ) from None
    plan.on_open(port)

    async def follow() -> None:
        async for table in tables:
            router.apply(table)

    tasks = TaskSet()
    tasks.spawn(follow())
    if plan.link is not None:
        tasks.spawn(plan.link.report(router))
    await stop.wait()
    await tasks.close()
    if plan.link is not None:
        plan.link.close()
    await router.close()


async def _unless_stopped(table: Awaitable[RouteTable], stop: asyncio.Event) -> RouteTable | None:
    """Wait for a table; return None if the process must end first, as it may while no scheduler answers."""
    first, stopped = asyncio.ensure_future(table), asyncio.ensure_future(stop.wait())
    await asyncio.wait((first, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if first.done():
        return first.result()
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first
    return None
