"""A refused call leaves nothing in the memory of the server, although gRPC refers to the error of the refusal."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any
from weakref import WeakSet

import grpc.aio
import pytest

from weft.access.wire import messages as m
from weft.access.wire.service import PREFIX, SERVICES
from weft.errors import NotFound
from weft.server.rpc.errors import abort
from weft.server.rpc.handlers import handler, scheduler_handler

CALLS = 3
SERVICES_OF = {"Query": "Scheduler", "Watch": "Scheduler", "ServeTerminal": "Terminals"}


class Work:
    """An object in the variables of the code that answers a request."""


@pytest.fixture
def no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("name", SERVICES_OF)
@pytest.mark.usefixtures("no_collections")
def test_a_refused_call_keeps_nothing(name: str) -> None:
    alive: WeakSet[Work] = WeakSet()

    def refuse() -> None:
        work = Work()
        alive.add(work)
        error = NotFound("no such job")
        raise error  # refers to itself through this frame

    async def query(_: m.QueryRequest) -> m.JsonReply:
        refuse()
        return m.JsonReply()

    async def watch(_: m.WatchRequest) -> AsyncIterator[m.FactLine]:
        refuse()
        yield m.FactLine()

    async def serve(parts: AsyncIterator[m.TerminalPart], context: Any) -> None:
        await anext(parts)
        try:
            refuse()
        except NotFound as error:
            await abort(context, error)

    async def play() -> None:
        server = grpc.aio.server()
        unused = dict.fromkeys(SERVICES["Scheduler"], query)
        server.add_generic_rpc_handlers((
            scheduler_handler({**unused, "Query": query, "Watch": watch}),
            handler({"OpenTerminal": serve, "ServeTerminal": serve}.__getitem__, "Terminals"),
        ))  # fmt: skip
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            for _ in range(CALLS):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await ask(channel, name)
                assert caught.value.code() == grpc.StatusCode.NOT_FOUND
            for _ in range(100):
                if not alive and not receivers():
                    break
                await asyncio.sleep(0.05)
        left = len(alive) + len(receivers())
        await server.stop(None)
        assert not left

    asyncio.run(play())


def receivers() -> list[object]:
    """Return what reads the requests of streams: each has the last message as bytes."""
    return [each for each in gc.get_objects() if type(each).__name__ == "_MessageReceiver"]


async def ask(channel: Any, name: str) -> None:
    path = f"/{PREFIX}{SERVICES_OF[name]}/{name}"
    if name == "Query":
        await channel.unary_unary(path)(b"")
    elif name == "Watch":
        await channel.unary_stream(path)(b"").read()
    else:
        await channel.stream_stream(path)(iter([b""])).read()
