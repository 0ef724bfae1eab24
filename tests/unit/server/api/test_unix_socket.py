"""Calls on the unix socket, between a real client and a real server: answers, errors, and peers that misbehave."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from weft.access.auth.identity import caller
from weft.access.client.local import LocalTransport
from weft.access.endpoints.paths import Paths
from weft.access.wire import frames
from weft.access.wire import messages as m
from weft.access.wire.protocol import PROTOCOL
from weft.access.wire.service import MAX_MESSAGE_BYTES, call
from weft.errors import InputError, NotFound, Unreachable, WeftError
from weft.server.api import unix_socket
from weft.server.api.unix_socket import UnixSocketServer

PATIENCE_S = 20.0
QUERY = m.QueryRequest(what="queue")


class Methods:
    """A scheduler that does as the request says."""

    def __init__(self) -> None:
        self.produced = self.asleep = self.cancelled = 0
        self.by_name: dict[str, Callable[[Any], Any]] = {"Query": self.query, "Logs": self.logs, "Submit": self.submit}

    async def query(self, request: m.QueryRequest) -> m.JsonReply:
        if request.what == "sleep":
            self.asleep += 1
            try:
                await asyncio.sleep(PATIENCE_S)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        if request.what == "missing":
            raise NotFound("there is no job 7")
        if request.what == "bug":
            raise ValueError("a bug")
        if request.what == "large":
            return m.JsonReply(json="x" * (MAX_MESSAGE_BYTES + 1))
        return m.JsonReply(json=f"{request.what} for {caller().role}")

    async def submit(self, request: m.SubmitRequest) -> m.SubmitReply:
        raise InputError("too many", hint="ask for less", where="job #1", key="gpus", index=len(request.jobs))

    async def logs(self, request: m.LogsRequest) -> AsyncIterator[m.LogChunk]:
        for number in range(request.lines):
            self.produced += 1
            yield m.LogChunk(text=b"%06d" % number + b"x" * 65_000 * request.rank)
        if request.follow:
            raise NotFound("its log is gone")


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    made = Paths(tmp_path / "state", tmp_path / "run")
    made.make()
    return made


@contextmanager
def served(paths: Paths) -> Iterator[tuple[Methods, LocalTransport]]:
    """A server in a thread, and a client for it."""
    methods, loop = Methods(), asyncio.new_event_loop()
    server = UnixSocketServer(methods.by_name)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.open(paths.socket), loop).result(PATIENCE_S)
        yield methods, LocalTransport(paths, start=False)
    finally:
        asyncio.run_coroutine_threadsafe(server.close(0.1), loop).result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def raw(paths: Paths, message: bytes, *, shut: bool = False) -> bytes:
    """Return the answer to these bytes, until the server closes."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(PATIENCE_S)
        line.connect(str(paths.socket))
        line.sendall(message)
        if shut:
            line.shutdown(socket.SHUT_WR)
        found = b""
        try:
            while part := line.recv(65_536):
                found += part
        except ConnectionResetError:
            pass
        return found


# ---- calls


def test_a_call_is_answered_for_the_owner(paths: Paths) -> None:
    with served(paths) as (_, client):
        client.open()
        assert client.call("Query", QUERY, PATIENCE_S).json == "queue for admin"
        assert stat.S_IMODE(os.stat(paths.socket).st_mode) == 0o600


def test_a_stream_is_whole_and_in_order(paths: Paths) -> None:
    with served(paths) as (_, client):
        chunks = [chunk.text[:6] for chunk in client.stream("Logs", m.LogsRequest(lines=300, rank=1))]
        assert chunks == [b"%06d" % number for number in range(300)]
        assert list(client.stream("Logs", m.LogsRequest())) == []


def test_errors_arrive_as_they_were_raised(paths: Paths) -> None:
    with served(paths) as (_, client):
        with pytest.raises(NotFound, match=r"^there is no job 7$"):
            client.call("Query", m.QueryRequest(what="missing"), PATIENCE_S)
        with pytest.raises(InputError) as caught:
            client.call("Submit", m.SubmitRequest(jobs=[m.JobSpec()] * 2), PATIENCE_S)
        error = caught.value
        assert (error.what, error.hint, error.where, error.key, error.index) == (
            "too many", "ask for less", "job #1", "gpus", 2
        )  # fmt: skip
        chunks = client.stream("Logs", m.LogsRequest(lines=1, follow=True))
        assert next(chunks).text == b"000000"
        with pytest.raises(NotFound, match="its log is gone"):
            next(chunks)


def test_a_bug_of_the_scheduler_is_called_that(paths: Paths) -> None:
    with served(paths) as (_, client):
        with pytest.raises(
            WeftError, match=r"the scheduler failed: ValueError: a bug\n  its log: .*server.log"
        ) as caught:
            client.call("Query", m.QueryRequest(what="bug"), PATIENCE_S)
        assert type(caught.value) is WeftError
        with pytest.raises(InputError, match="the answer would have 64 MB"):
            client.call("Query", m.QueryRequest(what="large"), PATIENCE_S)
        assert client.call("Query", QUERY, PATIENCE_S).json == "queue for admin"


