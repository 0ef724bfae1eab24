"""Three pages for whatever watches a scheduler: /metrics, /healthz, /readyz. On this machine only, and to be read."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from weft.errors import WeftError
from weft.server.metrics import Counters, exposition

if TYPE_CHECKING:
    from weft.server.cluster import Cluster
    from weft.server.running import Running

HOST: Final = "127.0.0.1"
PATIENCE_S: Final = 10.0
LONGEST: Final = 8192
TEXT: Final = "text/plain; charset=utf-8"
PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
WORDS: Final = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}
Answer = tuple[int, str, str]


class Web:
    def __init__(self, running: Running, cluster: Cluster, counters: Counters) -> None:
        self._running, self._cluster, self._counters = running, cluster, counters
        self._server: asyncio.Server | None = None
        self.ready = False

    async def open(self, port: int) -> int:
        """The port it listens on; 0 takes a free one."""
        try:
            self._server = await asyncio.start_server(self._serve, HOST, port, limit=LONGEST)
        except OSError as error:
            raise WeftError(f"--metrics-port {port}: {error.strerror}\n  take another one") from None
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                code, kind, body = self._answer(await _head(reader))
                text = body.encode()
                head = f"HTTP/1.1 {code} {WORDS[code]}\r\nContent-Type: {kind}\r\nContent-Length: {len(text)}\r\n"
                writer.write(f"{head}Connection: close\r\n\r\n".encode() + text)
                await writer.drain()
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _answer(self, request: str) -> Answer:
        words = request.split(" ")
        if len(words) != 3:
            return 400, TEXT, "not a request\n"
        if words[0] != "GET":
            return 405, TEXT, "these pages are to be read\n"
        match words[1].partition("?")[0]:
            case "/metrics":
                return 200, PROMETHEUS, exposition(self._running, self._cluster, self._counters)
            case "/healthz":
                return 200, TEXT, "alive\n"
            case "/readyz":
                return self._readiness()
        return 404, TEXT, "there are /metrics, /healthz and /readyz\n"

    def _readiness(self) -> Answer:
        if not self.ready:
            return 503, TEXT, "not yet, or not any more\n"
        if self._running.policy_failed:
            return 503, TEXT, f"the policy failed: {self._running.policy_failed}\n"
        return 200, TEXT, "ready\n"


async def _head(reader: asyncio.StreamReader) -> str:
    """The first line; the others are read and not looked at."""
    head = await reader.readuntil(b"\r\n\r\n")
    return head.split(b"\r\n", 1)[0].decode("ascii")
