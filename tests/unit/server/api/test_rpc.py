"""Bytes that are no message, at a real server."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio
import pytest

from weft.access.wire.messages import BlobName, BlobPart
from weft.access.wire.service import PREFIX
from weft.errors import InputError
from weft.server.rpc.errors import abort
from weft.server.rpc.handlers import handler

GARBAGE = b"\xff\xff\xff\xff"


class Echo:
    async def put(self, parts: AsyncIterator[BlobPart], context: Any) -> BlobName:
        try:
            return BlobName(sha256=" ".join([part.sha256 async for part in parts]))
        except InputError as error:
            await abort(context, error)

    async def get(self, name: BlobName, _context: Any) -> AsyncIterator[BlobPart]:
        yield BlobPart(sha256=name.sha256)


async def asked(method: str, *sent: bytes) -> bytes:
    server, echo = grpc.aio.server(), Echo()
    methods: dict[str, Callable[..., Any]] = {"Put": echo.put, "Get": echo.get}
    server.add_generic_rpc_handlers((handler(methods.__getitem__, "Blobs"),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as line:
            put: Any = line.stream_stream(f"/{PREFIX}Blobs/{method}")
            return b"".join([reply async for reply in put(iter(sent), timeout=60.0)])
    finally:
        await server.stop(grace=None)


def test_messages_are_read_and_answered() -> None:
    words = [BlobPart(sha256=word).SerializeToString() for word in ("a", "b")]
    assert BlobName.FromString(asyncio.run(asked("Put", *words))).sha256 == "a b"
    assert BlobPart.FromString(asyncio.run(asked("Get", BlobName(sha256="c").SerializeToString()))).sha256 == "c"


@pytest.mark.parametrize(("method", "kind"), [("Put", "BlobPart"), ("Get", "BlobName")])
def test_garbage_is_refused_with_words_and_without_a_fuss(
    method: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        asyncio.run(asked(method, GARBAGE))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    said = json.loads(caught.value.details() or "")
    assert kind in said["what"]
    assert "same version" in said["hint"]
    assert "Traceback" not in caplog.text
