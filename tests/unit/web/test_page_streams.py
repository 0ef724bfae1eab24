"""Streams of changes: a page that never reads costs a limited amount of memory, and starts over when it reads again."""

from __future__ import annotations

import asyncio

import pytest

from weft.errors import Refused
from weft.web.api import streams
from weft.web.api.streams import MAX_BACKLOG, RESET, Streams


async def opened(made: Streams, *topics: str) -> object:
    frames = made.frames(topics, b"first", lambda: True)
    assert await anext(frames) == b"first"
    return frames


def test_a_page_that_does_not_read_loses_messages_and_starts_over() -> None:
    async def drive() -> None:
        made = Streams()
        slow, fast = await opened(made, "jobs"), await opened(made, "jobs", "gpus")
        for at in range(10 * MAX_BACKLOG):
            made.publish({"jobs": b"%d" % at, "other": b"x" * 1000})
            assert await anext(fast) == b"event: jobs\ndata: %d\n\n" % at  # type: ignore[call-overload]
            (waiting,) = [len(each.backlog) for each in made._open if each.topics == ("jobs",)]
            assert waiting <= MAX_BACKLOG
        assert await anext(slow) == RESET  # type: ignore[call-overload]
        made.close()

    asyncio.run(drive())


def test_a_message_is_encoded_once_and_shared() -> None:
    async def drive() -> None:
        made = Streams()
        pages = [await opened(made, "jobs") for _ in range(50)]
        made.publish({"jobs": b"x" * 1000})
        assert len({id(each.backlog[0]) for each in made._open}) == 1
        assert len(pages) == len(made) == 50
        for each in pages:
            await each.aclose()  # type: ignore[attr-defined]
        assert len(made) == 0

    asyncio.run(drive())


def test_the_number_of_pages_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_STREAMS", 2)

    async def drive() -> None:
        made = Streams()
        made.check()
        pages = [await opened(made, "jobs") for _ in range(2)]
        with pytest.raises(Refused, match="pages are open already"):
            made.check()
        assert pages

    asyncio.run(drive())


def test_a_stream_ends_with_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.01)

    async def drive() -> None:
        made, valid = Streams(), [True]
        frames = made.frames(("jobs",), b"first", lambda: valid[0])
        assert [await anext(frames), await anext(frames)] == [b"first", streams.HEARTBEAT]
        valid[0] = False
        with pytest.raises(StopAsyncIteration):
            await anext(frames)
        assert len(made) == 0

    asyncio.run(drive())
