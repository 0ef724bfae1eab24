"""A router in the test's own event loop, and a client that sends bytes as they are and reads answers strictly."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from support.programs.http_replica import Replica
from weft.access.endpoints.addresses import Address
from weft.router.app import Listener, Router
from weft.router.settings import RouterSettings
from weft.router.table import ReplicaRoute, RouteTable, ServiceRoute

PATIENCE_S = 60.0


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test in a new event loop, for at most PATIENCE_S."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def bounded() -> None:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await test(*args, **kwargs)
            finally:
                while OPENED:
                    OPENED.pop().close()

        asyncio.run(bounded())

    return run


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; the test's own time limit is the deadline."""
    while not condition():
        await asyncio.sleep(0.002)


def route(name: str, *replicas: Replica, concurrency: int = 8, **options: Any) -> ServiceRoute:
    """Return a service with these replicas."""
    found = tuple(ReplicaRoute(each.name, Address("127.0.0.1", each.port), concurrency) for each in replicas)
    return ServiceRoute(name, found, **options)


@asynccontextmanager
async def running_router(
    *services: ServiceRoute, settings: RouterSettings | None = None, listener: Listener | None = None
) -> AsyncIterator[tuple[Router, int]]:
    """Run a router for these services. Afterwards its books must balance."""
    router = Router(settings or RouterSettings(drain_s=5.0), listener=listener)
    router.apply(RouteTable(services))
    port = await router.listen("127.0.0.1", 0)
    try:
        yield router, port
    finally:
        await router.close()
    assert_balanced(router)


def assert_balanced(router: Router) -> None:
    """Check that a router that has no requests holds nothing of any."""
    assert router.held_bytes == 0
    for service in router.services.values():
        assert not service.dispatcher.queue
        assert service.dispatcher.in_flight == 0
        assert all(replica.outstanding == 0 for replica in service.dispatcher.replicas.values())


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> Client:
        client = cls(*await asyncio.open_connection("127.0.0.1", port))
        OPENED.append(client)
        return client

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def read_head(self) -> tuple[int, dict[str, str]]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head[:-4].split("\r\n")
        version, status, _ = first.split(" ", 2)
        assert version == "HTTP/1.1"
        names = [line.partition(": ")[0].lower() for line in lines]
        assert len(set(names)) == len(names), f"a header occurs twice: {head}"
        return int(status), {line.partition(": ")[0].lower(): line.partition(": ")[2] for line in lines}

    async def read(self, *, method: str = "GET") -> Answer:
        status, headers = await self.read_head()
        if method == "HEAD" or status in (204, 304) or status < 200:
            return Answer(status, headers, b"")
        assert not ("content-length" in headers and "transfer-encoding" in headers)
        if "content-length" in headers:
            return Answer(status, headers, await self.reader.readexactly(int(headers["content-length"])))
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            assert await self.reader.readexactly(2) == b"\r\n"
            return Answer(status, headers, body)
        return Answer(status, headers, await self.reader.read())

    async def ask(self, method: str, target: str, body: bytes = b"", headers: str = "") -> Answer:
        """Send a request and read its answer."""
        length = f"Content-Length: {len(body)}\r\n" if body or method == "POST" else ""
        self.send(f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n{length}{headers}\r\n".encode() + body)
        return await self.read(method=method)

    async def is_closed(self) -> bool:
        """Return whether the router closes the connection without another byte."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.writer.transport.abort()


OPENED: list[Client] = []
"""Connections to close when a test ends."""


async def ask(port: int, method: str, target: str, body: bytes = b"", headers: str = "") -> Answer:
    """Send one request over a new connection."""
    client = await Client.connect(port)
    try:
        return await client.ask(method, target, body, headers)
    finally:
        client.close()
