"""`Agents.Attach`: one stream for each agent. What it says goes to the roster by way of the loop, one message after the
other: an agent that talks faster than the journal is written waits."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

import grpc

from weft.errors import InputError, WeftError
from weft.server.api.rpc import handler
from weft.server.auth.identity import caller
from weft.server.nodes.outbox import Close
from weft.server.nodes.streams import Stream, end
from weft.wire import messages as m

if TYPE_CHECKING:
    from weft.server.cluster import Cluster

HELLO_S: Final = 30.0
"""So long a connection may be open before it says who it is."""
log = logging.getLogger(__name__)


class Agents:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def handler(self) -> grpc.GenericRpcHandler:
        return handler({"Attach": self.attach}.__getitem__, "Agents")

    async def attach(self, requests: AsyncIterator[m.AgentMessage], context: Any) -> None:
        cluster = self._cluster
        conn, stream = cluster.streams.add(caller())
        reading = asyncio.ensure_future(self._read(conn, stream, requests))
        writing = asyncio.ensure_future(stream.write(context))
        try:
            try:
                await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
            finally:
                reading.cancel()
                cluster.streams.remove(conn)
                cluster.gone(conn)
            await stream.finish(writing)
        finally:
            writing.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)
        if stream.end is not None:
            await end(context, stream.end)

    async def _read(self, conn: int, stream: Stream, requests: AsyncIterator[m.AgentMessage]) -> None:
        try:
            async with asyncio.timeout(HELLO_S) as patience:
                async for message in requests:
                    if stream.end is not None:
                        return
                    if message.WhichOneof("is") == "hello":
                        patience.reschedule(None)
                    await self._take(conn, stream, message)
        except TimeoutError:
            stream.close(Close(conn, "DEADLINE_EXCEEDED", f"it did not say hello within {HELLO_S:.0f} s"))
        except InputError as error:
            stream.close(Close(conn, "INVALID_ARGUMENT", str(error)))
        except WeftError as error:  # the journal could not be written: what was said was not heard
            stream.close(Close(conn, "UNAVAILABLE", str(error)))
        except grpc.RpcError:
            return

    async def _take(self, conn: int, stream: Stream, message: m.AgentMessage) -> None:
        cluster = self._cluster
        match message.WhichOneof("is"):
            case "hello" if stream.who.role == "worker" and stream.who.node != message.hello.node.id:
                words = f"this token is for the node {stream.who.node!r}, not {message.hello.node.id[:80]!r}"
                stream.close(Close(conn, "PERMISSION_DENIED", f"{words}: join again for this one, or use --id"))
            case "progress":
                self._progress(conn, message.progress)
            case "log":
                cluster.pulls.answered(conn, message.log)
            case "tail":
                await cluster.keep(conn, message.tail)
            case "kept":
                cluster.forget_unknown(conn, message.kept)
            case _:
                await cluster.take(conn, message)

    def _progress(self, conn: int, said: m.Progress) -> None:
        if not self._cluster.roster.speaks_for(conn, said.job, said.run):
            return
        try:
            self._cluster.progress({**json.loads(said.json), "job": said.job, "run": said.run})
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, OSError):
            log.debug("job %s reports progress that makes no sense", said.job)
