"""Senders of requests that cost little: `python -m benchmarks.routing.sender KIND PORT PATH N COUNT`.

`closed`: each of N connections sends its next request when it has its answer, COUNT in total; COUNT 0: until it is
killed. `streams`: the same for streams. `probe`: one request after the other with a pause; prints the wall time of
each, and the CPU time that the process N spends meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import cast

from benchmarks.routing.replica import EVENT, MARK

BODY = json.dumps({"prompt": "x" * 600, "max_tokens": 16}).encode()
PAUSE_S = 0.004


def request(path: str) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\nAccept: */*\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n".encode() + BODY


class Closed(asyncio.Protocol):
    """One connection, one request at a time. It opens again where the server closes it after each answer."""

    def __init__(self, total: Total) -> None:
        self._total, self._tail = total, b""
        self._waits = self._closes = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self) -> None:
        if self._total.left != 0:
            self._total.left -= 1
            self._waits = True
            self._transport.write(self._total.request)

    def data_received(self, data: bytes) -> None:
        total = self._total
        total.events += data.count(EVENT)
        self._closes = self._closes or b"Connection: close" in data
        self._tail = (self._tail + data)[-len(total.end) :]
        if self._tail == total.end:
            self._tail, self._waits = b"", False
            total.answered += 1
            total.check()
            if not self._closes:
                self.send()

    def connection_lost(self, _error: Exception | None) -> None:
        self._total.lost += self._waits
        self._total.check()
        if self._total.left != 0:
            self._total.tasks.append(asyncio.ensure_future(self._total.open()))


class Total:
    """The requests of all connections."""

    def __init__(self, port: int, path: str, count: int, end: bytes) -> None:
        self.port, self.request, self.count, self.left, self.end = port, request(path), count, count or -1, end
        self.answered = self.lost = self.events = 0
        self.done = asyncio.Event()
        self.tasks: list[asyncio.Future[None]] = []

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(lambda: Closed(self), "127.0.0.1", self.port)
        protocol.send()

    def check(self) -> None:
        if self.count and self.answered + self.lost >= self.count:
            self.done.set()


async def send_closed(port: int, path: str, connections: int, count: int, end: bytes) -> dict[str, float]:
    total = Total(port, path, count, end)
    await asyncio.gather(*(total.open() for _ in range(connections)))
    began = time.monotonic()
    await total.done.wait()
    total.left = 0
    return {"answered": total.answered, "events": total.events, "seconds": time.monotonic() - began}


async def probe(port: int, path: str, pid: int, count: int) -> list[tuple[float, float]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found, data, clock = [], request(path), cpu_clock(pid)
    for _ in range(count):
        await asyncio.sleep(PAUSE_S)
        cpu_s, wall_s = time.clock_gettime(clock), time.perf_counter()
        writer.write(data)
        await reader.readuntil(MARK)
        found.append((time.perf_counter() - wall_s, time.clock_gettime(clock) - cpu_s))
    writer.close()
    return found


def cpu_clock(pid: int) -> int:
    """Return the clock of a process's CPU time, as clock_getcpuclockid(3) does."""
    return (~pid << 3) | 2


def main(kind: str, port: int, path: str, number: int, count: int) -> None:
    if kind == "probe":
        print(json.dumps(asyncio.run(probe(port, path, number, count))))
    else:
        end = MARK if kind == "closed" else b"0\r\n\r\n"
        print(json.dumps(asyncio.run(send_closed(port, path, number, count, end))))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
