"""The terminals of runs on this node, and commands next to runs: each one joined to a stream to the scheduler."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, Final

import grpc.aio

from weft.access.wire.messages import ServeTerminal, TerminalPart
from weft.access.wire.service import call
from weft.node.agent.connection import Dial
from weft.node.engine.container.entry import entry_of_run
from weft.node.engine.leader_command import TERMINAL_SCRIPT
from weft.node.engine.shim import run_files
from weft.node.engine.shim.containers import outer_directory
from weft.node.engine.shim.terminal import SOCKET
from weft.node.engine.users import command_as

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
        sock = await _connect(folder)
    except OSError as error:
        log.warning("job %s, run %d: no terminal: %s", order.job, order.run, error)
        return
    await _join(dial, order, sock)


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
        async for _ in _converse(dial, order, _failure(order.key, f"weft: cannot run the command: {error}\n")):
            pass
        return
    ending = asyncio.ensure_future(_end_with_run(process, f"{folder}/{run_files.EXIT}"))
    try:
        sock = ours or await _connect(at)
        await _join(dial, order, sock, process.wait)
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


class _Output:
    """The output of a command, read from its socket until one of them ends."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._parts: asyncio.Queue[bytes] = asyncio.Queue(1)
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        with suppress(OSError):  # reset: the command has ended without reading all of its input
            while data := await asyncio.get_running_loop().sock_recv(self._sock, CHUNK_BYTES):
                await self._parts.put(data)
        await self._parts.put(b"")

    async def parts(
        self, key: str, exit_code: Callable[[], Awaitable[int]] | None = None
    ) -> AsyncIterator[TerminalPart]:
        yield TerminalPart(key=key)
        while data := await self._parts.get():
            yield TerminalPart(data=data)
        if exit_code is not None:
            code = await exit_code()
            yield TerminalPart(exit_code=code if code >= 0 else 128 - code)

    async def end(self) -> None:
        """Stop reading, and end the parts."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        while not self._parts.empty():
            self._parts.get_nowait()
        self._parts.put_nowait(b"")


async def _join(
    dial: Dial, order: ServeTerminal, sock: socket.socket, exit_code: Callable[[], Awaitable[int]] | None = None
) -> None:
    """Join a socket to a new stream to the scheduler until one of them ends. The socket is closed then."""
    output, loop, reads = _Output(sock), asyncio.get_running_loop(), True
    try:
        async with aclosing(_converse(dial, order, output.parts(order.key, exit_code))) as received:
            async for data in received:
                try:
                    if reads:
                        await loop.sock_sendall(sock, data)
                except OSError:
                    reads = False  # the command has ended; its last output and its exit code are still on their way
    finally:
        try:
            await output.end()
        finally:
            sock.close()


async def _converse(
    dial: Dial, order: ServeTerminal, parts: AsyncIterator[TerminalPart]
) -> AsyncGenerator[bytes, None]:
    """Send parts on a new stream to the scheduler, and yield the data that comes from there."""
    scheduler = dial()
    try:
        async for part in call(scheduler.channel, "ServeTerminal", "Terminals")(
            parts, metadata=tuple(scheduler.metadata)
        ):
            yield part.data
    except grpc.aio.AioRpcError as error:
        log.info("job %s, run %d: the terminal was disconnected: %s", order.job, order.run, error)
    finally:
        await scheduler.channel.close()


async def _failure(key: str, text: str) -> AsyncIterator[TerminalPart]:
    yield TerminalPart(key=key)
    yield TerminalPart(data=text.encode(errors="replace"), exit_code=NOT_EXECUTABLE)


async def _connect(folder: str) -> socket.socket:
    """Connect to the terminal of a run; wait for a run that has just started."""
    until = time.monotonic() + CONNECT_TIMEOUT_S
    while True:
        sock = socket.socket(socket.AF_UNIX)
        sock.setblocking(False)
        try:
            directory = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                await asyncio.get_running_loop().sock_connect(sock, f"/proc/self/fd/{directory}/{SOCKET}")
                return sock
            finally:
                os.close(directory)
        except BaseException as error:
            sock.close()
            if not isinstance(error, OSError) or time.monotonic() > until:
                raise
            await asyncio.sleep(RETRY_S)
