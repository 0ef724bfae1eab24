"""A replica of `weft_workloads serve` as a process, on a free port of loopback."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import support.programs.slow_model
from support.running.local_scheduler import until
from weft.node.engine.free_ports import find_free_port

START_S = 200.0
ANSWER_S = 100.0


@dataclass
class ModelServer:
    process: subprocess.Popen[str]
    port: int

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        try:
            text = body if isinstance(body, str) else json.dumps(body)
            connection.request(method, path, None if body is None else text)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def is_ready(self) -> bool:
        assert self.process.poll() is None, "the server has ended"
        try:
            return self.call("GET", "/health")[0] == 200
        except (OSError, HTTPException, ValueError):
            return False


def read_to_end(connection: socket.socket) -> bytes:
    """Return what comes until the other side closes the connection."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


@contextlib.contextmanager
def running(words: Sequence[str], port: int, env: dict[str, str], log: Path) -> Iterator[ModelServer]:
    """Start a server and wait until it is ready. End it afterwards, if the test has not."""
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, *words], env=env, stdout=out, stderr=subprocess.STDOUT, text=True
        )  # fmt: skip
    made = ModelServer(process, port)
    try:
        until(made.is_ready, START_S)
        yield made
    finally:
        process.kill()
        process.wait()


def model_server(model: str, *words: str, env: dict[str, str], log: Path) -> AbstractContextManager[ModelServer]:
    """Start a replica with a model."""
    port = find_free_port()
    return running(["-m", "weft_workloads", "serve", "--model", model, "--port", str(port), *words], port, env, log)


def slow_model(env: dict[str, str], log: Path) -> AbstractContextManager[ModelServer]:
    """Start a server without torch, of which each batch takes a moment."""
    port = find_free_port()
    return running([str(Path(support.programs.slow_model.__file__)), str(port)], port, env, log)
