"""A replica that costs as little as possible: `python -m benchmarks.routing.replica DELAY_S CHUNKS GAP_S`.

It answers each request with the same body after a delay, or with a stream of events. It prints its port.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

MARK = b"the-end"
BODY = b'{"answer": "%b", "id": "' % (b"x" * 250) + MARK
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nServer: r\r\nContent-Length: %d\r\n\r\n%b" % (
    len(BODY),
    BODY,
)
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b'data: {"token": "word"}\n\n'
CHUNK = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)


class Replica(asyncio.Protocol):
    def __init__(self, delay_s: float, chunks: int, gap_s: float) -> None:
        self._delay_s, self._chunks, self._gap_s = delay_s, chunks, gap_s
        self._loop = asyncio.get_running_loop()
        self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, _data: bytes) -> None:
        """Answer: each read is one request, because its sender waits for the answer."""
        if self._left or _data[:4] not in (b"POST", b"GET "):
            return
        if self._chunks:
            self._left = self._chunks
            self._transport.write(STREAM)
            self._next_chunk()
        elif self._delay_s:
            self._loop.call_later(self._delay_s, self._transport.write, ANSWER)
        else:
            self._transport.write(ANSWER)

    def _next_chunk(self) -> None:
        self._left -= 1
        self._transport.write(CHUNK if self._left else CHUNK + b"0\r\n\r\n")
        if self._left:
            self._loop.call_later(self._gap_s, self._next_chunk)


async def main(delay_s: float, chunks: int, gap_s: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Replica(delay_s, chunks, gap_s), "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
