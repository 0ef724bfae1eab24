"""Calls on the unix socket of a user's scheduler, in the framing of `access.wire.frames`.

One connection carries one call. A client that goes away cancels it. Only the owner of the process and root may
connect: the folder and the socket are closed to others, and the kernel names the user of each connection.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

from weft.access.auth.identity import owner, set_caller
from weft.access.wire import frames
from weft.access.wire.failures import encode_error
from weft.access.wire.service import MAX_MESSAGE_BYTES, SCHEDULER
from weft.errors import InputError, NotPermitted, WeftError
from weft.server.rpc.cut_off import cut_reason
from weft.server.rpc.protocol_version import check_protocol
from weft.server.rpc.requests import check_size, decode

BACKLOG: Final = 4096
REQUEST_TIMEOUT_S: Final = 10.0
"""The most seconds that a client may take to send its request."""
MAX_UNSENT_BYTES: Final = 1 << 20
"""The most bytes that a client may leave unread before a stream pauses."""
MAX_ERROR_CHARS: Final = 500
FLUSH_TIMEOUT_S: Final = 30.0
"""Time for a client that was cut off to read what was sent, and why."""
_CREDENTIALS: Final = struct.Struct("3i")
Method = Callable[[Any], Any]
log = logging.getLogger(__name__)


class UnixSocketServer:
    """Serves these methods, by their names in the Scheduler service."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self.methods = methods
        self.connections: set[Connection] = set()
        self._server: asyncio.Server | None = None

    async def open(self, path: Path) -> None:
        loop = asyncio.get_running_loop()
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listening.bind(str(path))
        finally:
            os.umask(before)
        self._server = await loop.create_unix_server(lambda: Connection(self), sock=listening, backlog=BACKLOG)

    async def close(self, grace_s: float) -> None:
        """Accept no more calls, give open ones `grace_s`, then end them."""
        if self._server is not None:
            self._server.close()
        calls = [each.task for each in self.connections if each.task is not None]
        if calls:
            await asyncio.wait(calls, timeout=grace_s)
        for each in list(self.connections):
            each.end()
        if left := [task for task in calls if not task.done()]:
            await asyncio.wait(left, timeout=grace_s)


class Connection(asyncio.Protocol):
    def __init__(self, server: UnixSocketServer) -> None:
        self._server = server
        self._buffer = bytearray()
        self._head: frames.Head | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self.task: asyncio.Task[None] | None = None

    # ---- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(MAX_UNSENT_BYTES)
        self._server.connections.add(self)
        self._deadline = asyncio.get_running_loop().call_later(REQUEST_TIMEOUT_S, self._expire)
        if not _is_allowed(transport):
            self._fail(NotPermitted("this scheduler belongs to another user\n  weft up starts one of yours"))

    def data_received(self, data: bytes) -> None:
        if self.task is not None or self._transport.is_closing():
            self.end()  # one call per connection
            return
        self._buffer += data
        try:
            self._begin()
        except frames.ProtocolError:
            self._buffer = bytearray()
            self._transport.abort()
        except WeftError as error:
            self._fail(error)

    def eof_received(self) -> bool:
        self.end()
        return False

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self._server.connections.discard(self)
        self._deadline.cancel()
        self._can_write.set()
        self.end()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    # ---- the call

    def _begin(self) -> None:
        """Start the call once its request is complete. Refuse it as soon as its head shows that it must be."""
        head = self._head = self._head or frames.decode_head(self._buffer)
        if head is None:
            return
        check_protocol({"weft-protocol": str(head.protocol)})
        method = SCHEDULER.get(head.method)
        if method is None:
            raise InputError(f"there is no method {head.method!r}", hint="bring both ends to the same version of Weft")
        check_size(method, head.size)
        missing = head.start + head.size - len(self._buffer)
        if missing < 0:
            raise frames.ProtocolError
        if missing == 0:
            self._deadline.cancel()
            content = bytes(self._buffer[head.start :])
            self._buffer = bytearray()
            self.task = asyncio.get_running_loop().create_task(self._answer(head.method, content))

    async def _answer(self, name: str, content: bytes) -> None:
        set_caller(owner())
        try:
            await self._run(name, await decode(SCHEDULER[name], content))
        except WeftError as error:
            self._send(frames.ERROR, encode_error(error).encode())
        except asyncio.CancelledError:
            if (reason := cut_reason()) is None:
                self._transport.abort()
                raise
            self._send(frames.ERROR, encode_error(reason).encode())
            asyncio.get_running_loop().call_later(FLUSH_TIMEOUT_S, self._transport.abort)
        except Exception as error:
            log.exception("%s failed", name)
            self._send(frames.ERROR, f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARS].encode(errors="replace"))
        self._transport.close()

    async def _run(self, name: str, request: Any) -> None:
        method = self._server.methods[name]
        if SCHEDULER[name].kind == "unary":
            self._send(frames.MESSAGE, (await method(request)).SerializeToString())
            return
        async with aclosing(method(request)) as replies:
            async for reply in replies:
                self._send(frames.MESSAGE, reply.SerializeToString())
                await self._can_write.wait()
        self._send(frames.END)

    def _send(self, kind: bytes, body: bytes = b"") -> None:
        if len(body) > MAX_MESSAGE_BYTES:
            raise InputError(f"the answer would have {len(body) >> 20:,} MB", hint="ask for less: --limit")
        if not self._transport.is_closing():
            self._transport.write(frames.encode_frame(kind, body))

    # ---- ends

    def end(self) -> None:
        """Drop the connection and cancel its call."""
        if self.task is not None and not self.task.done():
            self.task.cancel()
        else:
            self._transport.close()

    def _expire(self) -> None:
        self._fail(InputError(f"no request came within {REQUEST_TIMEOUT_S:.0f} s", hint="send it at once"))

    def _fail(self, error: WeftError) -> None:
        self._buffer = bytearray()
        self._send(frames.ERROR, encode_error(error).encode())
        self._transport.close()


def _is_allowed(transport: asyncio.Transport) -> bool:
    line = transport.get_extra_info("socket")
    _, user, _ = _CREDENTIALS.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return user in (0, os.geteuid())
