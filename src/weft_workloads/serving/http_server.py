"""The HTTP side of a server: `GET /health`, `GET /stats`, and `POST` to any other path.

On SIGTERM it drains: it answers every request on a connection that clients have opened, those that no thread has
accepted yet included, and only then ends.
"""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Protocol

from weft.errors import InputError
from weft_workloads.serving.listener import refuse_new_connections

MAX_BODY_BYTES: Final = 16 << 20
IDLE_S: Final = 120.0
DRAIN_S: Final = 60.0
FIRST_BYTE_S: Final = 1.0
"""The time that a server which drains waits for the request of a connection that has sent none."""


class Application(Protocol):
    """The work of a server on the JSON of a request."""

    def submit(self, request: Mapping[str, Any]) -> Future[Any]:
        """Queue a request. Raise InputError for a bad one and queue.Full if too many wait."""

    def stats(self) -> dict[str, Any]: ...


class Server(ThreadingHTTPServer):
    """Accepts connections, each with a thread."""

    daemon_threads = True
    request_queue_size = 1024
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], application: Application) -> None:
        super().__init__(address, Handler)
        self.application, self.is_draining = application, False
        self._connections, self._closed = 0, threading.Condition()
        self.drain, self._drain_writer = os.pipe()
        """A file that can be read once the server drains: idle connections wait for it."""

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._closed:
            self._connections += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._closed:
            self._connections -= 1
            self._closed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client that leaves is no error
            super().handle_error(request, client_address)

    def serve_until_stopped(self) -> None:
        """Serve until SIGTERM or SIGINT, then answer the requests that clients have sent."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        self.serve_forever(poll_interval=0.05)
        self._accept_the_rest()
        self.server_close()
        os.close(self._drain_writer)
        with self._closed:
            self._closed.wait_for(lambda: not self._connections, DRAIN_S)

    def _accept_the_rest(self) -> None:
        """Accept the connections that the kernel has made already; it makes no further ones."""
        refuse_new_connections(self.socket)
        self.socket.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                request, client_address = self.socket.accept()
                request.setblocking(True)
                self.process_request(request, client_address)

    def _stop(self, *_: object) -> None:
        if not self.is_draining:
            self.is_draining = True
            threading.Thread(target=self.shutdown, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    """One connection. Requests on it come one after the other."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_S
    disable_nagle_algorithm = True
    wbufsize = 1 << 16  # head and body in one packet
    server: Server

    def setup(self) -> None:
        super().setup()
        self._is_new = True

    def handle_one_request(self) -> None:
        if self._await_request():
            self._is_new = False
            super().handle_one_request()
        else:
            self.close_connection = True

    def _await_request(self) -> bool:
        """Wait for the next request. Return False if none comes: the client is idle, or the server drains."""
        self.connection.settimeout(0.0)
        has_bytes = bool(self.rfile.peek(1))  # type: ignore[attr-defined]  # it is a BufferedReader
        self.connection.settimeout(IDLE_S)
        if has_bytes:
            return True
        waiting, connection = select.poll(), self.connection.fileno()
        waiting.register(connection, select.POLLIN)
        waiting.register(self.server.drain, select.POLLIN)
        found = [handle for handle, _ in waiting.poll(1000 * IDLE_S)]
        if found and connection not in found and self._is_new:  # its client has connected to send a request
            waiting.unregister(self.server.drain)
            found = [handle for handle, _ in waiting.poll(1000 * FIRST_BYTE_S)]
        return connection in found

    def do_GET(self) -> None:
        if self.path.partition("?")[0] == "/stats":
            self._send(200, self.server.application.stats())
        elif self.server.is_draining:
            self._send(503, _error("draining", "the server ends"))
        else:
            self._send(200, {"status": "ok"})

    def do_POST(self) -> None:
        self._send(*self._answer())

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
