"""Events of gRPC in a busy loop: a turn handles all that have come, not one of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import grpc.aio

from weft.server.process import event_loop

STREAMS, MESSAGES = 20, 400
TURN_S = 0.001


async def stream(_request: bytes, _context: Any) -> AsyncIterator[bytes]:
    for _ in range(MESSAGES):
        yield b"fact"


def read_stream(port: int) -> int:
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        call: Any = channel.unary_stream("/t/Stream")
        return len(list(call(b"")))


def test_many_streams_take_fewer_turns_than_they_have_messages() -> None:
    async def serve() -> int:
        server = grpc.aio.server()
        methods: dict[str, Any] = {"Stream": grpc.unary_stream_rpc_method_handler(stream)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t", methods),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        turns, loop = 0, asyncio.get_running_loop()
        with ThreadPoolExecutor(STREAMS) as threads:
            readers = [loop.run_in_executor(threads, read_stream, port) for _ in range(STREAMS)]
            while not all(reader.done() for reader in readers):
                turns += 1
                time.sleep(TURN_S)  # the loop has other work in each turn
                await asyncio.sleep(0)
        assert [reader.result() for reader in readers] == [MESSAGES] * STREAMS
        await server.stop(None)
        return turns

    assert event_loop.run(serve()) < STREAMS * MESSAGES