def test_many_calls_at_once_are_all_answered(paths: Paths) -> None:
    with served(paths) as (_, client), ThreadPoolExecutor(64) as threads:
        answers = threads.map(
            lambda at: client.call("Query", m.QueryRequest(what=str(at)), PATIENCE_S).json, range(640)
        )
        assert list(answers) == [f"{at} for admin" for at in range(640)]


# ---- schedulers that do not answer


def test_one_that_hangs_is_waited_for_as_long_as_was_said(paths: Paths) -> None:
    with served(paths) as (methods, client):
        began = time.monotonic()
        with pytest.raises(Unreachable, match="has not answered for 1 s: it hangs or is overloaded"):
            client.call("Query", m.QueryRequest(what="sleep"), 0.6)
        assert 0.5 < time.monotonic() - began < 5.0
        until(lambda: methods.cancelled == 1)


def test_one_that_dies_during_a_call_is_noticed_at_once(paths: Paths) -> None:
    code = f"""
import asyncio, pathlib, sys
from weft.server.api.unix_socket import UnixSocketServer
async def never(_): print("called", flush=True); await asyncio.sleep(60)
async def forever(_):
    from weft.access.wire import messages as m
    yield m.LogChunk(text=b"one")
    await never(_)
async def serve():
    server = UnixSocketServer({{"Query": never, "Logs": forever}})
    await server.open(pathlib.Path({str(paths.socket)!r}))
    print("open", flush=True)
    await asyncio.sleep(60)
asyncio.run(serve())"""
    client = LocalTransport(paths, start=False)
    for attempt in (
        lambda: client.call("Query", QUERY, PATIENCE_S),
        lambda: list(client.stream("Logs", m.LogsRequest())),
    ):
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            killer = threading.Thread(target=lambda out=process.stdout, end=process.kill: (out.readline(), end()))
            killer.start()
            with pytest.raises(Unreachable, match=r"does not answer: .*(closed the connection|reset by peer)"):
                attempt()
            killer.join()
    with pytest.raises(Unreachable, match=r"does not answer: .*refused"):
        client.call("Query", QUERY, PATIENCE_S)
    paths.socket.unlink()
    with pytest.raises(Unreachable, match=r"does not answer: .*No such file"):
        client.call("Query", QUERY, PATIENCE_S)


