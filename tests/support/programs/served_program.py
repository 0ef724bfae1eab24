"""The program of a replica for tests: it answers after a moment, or `?sleep=S` seconds, and says who it is."""

from __future__ import annotations

import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STARTED = time.monotonic()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/health":
            is_ready = time.monotonic() - STARTED >= float(os.environ.get("START_S", "0"))
            self._answer(b"ok", 200 if is_ready and not os.environ.get("BROKEN") else 503)
            return
        time.sleep(float(self.path.partition("?sleep=")[2] or os.environ.get("ANSWER_S", "0.02")))
        self._answer(
            f"{os.environ['WEFT_JOB_ID']} {os.environ.get('NAME', '')}".encode(), int(os.environ.get("STATUS", "200"))
        )

    def _answer(self, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer((os.environ["WEFT_HOST"], int(os.environ["WEFT_PORT"])), Handler)
    server.daemon_threads = True
    threading.excepthook = lambda _: None
    server.serve_forever()
