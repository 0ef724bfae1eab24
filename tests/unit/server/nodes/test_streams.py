"""The queue of messages to an agent, and the end of its stream."""

from __future__ import annotations

import asyncio

from weft.access.auth.identity import Caller
from weft.access.wire.messages import HeartbeatReply, SchedulerMessage
from weft.server.nodes import streams
from weft.server.nodes.outbox import Close
from weft.server.nodes.streams import Stream

ADA = Caller("ada", "worker", "n0")


class Slow:
    """An end that reads when it is let to."""

    def __init__(self) -> None:
        self.read = asyncio.Event()
        self.got: list[int] = []

    async def write(self, message: SchedulerMessage) -> None:
        await self.read.wait()
        self.got.append(message.heartbeat.epoch)


def heartbeat(epoch: int) -> SchedulerMessage:
    return SchedulerMessage(heartbeat=HeartbeatReply(epoch=epoch))


def test_it_ends_only_when_what_is_under_way_has_been_written() -> None:
    async def scene() -> None:
        stream, slow = Stream(ADA), Slow()
        stream.send(heartbeat(1))
        stream.send(heartbeat(2))
        writing = asyncio.ensure_future(stream.write(slow))
        await asyncio.sleep(0)
        finishing = asyncio.ensure_future(stream.finish(writing))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not finishing.done()
        slow.read.set()
        await finishing
        assert slow.got == [1]  # the other was only in line

    asyncio.run(scene())


def test_what_is_in_line_goes_before_the_status_that_ends_it() -> None:
    async def scene() -> None:
        stream, slow = Stream(ADA), Slow()
        slow.read.set()
        for epoch in (1, 2, 3):
            stream.send(heartbeat(epoch))
        stream.close(Close(1, "ABORTED", "words"))
        writing = asyncio.ensure_future(stream.write(slow))
        await stream.finish(writing)
        assert slow.got == [1, 2, 3]

    asyncio.run(scene())


def test_what_nobody_reads_does_not_pile_up() -> None:
    async def scene() -> None:
        stream = Stream(ADA)
        for epoch in range(streams.MAX_QUEUED_MESSAGES + 5):
            stream.send(heartbeat(epoch))
        assert stream.dropped == 5

    asyncio.run(scene())