@contextmanager
def impostor(paths: Paths, words: bytes, *, close: bool = True) -> Iterator[None]:
    """Listens in a scheduler's place, and says this to the first that comes."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(paths.socket))
        listening.listen()
        done = threading.Event()

        def serve() -> None:
            line, _ = listening.accept()
            with line:
                line.recv(1000)
                line.sendall(words)
                if not close:
                    done.wait(PATIENCE_S)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (bytes((0, 0, 18, 4, 0, 0, 0, 0, 0)), "an older Weft, or not Weft"),
        (b"HTTP/1.1 400 Bad Request\r\n", "an older Weft, or not Weft"),
        (struct.pack(">cI", b"M", MAX_MESSAGE_BYTES + 1), "an older Weft, or not Weft"),
        (b"", "closed the connection"),
        (b"M\0\0", "closed the connection"),
        (struct.pack(">cI", b"M", 100) + b"short", "closed the connection"),
        (frames.encode_frame(frames.END), "without an answer"),
        (frames.encode_frame(frames.ERROR, b"\xff not JSON"), "the scheduler failed: . not JSON"),
        (frames.encode_frame(frames.ERROR, b"[1]"), r"the scheduler failed: \[1\]"),
    ],
    ids=["http2", "http1", "too large", "nothing", "half a head", "half a body", "only an end", "bytes", "list"],
)
def test_what_is_no_scheduler_is_recognised(paths: Paths, words: bytes, found: str) -> None:
    with impostor(paths, words), pytest.raises(WeftError, match=found):
        LocalTransport(paths, start=False).call("Query", QUERY, PATIENCE_S)


def test_an_older_scheduler_is_named_with_the_way_to_replace_it(paths: Paths) -> None:
    paths.lock.write_text("4711")
    words = "end it: kill 4711; jobs keep running, and the next command starts a scheduler of this version"
    with impostor(paths, bytes((0, 0, 18, 4, 0, 0, 0, 0, 0)), close=False), pytest.raises(Unreachable, match=words):
        LocalTransport(paths, start=False).call("Query", QUERY, PATIENCE_S)


# ---- clients that misbehave


def test_garbage_disturbs_no_other(paths: Paths) -> None:
    chance = random.Random(11)
    head = frames.encode_request("Query", QUERY.SerializeToString())
    with served(paths) as (_, client):
        for _ in range(200):
            cut = chance.randrange(len(head))
            message = bytearray(head[: cut if chance.random() < 0.5 else None])
            if message and chance.random() < 0.7:
                message[chance.randrange(len(message))] ^= 1 << chance.randrange(8)
            raw(paths, bytes(message) + chance.randbytes(chance.choice((0, 0, 50))), shut=True)
        assert raw(paths, chance.randbytes(100_000)) == b""
        assert client.call("Query", QUERY, PATIENCE_S).json == "queue for admin"


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (struct.pack(">4sHHI", b"WEFT", PROTOCOL, 5, 4_294_967_295) + b"Query", b"the QueryRequest has 4295.0 MB, and"),
        (struct.pack(">4sHHI", b"WEFT", PROTOCOL, 5, 2) + b"Query\xff\xff", b"cannot be decoded as a QueryRequest"),
        (struct.pack(">4sHHI", b"WEFT", PROTOCOL, 3, 0) + b"Eat", b"there is no method 'Eat'"),
        (struct.pack(">4sHHI", b"WEFT", PROTOCOL, 6, 0) + b"Attach", b"there is no method 'Attach'"),
        (struct.pack(">4sHHI", b"WEFT", 999, 5, 0) + b"Query", b"speaks protocol 999"),
    ],
    ids=["too large", "no message", "no method", "method of a cluster", "protocol"],
)
def test_a_wrong_request_is_refused_with_the_reason(paths: Paths, message: bytes, found: bytes) -> None:
    with served(paths):
        answer = raw(paths, message)
    assert answer[:1] == frames.ERROR
    assert found in answer


def test_a_client_of_grpc_as_before_is_not_kept_waiting(paths: Paths) -> None:
    with served(paths), grpc.insecure_channel(f"unix:{paths.socket}") as line:
        with pytest.raises(grpc.RpcError) as caught:
            call(line, "Query")(QUERY, timeout=PATIENCE_S)
        error: Any = caught.value
        assert error.code() == grpc.StatusCode.UNAVAILABLE


def test_a_request_that_dawdles_is_ended(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unix_socket, "REQUEST_TIMEOUT_S", 0.2)
    with served(paths):
        assert b"no request came within" in raw(paths, b"WEFT\0")
        assert b"no request came within" in raw(paths, b"")


def test_a_client_that_leaves_ends_its_call(paths: Paths) -> None:
    with served(paths) as (methods, _):
        request = frames.encode_request("Query", m.QueryRequest(what="sleep").SerializeToString())
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(paths.socket))
            line.sendall(request)
            until(lambda: methods.asleep == 1)
        until(lambda: methods.cancelled == 1)
        raw(paths, request + b"more", shut=True)
        raw(paths, request, shut=True)


def test_a_stream_that_is_not_read_waits(paths: Paths) -> None:
    """65 kB a chunk: what fits into the buffers on both sides, and no more."""
    with served(paths) as (methods, client):
        chunks = client.stream("Logs", m.LogsRequest(lines=2000, rank=1))
        next(chunks)
        until(lambda: methods.produced > 10)
        seen = -1
        while seen != methods.produced:
            seen = methods.produced
            for _ in range(20):  # turns of the server's loop, in which the stream could go on
                client.call("Query", QUERY, PATIENCE_S)
        assert seen < 100
        assert client.call("Query", QUERY, PATIENCE_S).json == "queue for admin"
        assert sum(1 for _ in chunks) == 1999


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to be somebody else")
def test_another_user_is_refused(paths: Paths, tmp_path: Path) -> None:
    code = f"""
import os, socket
line = socket.socket(socket.AF_UNIX)
os.setuid(65534)
line.connect({str(paths.socket)!r})
print(line.recv(1000))"""
    folders = [path for path in paths.socket.parents if tmp_path.parent.parent in (path, *path.parents)]
    with served(paths):
        for path in (*folders, tmp_path.parent.parent.parent):
            if path.stat().st_uid == os.getuid() and path != Path("/tmp"):
                path.chmod(path.stat().st_mode | 0o755)
        run = [sys.executable, "-c", code]
        kept_out = subprocess.run(run, capture_output=True, text=True, check=False)
        assert "Permission" in kept_out.stderr
        paths.socket.chmod(0o666)
        told = subprocess.run(run, capture_output=True, text=True, check=False)
        assert "this scheduler belongs to another user" in told.stdout, told.stderr


def test_the_end_gives_calls_a_moment_and_then_ends_them(paths: Paths) -> None:
    with ThreadPoolExecutor(1) as threads:
        with served(paths) as (methods, client):
            asking = threads.submit(client.call, "Query", m.QueryRequest(what="sleep"), PATIENCE_S)
            until(lambda: methods.asleep == 1)
        with pytest.raises(Unreachable, match="does not answer"):
            asking.result(PATIENCE_S)
    assert methods.cancelled == 1
