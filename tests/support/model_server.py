"""A replica of `weft_workloads serve` as a process, on a free port of loopback."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from support.local_scheduler import until
from weft.engines.process.free_ports import find_free_port

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


@contextlib.contextmanager
def model_server(model: str, *words: str, env: dict[str, str], log: Path) -> Iterator[ModelServer]:
    """Start a replica and wait until it is ready. End it afterwards, if the test has not."""
    port = find_free_port()
    command = [sys.executable, "-m", "weft_workloads", "serve", "--model", model, "--port", str(port), *words]
    with log.open("w") as out:
        process = subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT, text=True)
    made = ModelServer(process, port)
    try:
        until(made.is_ready, START_S)
        yield made
    finally:
        process.kill()
        process.wait()
