"""`Agents.Attach`: one stream for each agent. Its messages go to the registry through the loop, one after the other:
an agent that sends faster than the journal is written waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final, Protocol

import grpc

from weft.access.auth.identity import caller
from weft.access.wire import messages as m
from weft.errors import InputError, WeftError
from weft.server.nodes.outbox import Close
from weft.server.nodes.streams import Stream, Streams, end
from weft.server.rpc.handlers import handler

HELLO_TIMEOUT_S: Final = 30.0
"""The most seconds that a connection may be open before the agent sends Hello."""


class AgentLink(Protocol):
    """The receiver of all messages of agents. Connections are numbered."""

    streams: Streams

    async def receive(self, conn: int, message: m.AgentMessage) -> None:
        """Process a message. Return once the resulting events are on disk."""

    def disconnected(self, conn: int) -> None: ...


class Agents:
    """The gRPC service that agents connect to."""

    def __init__(self, link: AgentLink) -> None:
        self._link = link

    def handler(self) -> grpc.GenericRpcHandler:
        return handler({"Attach": self.attach}.__getitem__, "Agents")

    def disconnect(self) -> None:
        self._link.streams.close_all("UNAVAILABLE", "the scheduler is shutting down")

    async def attach(self, requests: AsyncIterator[m.AgentMessage], context: Any) -> None:
        link = self._link
        conn, stream = link.streams.add(caller())
        reading = asyncio.ensure_future(self._read(conn, stream, requests))
        writing = asyncio.ensure_future(stream.write(context))
        try:
            try:
                await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
            finally:
                reading.cancel()
                link.streams.remove(conn)
                link.disconnected(conn)
            await stream.finish(writing)
        finally:
            writing.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)
        if stream.end is not None:
            await end(context, stream.end)

    async def _read(self, conn: int, stream: Stream, requests: AsyncIterator[m.AgentMessage]) -> None:
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S) as deadline:
                async for message in requests:
                    if stream.end is not None:
                        return
                    if message.WhichOneof("is") == "hello":
                        deadline.reschedule(None)
                    await self._receive(conn, stream, message)
        except TimeoutError:
            stream.close(
                Close(conn, "DEADLINE_EXCEEDED", f"the agent did not send Hello within {HELLO_TIMEOUT_S:.0f} s")
            )
        except InputError as error:
            stream.close(Close(conn, "INVALID_ARGUMENT", str(error)))
        except WeftError as error:  # the journal could not be written: the message has no effect
            stream.close(Close(conn, "UNAVAILABLE", str(error)))
        except grpc.RpcError:
            return

    async def _receive(self, conn: int, stream: Stream, message: m.AgentMessage) -> None:
        is_hello, who = message.WhichOneof("is") == "hello", stream.who
        if is_hello and not who.may_register(message.hello.node.id):
            words = f"this token is for the node {who.node!r}, not {message.hello.node.id[:80]!r}"
            stream.close(Close(conn, "PERMISSION_DENIED", f"{words}: join again for this one, or use --id"))
        else:
            await self._link.receive(conn, message)
