"""The HTTP side of a server: `GET /health`, `GET /stats`, and `POST` to any other path. It drains on SIGTERM."""

from __future__ import annotations

import json
import queue
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Protocol

from weft.errors import InputError

MAX_BODY_BYTES: Final = 16 << 20
IDLE_S: Final = 120.0
DRAIN_S: Final = 60.0


class Application(Protocol):
    """The work of a server on the JSON of a request."""

    def submit(self, request: Mapping[str, Any]) -> Future[Any]:
        """Queue a request. Raise InputError for a bad one and queue.Full if too many wait."""

    def stats(self) -> dict[str, Any]: ...


class Server(ThreadingHTTPServer):
    """Listens for requests and counts those under way."""

    daemon_threads = True
    request_queue_size = 512
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], application: Application) -> None:
        super().__init__(address, Handler)
        self.application, self.is_draining = application, False
        self._under_way, self._idle = 0, threading.Condition()

    def begin(self) -> None:
        with self._idle:
            self._under_way += 1

    def end(self) -> None:
        with self._idle:
            self._under_way -= 1
            self._idle.notify_all()

    def serve_until_stopped(self) -> None:
        """Serve until SIGTERM or SIGINT, then answer the requests under way."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        self.serve_forever(poll_interval=0.05)
        with self._idle:
            self._idle.wait_for(lambda: not self._under_way, DRAIN_S)
        self.server_close()

    def _stop(self, *_: object) -> None:
        self.is_draining = True
        threading.Thread(target=self.shutdown, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    """One connection. Requests on it come one after the other."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_S
    server: Server

    def do_GET(self) -> None:
        if self.path.partition("?")[0] == "/stats":
            self._send(200, self.server.application.stats())
        elif self.server.is_draining:
            self._send(503, _error("draining", "the server ends"))
        else:
            self._send(200, {"status": "ok"})

    def do_POST(self) -> None:
        self.server.begin()
        try:
            self._send(*self._answer())
        finally:
            self.server.end()

    def _answer(self) -> tuple[int, Any]:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self.close_connection = True
            return 411, _error("length-required", "give Content-Length")
        if int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            return 413, _error("too-large", f"at most {MAX_BODY_BYTES} bytes")
        try:
            request = json.loads(self.rfile.read(int(length)))
            if not isinstance(request, dict):
                raise ValueError
        except ValueError:
            return 400, _error("bad-request", "the body is not a JSON object")
        try:
            return 200, self.server.application.submit(request).result()
        except InputError as error:
            return 400, _error("bad-request", str(error))
        except queue.Full:
            return 503, _error("overloaded", "too many requests wait")
        except Exception as error:  # of the model; its traceback would be of no use to a client
            self.log_error("%r", error)
            return 500, _error("failed", type(error).__name__)

    def _send(self, status: int, body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.server.is_draining or self.close_connection:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Leave out the line per request."""


def _error(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def serve(host: str, port: int, application: Application, ready: Callable[[], None]) -> None:
    """Serve an application until SIGTERM."""
    server = Server((host, port), application)
    print(f"listening at http://{host}:{server.server_address[1]}", flush=True)
    ready()
    server.serve_until_stopped()
