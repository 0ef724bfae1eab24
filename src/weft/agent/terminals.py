"""The terminals of runs on this node, and commands next to runs: each one joined to a stream to the scheduler."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import grpc.aio

from weft.agent.connection import Dial
from weft.engines.process.container.entry import entry_of_run
from weft.engines.process.leader_command import TERMINAL_SCRIPT
from weft.engines.process.shim import run_files
from weft.engines.process.shim.containers import outer_directory
from weft.engines.process.shim.terminal import SOCKET
from weft.engines.process.users import command_as
from weft.wire.messages import ServeTerminal, TerminalPart
from weft.wire.service import call

CONNECT_TIMEOUT_S: Final = 30.0
RETRY_S: Final = 0.05
POLL_S: Final = 0.5
GRACE_S: Final = 5.0
"""Time between SIGTERM and SIGKILL for a command whose run or client has gone."""
CHUNK_BYTES: Final = 1 << 15
NOT_EXECUTABLE: Final = 126
log = logging.getLogger(__name__)


async def serve_terminal(dial: Dial, folder: str, order: ServeTerminal) -> None:
    """Join the terminal of a run, whose folder this is, to a new stream to the scheduler, until one of them ends."""
    try:
        reader, writer = await _connect(folder)
    except OSError as error:
        log.warning("job %s, run %d: no terminal: %s", order.job, order.run, error)
        return
    await _join(dial, order, _output(reader, order.key), writer)


async def serve_command(dial: Dial, folder: str, order: ServeTerminal) -> None:
    """Run a command next to a run, whose folder this is, for a client of the scheduler."""
    at = f"{folder}/exec-{order.key[:8]}"
    try:
        spec = run_files.read_object(f"{folder}/{run_files.SPEC}") or {}
        ours: socket.socket | None = None
        if spec["account"] is None:
            os.mkdir(at, 0o700)
            process = await _start(at, folder, order, spec)
        else:
            process, ours = await command_as.start(spec, order.command, order.terminal)
    except (OSError, ValueError, KeyError) as error:
        await _join(dial, order, _failure(order.key, f"weft: cannot run the command: {error}\n"))
        return
    ending = asyncio.ensure_future(_end_with_run(process, f"{folder}/{run_files.EXIT}"))
    try:
        reader, writer = await (_connect(at) if ours is None else asyncio.open_unix_connection(sock=ours))
        await _join(dial, order, _output(reader, order.key, process.wait), writer)
    except OSError as error:
        log.warning("job %s, run %d: no command: %s", order.job, order.run, error)
    finally:
        ending.cancel()
        await _end(process)
        with suppress(OSError):
            os.rmdir(at)


async def _start(at: str, folder: str, order: ServeTerminal, spec: dict[str, Any]) -> asyncio.subprocess.Process:
    """Start the command with the environment and in the directory of the run; its socket is in `at`."""
    pipe = () if order.terminal else ("--pipe",)
    env = {**spec["env"], **({"TERM": order.terminal} if order.terminal else {})}
    command = list(order.command)
    if spec.get("container"):
        command, env = entry_of_run(folder, spec, command, terminal=bool(order.terminal))
    null = asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", TERMINAL_SCRIPT, "--at", at, *pipe, "--", *command, env=env,
        cwd=outer_directory(spec), umask=spec["umask"], stdin=null, stdout=null, stderr=null,
        start_new_session=True,
    )  # fmt: skip


async def _end_with_run(process: asyncio.subprocess.Process, exit_record: str) -> None:
    while not os.path.exists(exit_record):
        await asyncio.sleep(POLL_S)
    await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), GRACE_S)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _join(
    dial: Dial, order: ServeTerminal, output: AsyncIterator[TerminalPart], writer: asyncio.StreamWriter | None = None
) -> None:
    """Send output on a new stream to the scheduler, and write what comes from there, until one of them ends."""
    scheduler = dial()
    try:
        stream = call(scheduler.channel, "ServeTerminal", "Terminals")(output, metadata=tuple(scheduler.metadata))
        async for part in stream:
            if writer is not None:
                writer.write(part.data)
                await writer.drain()
    except (grpc.aio.AioRpcError, OSError) as error:
        log.info("job %s, run %d: the terminal was disconnected: %s", order.job, order.run, error)
    finally:
        if writer is not None:
            writer.close()
        await scheduler.channel.close()


async def _output(
    reader: asyncio.StreamReader, key: str, exit_code: Callable[[], Awaitable[int]] | None = None
) -> AsyncIterator[TerminalPart]:
    yield TerminalPart(key=key)
    while data := await reader.read(CHUNK_BYTES):
        yield TerminalPart(data=data)
    if exit_code is not None:
        code = await exit_code()
        yield TerminalPart(exit_code=code if code >= 0 else 128 - code)


async def _failure(key: str, text: str) -> AsyncIterator[TerminalPart]:
    yield TerminalPart(key=key)
    yield TerminalPart(data=text.encode(errors="replace"), exit_code=NOT_EXECUTABLE)


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
