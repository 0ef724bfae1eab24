"""The terminals of runs on this node: each one joined to a stream to the scheduler."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator
from typing import Final

import grpc.aio

from weft.agent.connection import Dial
from weft.engines.process.shim.terminal import SOCKET
from weft.wire.messages import ServeTerminal, TerminalPart
from weft.wire.service import call

CONNECT_TIMEOUT_S: Final = 30.0
RETRY_S: Final = 0.05
CHUNK_BYTES: Final = 1 << 15
log = logging.getLogger(__name__)


async def serve_terminal(dial: Dial, folder: str, order: ServeTerminal) -> None:
    """Join the terminal of a run, whose folder this is, to a new stream to the scheduler, until one of them ends."""
    try:
        reader, writer = await _connect(folder)
    except OSError as error:
        log.warning("job %s, run %d: no terminal: %s", order.job, order.run, error)
        return
    scheduler = dial()
    try:
        stream = call(scheduler.channel, "ServeTerminal", "Terminals")(
            _output(reader, order.key), metadata=tuple(scheduler.metadata)
        )
        async for part in stream:
            writer.write(part.data)
            await writer.drain()
    except (grpc.aio.AioRpcError, OSError) as error:
        log.info("job %s, run %d: the terminal was disconnected: %s", order.job, order.run, error)
    finally:
        writer.close()
        await scheduler.channel.close()


async def _output(reader: asyncio.StreamReader, key: str) -> AsyncIterator[TerminalPart]:
    yield TerminalPart(key=key)
    while data := await reader.read(CHUNK_BYTES):
        yield TerminalPart(data=data)


async def _connect(folder: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the terminal of a run; wait for a run that has just started."""
    until = time.monotonic() + CONNECT_TIMEOUT_S
    while True:
        try:
            directory = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                return await asyncio.open_unix_connection(f"/proc/self/fd/{directory}/{SOCKET}")
            finally:
                os.close(directory)
        except OSError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(RETRY_S)
