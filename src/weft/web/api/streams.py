"""Server-sent events: changes for each open page, by topic. A page that does not read them loses them, not the memory.

Each message is encoded once for all pages.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

from weft.errors import Refused

MAX_STREAMS: Final = 2000
MAX_BACKLOG: Final = 32
"""Messages that wait for a page. With more, it starts over."""
HEARTBEAT_S: Final = 15.0
HEARTBEAT: Final = b": \n\n"
RESET: Final = b"event: reset\ndata: {}\n\n"


class Stream:
    def __init__(self, topics: tuple[str, ...]) -> None:
        self.topics = topics
        self.backlog: deque[bytes] = deque()
        self._news = asyncio.Event()

    def send(self, frame: bytes) -> None:
        if len(self.backlog) >= MAX_BACKLOG:
            self.backlog.clear()
            frame = RESET
        self.backlog.append(frame)
        self._news.set()

    async def wait(self) -> bool:
        """Wait for a message; return False if none came for a while."""
        try:
            await asyncio.wait_for(self._news.wait(), HEARTBEAT_S)
        except TimeoutError:
            return False
        self._news.clear()
        return True


class Streams:
    """The pages that are open."""

    def __init__(self) -> None:
        self._open: set[Stream] = set()
        self.closed = False

    def __len__(self) -> int:
        return len(self._open)

    def publish(self, messages: Mapping[str, bytes]) -> None:
        frames = {topic: b"event: %s\ndata: %s\n\n" % (topic.encode(), body) for topic, body in messages.items()}
        joined: dict[tuple[str, ...], bytes] = {}
        for stream in self._open:
            frame = joined.get(stream.topics)
            if frame is None:
                frame = joined[stream.topics] = b"".join(frames[topic] for topic in stream.topics if topic in frames)
            if frame:
                stream.send(frame)

    def check(self) -> None:
        """Raise if there are too many streams."""
        if len(self._open) >= MAX_STREAMS:
            raise Refused(f"{MAX_STREAMS} pages are open already\n  close some, or try again later")

    async def frames(self, topics: tuple[str, ...], first: bytes, is_valid: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Yield the messages for one page, for as long as its session is valid."""
        stream = Stream(topics)
        self._open.add(stream)
        try:
            yield first
            while not self.closed:
                if not await stream.wait():
                    if not is_valid():
                        return
                    yield HEARTBEAT
                while stream.backlog:
                    yield stream.backlog.popleft()
        finally:
            self._open.discard(stream)

    def close(self) -> None:
        """End all streams."""
        self.closed = True
        for stream in self._open:
            stream.send(RESET)
