"""Real receivers of messages on loopback: an HTTP server and a mail server, in threads."""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Webhook:
    """Records what is posted. It answers with the next of `answers`, and with 200 when there is none."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.asked = 0
        self.url = ""

    @property
    def texts(self) -> list[str]:
        return [str(each["message"]) for each in self.messages]


@contextlib.contextmanager
def webhook() -> Iterator[Webhook]:
    hook = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.asked += 1
            status, headers = hook.answers.pop(0) if hook.answers else (200, {})
            if status == 200:
                hook.headers.append(dict(self.headers.items()))
                hook.messages.append(json.loads(body))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        hook.url = f"http://127.0.0.1:{server.server_port}/hook"
        try:
            yield hook
        finally:
            server.shutdown()
            thread.join()


class Mailbox:
    """Records mails. `answer` is what the server says to the next recipients."""

    def __init__(self) -> None:
        self.mails: list[tuple[list[str], str]] = []
        self.answer = "250 ok"
        self.port = 0


@contextlib.contextmanager
def mail_server() -> Iterator[Mailbox]:
    """A mail server that knows as much of SMTP as one mail needs."""
    box = Mailbox()

    class Handler(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

        def handle(self) -> None:
            self.say("220 test")
            to: list[str] = []
            for raw in self.rfile:
                verb = raw.decode().strip()
                if verb.upper().startswith("RCPT TO:"):
                    to.append(verb[8:].strip().strip("<>"))
                    self.say(box.answer)
                elif verb.upper() == "DATA":
                    self.say("354 go on")
                    lines = list(iter(lambda: self.rfile.readline().decode().rstrip("\r\n"), "."))
                    box.mails.append((to, "\n".join(lines)))
                    self.say("250 ok")
                elif verb.upper() == "QUIT":
                    self.say("221 bye")
                    return
                else:
                    self.say("250 ok")

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        box.port = int(server.server_address[1])
        try:
            yield box
        finally:
            server.shutdown()
            thread.join()
