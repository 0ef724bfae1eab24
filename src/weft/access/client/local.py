"""The transport to this user's scheduler: a unix socket. It starts a scheduler if none runs."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from weft.access.client.transport import foreign_error, timeout_error
from weft.access.endpoints.paths import Paths, recorded_paths
from weft.access.wire import frames
from weft.access.wire.failures import decode_error
from weft.access.wire.service import method_of
from weft.errors import Unreachable, WeftError

START_TIMEOUT_S: Final = 20.0
"""Time within which a scheduler must start."""
RESTART_TIMEOUT_S: Final = 10.0
"""Time to wait for the end or the restart of a scheduler that no longer answers."""
RETRY_S: Final = 0.005
"""Delay between attempts to connect while the scheduler's backlog of connections is full."""
CHUNK_BYTES: Final = 256 << 10


class LocalTransport:
    """Opens one connection per call: threads do not share connections, and closing one cancels its call."""

    def __init__(self, paths: Paths, *, start: bool) -> None:
        self.paths, self._may_start = paths, start
        self._open: set[_Connection] = set()

    @property
    def advice(self) -> str:
        return f"its log: {self.paths.server_log}"

    def open(self) -> None:
        self.paths.check_private()
        if not self.paths.answers():
            if not self._may_start:
                raise Unreachable("no scheduler is running\n  weft up starts one; so does weft submit")
            start_scheduler(self.paths)
        if suspended := self.paths.suspended_pid():
            raise Unreachable(f"the scheduler (pid {suspended}) is suspended\n  resume it: kill -CONT {suspended}")

    def close(self) -> None:
        """End the calls that other threads make: a stream may wait for long."""
        for connection in list(self._open):
            connection.shut_down()

    def call(self, name: str, request: Any, timeout_s: float) -> Any:
        for reply in self.stream(name, request, timeout_s):
            return reply
        raise self._gone("it ended the call without an answer")

    def stream(self, name: str, request: Any, timeout_s: float | None = None) -> Iterator[Any]:
        method = method_of(name)
        message = frames.encode_request(name, request.SerializeToString())
        with _Connection(self.paths, timeout_s) as connection:
            self._open.add(connection)
            try:
                connection.send(message)
                while True:
                    kind, body = connection.read_frame()
                    if kind == frames.END:
                        return
                    if kind == frames.ERROR:
                        raise self._error_of(body.decode(errors="replace"))
                    yield method.reply.FromString(body)
                    if method.kind == "unary":
                        return
            except TimeoutError:
                raise timeout_error(timeout_s, self.advice) from None
            except (OSError, EOFError) as error:
                raise self._gone(str(error)) from None
            except frames.ProtocolError:
                raise foreign_error("it does not speak this protocol", self._replace_hint()) from None
            finally:
                self._open.discard(connection)

    def upload(self, name: str, requests: Iterator[Any], timeout_s: float) -> Any:  # noqa: ARG002
        """Write the blob where the scheduler of this user looks for it: its folder is on this machine."""
        from weft.access.endpoints.blob_folder import store_blob

        parts = list(requests)
        sha256 = parts[0].sha256
        store_blob(self.paths.blobs, sha256, b"".join(part.bytes for part in parts))
        return method_of(name).reply(sha256=sha256)

    def converse(self, name: str, requests: Iterator[Any]) -> Iterator[Any]:  # noqa: ARG002
        raise WeftError(f"{name} needs the scheduler of a cluster\n  name one: --scheduler HOST:PORT")

    def is_hopeless(self, *, has_answered: bool) -> bool:  # noqa: ARG002
        return not self._may_start and not self.paths.answers()

    def await_scheduler(self) -> None:
        until = time.monotonic() + RESTART_TIMEOUT_S
        while not self.paths.answers():
            pid = self.paths.lock_text()
            if not pid.isdecimal():
                raise Unreachable("the scheduler was stopped\n  jobs keep running; weft up starts a scheduler again")
            if not os.path.exists(f"/proc/{pid}") or time.monotonic() > until:
                break
            time.sleep(0.02)

    def _gone(self, details: str) -> Unreachable:
        return Unreachable(f"the scheduler at {self.paths.socket} does not answer: {details}\n  {self.advice}")

    def _error_of(self, text: str) -> WeftError:
        return decode_error(text) or WeftError(f"the scheduler failed: {text[:500]}\n  {self.advice}")

    def _replace_hint(self) -> str:
        pid = self.paths.lock_text()
        if not pid.isdecimal():
            return self.advice
        return f"end it: kill {pid}; jobs keep running, and the next command starts a scheduler of this version"


class _Connection:
    """One connection with a deadline for the whole call."""

    def __init__(self, paths: Paths, timeout_s: float | None) -> None:
        self._path = paths.socket_name
        self._until = None if timeout_s is None else time.monotonic() + timeout_s
        self._socket = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def shut_down(self) -> None:
        """Make the call end in the thread that makes it."""
        with suppress(OSError):  # it is not connected, or has ended
            self._socket.shutdown(socket.SHUT_RDWR)

    def send(self, message: bytes) -> None:
        self._connect()
        self._apply_deadline()
        with suppress(
            BrokenPipeError, ConnectionResetError
        ):  # the scheduler refused the request unread: its answer says why
            self._socket.sendall(message)

    def read_frame(self) -> tuple[bytes, bytes]:
        kind, size = frames.decode_frame(self._read(frames.FRAME_BYTES))
        return kind, self._read(size)

    def _connect(self) -> None:
        """Connect. A socket with a deadline does not wait while the backlog is full, so retry."""
        while True:
            self._apply_deadline()
            try:
                self._socket.connect(self._path)
                return
            except BlockingIOError:
                time.sleep(RETRY_S)

    def _read(self, size: int) -> bytes:
        parts = []
        while size:
            self._apply_deadline()
            part = self._socket.recv(min(size, CHUNK_BYTES))
            if not part:
                raise EOFError("it closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _apply_deadline(self) -> None:
        if self._until is None:
            return
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)


def start_scheduler(where: Paths) -> None:
    """Start this user's scheduler in the background, and return once it listens."""
    import subprocess
    import sys
    import threading

    where.make()
    log = os.open(where.server_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    env = {**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "0"}
    command = [sys.executable, "-m", "weft.server", str(where.state), str(where.runtime)]
    process = subprocess.Popen(
        command, env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    os.close(log)
    until = time.monotonic() + START_TIMEOUT_S
    while not where.answers():
        if process.poll() not in (None, 0):
            raise Unreachable(f"the scheduler did not start: {_last_error(where)}\n  its log: {where.server_log}")
        if process.poll() == 0 and recorded_paths(where.state) not in (None, where):
            raise Unreachable(
                "a command with another XDG_RUNTIME_DIR has just started the scheduler\n  repeat this one"
            )
        if time.monotonic() > until:
            raise Unreachable(
                f"the scheduler did not start within {START_TIMEOUT_S:.0f} s\n  its log: {where.server_log}"
            )
        time.sleep(0.01)
    threading.Thread(target=process.wait, daemon=True).start()  # reap it if it ends before this process


def _last_error(where: Paths) -> str:
    try:
        lines = where.server_log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return "it left no log"
    errors = [line.partition(" ERROR ")[2].partition(": ")[2] for line in lines if " ERROR " in line]
    return errors[-1] if errors else lines[-1] if lines else "its log is empty"
