"""Connections without calls: a server of a cluster closes them after a while, and has a limited number of them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from weft.errors import Refused
from weft.server.rpc import interceptor, joins

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
HEAD_BYTES = 9
SETTINGS, PING, ACK = 4, 6, 1
MAX_CONNECTIONS = 3


async def live(port: int) -> None:
    """Connect, and answer settings and pings until the server ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(PREFACE)
    with suppress(OSError, asyncio.IncompleteReadError):
        while head := await reader.readexactly(HEAD_BYTES):
            content = await reader.readexactly(int.from_bytes(head[:3]))
            if head[3] == PING and not head[4] & ACK:
                writer.write(b"\0\0\10\6\1\0\0\0\0" + content)
            elif head[3] == SETTINGS and not head[4] & ACK:
                writer.write(b"\0\0\0\4\1\0\0\0\0")
    writer.close()


@pytest.mark.parametrize(
    ("idle_ms", "ended"),
    [pytest.param(500, 2 * MAX_CONNECTIONS, id="all end"), pytest.param(60_000, MAX_CONNECTIONS, id="most stay")],
)
def test_connections_without_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idle_ms: int, ended: int) -> None:
    """Those beyond the limit end at once, the others when they have been idle."""

    async def play() -> None:
        gateway = interceptor.AuthGateway(tmp_path)
        server = gateway.server()
        port = gateway.listen(server, "127.0.0.1", 0)
        await server.start()
        left = {asyncio.create_task(live(port)) for _ in range(2 * MAX_CONNECTIONS)}
        async with asyncio.timeout(30.0):
            while len(left) > 2 * MAX_CONNECTIONS - ended:
                _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        assert len(left) == 2 * MAX_CONNECTIONS - ended
        await server.stop(None)
        await gateway.close()
        await asyncio.gather(*left)

    monkeypatch.setattr(interceptor, "IDLE_MS", idle_ms)
    monkeypatch.setattr(interceptor, "MAX_CONNECTIONS", MAX_CONNECTIONS)
    asyncio.run(play())


def test_few_joins_are_read_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others wait for them, but not for ever, and some are refused."""

    async def play() -> None:
        open_joins, entered = joins.Joins(), 0

        async def join() -> None:
            nonlocal entered
            await open_joins.enter()
            entered += 1
            await asyncio.Event().wait()

        calls = [asyncio.create_task(join()) for _ in range(joins.MAX_OPEN + 1)]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert entered == joins.MAX_READ
        assert [isinstance(call.exception(), Refused) for call in calls if call.done()] == [True]
        await asyncio.wait(calls, timeout=30.0)
        assert all(call.done() for call in calls)
        assert entered == joins.MAX_OPEN

    monkeypatch.setattr(joins, "TIMEOUT_S", 0.02)
    asyncio.run(play())
