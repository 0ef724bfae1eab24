"""A replica for tests of the router: a real HTTP server on asyncio streams whose paths say how it behaves."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Seen:
    """A request as the replica read it."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


@dataclass
class Replica:
    """The requests and answers of one replica."""

    name: str = "replica"
    port: int = 0
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    open: int = 0
    """Requests that are being answered."""
    most_open: int = 0
    aborted: int = 0
    """Requests whose connection the router closed before the answer was complete."""
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """`/wait` answers once this is set."""
    writers: set[asyncio.StreamWriter] = field(default_factory=set)
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    server: asyncio.Server | None = None

    async def start(self, port: int = 0, host: str = "127.0.0.1") -> None:
        self.server = await asyncio.start_server(self._connected, host, port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """End at once, as a killed process does."""
        if self.server is not None:
            self.server.close()
        for writer in list(self.writers):
            writer.transport.abort()
        for task in self.tasks:
            task.cancel()
        while self.writers:
            await asyncio.sleep(0.001)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            while (request := await read_request(reader)) is not None:
                self.seen.append(request)
                self.open += 1
                self.most_open = max(self.most_open, self.open)
                try:
                    if not await self._answer(request, reader, writer):
                        break
                finally:
                    self.open -= 1
        except (OSError, asyncio.IncompleteReadError):
            self.aborted += 1
        except asyncio.CancelledError:
            pass  # stopped
        finally:
            self.tasks.discard(task)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            self.writers.discard(writer)

    async def _answer(self, request: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        split = urlsplit(request.target)
        options = {key: values[0] for key, values in parse_qs(split.query).items()}
        act = ACTIONS.get(split.path, _echo)
        return await act(self, request, options, reader, writer)


async def read_request(reader: asyncio.StreamReader) -> Seen | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *lines = head[:-4].split("\r\n")
    method, target, _ = first.split(" ")
    headers = [(line.partition(": ")[0], line.partition(": ")[2]) for line in lines]
    known = {key.lower(): value for key, value in headers}
    if known.get("transfer-encoding") == "chunked":
        body = await read_chunks(reader)
    else:
        body = await reader.readexactly(int(known.get("content-length", "0")))
    return Seen(method, target, headers, body)


async def read_chunks(reader: asyncio.StreamReader) -> bytes:
    found = b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        found += (await reader.readexactly(size + 2))[:-2]
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return found


def _plain(body: bytes, extra: str = "", status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{extra}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


Options = dict[str, str]
Action = Callable[[Replica, Seen, Options, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool]]


async def _echo(replica: Replica, request: Seen, _: Options, __: object, writer: asyncio.StreamWriter) -> bool:
    what: dict[str, Any] = {
        "replica": replica.name, "method": request.method, "target": request.target, "headers": request.headers,
        "body": request.body.decode("latin-1"),
    }  # fmt: skip
    body = json.dumps(what).encode()
    answer = _plain(body, "X-Own: 1\r\nConnection: X-Secret\r\nX-Secret: 2\r\n")
    writer.write(answer[: -len(body)] if request.method == "HEAD" else answer)
    await writer.drain()
    return True


async def _wait(replica: Replica, _: Seen, __: Options, reader: asyncio.StreamReader, writer: Any) -> bool:
    gone = asyncio.ensure_future(reader.read(1))
    opened = asyncio.ensure_future(replica.gate.wait())
    await asyncio.wait([gone, opened], return_when=asyncio.FIRST_COMPLETED)
    if gone.done():
        opened.cancel()
        raise ConnectionResetError
    gone.cancel()
    with suppress(asyncio.CancelledError):
        await gone
    writer.write(_plain(replica.name.encode()))
    await writer.drain()
    return True


async def _chunks(_: Replica, __: Seen, options: Options, ___: object, writer: asyncio.StreamWriter) -> bool:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    for at in range(int(options.get("n", "3"))):
        piece = b"data: %d\n\n" % at
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()
        await asyncio.sleep(float(options.get("gap", "0")))
    writer.write(b"0\r\nX-Trailer: 1\r\n\r\n")
    await writer.drain()
    return True


async def _until_close(_: Replica, __: Seen, ___: Options, ____: object, writer: asyncio.StreamWriter) -> bool:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
    await writer.drain()
    return False


async def _big(_: Replica, __: Seen, options: Options, ___: object, writer: asyncio.StreamWriter) -> bool:
    left = int(options["bytes"])
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % left)
    while left:
        piece = b"x" * min(left, 65536)
        writer.write(piece)
        left -= len(piece)
        await writer.drain()
    return True


async def _die(_: Replica, __: Seen, options: Options, ___: object, writer: asyncio.StreamWriter) -> bool:
    if "after" in options:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"y" * int(options["after"]))
        await writer.drain()
    writer.transport.abort()
    return False


async def _raw(_: Replica, request: Seen, __: Options, ___: object, writer: asyncio.StreamWriter) -> bool:
    writer.write(request.body)
    await writer.drain()
    return True


async def _early(_: Replica, __: Seen, ___: Options, ____: object, writer: asyncio.StreamWriter) -> bool:
    writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + _plain(b"late"))
    await writer.drain()
    return True


async def _no_content(_: Replica, __: Seen, ___: Options, ____: object, writer: asyncio.StreamWriter) -> bool:
    writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
    await writer.drain()
    return True


async def _websocket(_: Replica, request: Seen, __: Options, reader: Any, writer: asyncio.StreamWriter) -> bool:
    key = (request.header("sec-websocket-key") or "") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    writer.write(f"{head}Sec-WebSocket-Accept: {accept}\r\n\r\nhello ".encode())
    while data := await reader.read(65536):
        writer.write(data.upper())
        await writer.drain()
        if b"bye" in data:
            break
    return False


ACTIONS: dict[str, Action] = {
    "/wait": _wait, "/chunks": _chunks, "/until-close": _until_close, "/big": _big, "/die": _die, "/raw": _raw,
    "/early": _early, "/no-content": _no_content, "/websocket": _websocket,
}  # fmt: skip


@asynccontextmanager
async def replicas(*names: str) -> AsyncIterator[tuple[Replica, ...]]:
    """Run replicas with these names."""
    started = tuple(Replica(name) for name in names)
    for each in started:
        await each.start()
    try:
        yield started
    finally:
        for each in started:
            each.gate.set()
            await each.stop()
