"""The server of Dilu's interface: on loopback, with a token, and not for web pages.

`/schedule` runs commands, so every request needs the token, names this machine as its host, and comes from no page of
another origin. It runs in threads next to the router: it is control, not data.
"""

from __future__ import annotations

import hmac
import json
import logging
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from weft.client.service_calls import call_service
from weft.endpoints.addresses import Address
from weft.errors import InputError, NotFound, NotPermitted, Unreachable, WeftError
from weft.router.dilu.control import Control

MAX_BODY_BYTES: Final = 16 << 20
SOCKET_TIMEOUT_S: Final = 60.0
ANSWER_TIMEOUT_S: Final = 600.0
ROUTE_TIMEOUT_S: Final = 10.0
"""The time in which the router must hear of a new service, so that `/schedule` returns once requests can follow."""
ROUTE_POLL_S: Final = 0.05
STATUSES: Final[tuple[tuple[type[WeftError], int], ...]] = (
    (InputError, 400), (NotFound, 404), (NotPermitted, 403), (Unreachable, 503),
)  # fmt: skip
log = logging.getLogger(__name__)


class DiluApi:
    """Listens from `open` on. `service_url` returns the URL of a service at the router."""

    def __init__(
        self, where: Address, token: str, control: Control, service_url: Callable[[str], str],
        scheduler: Address | None = None,
    ) -> None:  # fmt: skip
        self.token, self.control, self.service_url, self.scheduler = token, control, service_url, scheduler
        self.hosts = {"localhost", "127.0.0.1", "::1", socket.gethostname().lower(), where.host.lower()}
        api = self

        class Bound(_Handler):
            served = api

        self._server = ThreadingHTTPServer((where.host, where.port), Bound)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])

    def open(self) -> None:
        threading.Thread(target=self._server.serve_forever, name="dilu", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    served: DiluApi
    protocol_version = "HTTP/1.1"
    timeout = SOCKET_TIMEOUT_S

    def do_POST(self) -> None:
        try:
            refusal = self._refusal()
            if refusal is not None:
                self.close_connection = True
                self._answer(*refusal)
                return
            self._act(self._body())
        except WeftError as error:
            status = next((code for kind, code in STATUSES if isinstance(error, kind)), 500)
            self._answer(status, _problem(str(error)))

    def _refusal(self) -> tuple[int, bytes] | None:
        """Return why the request is refused: its host, its origin or its token; None: it may pass."""
        host = _name_of(f"//{self.headers.get('Host', '')}")
        if host not in self.served.hosts:
            return 421, _problem("this host name is not served here")
        origin = self.headers.get("Origin")
        if origin is not None and _name_of(origin) not in self.served.hosts:
            return 403, _problem("requests of web pages are refused")
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), self.served.token.encode()):
            return 401, _problem("send the token: Authorization: Bearer TOKEN")
        return None

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or self.headers.get("Transfer-Encoding"):
            self.close_connection = True
            raise InputError("Content-Length is missing", hint="send a body with its length")
        if int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            raise InputError(f"the body is larger than {MAX_BODY_BYTES:,} bytes")
        return self.rfile.read(int(length))

    def _act(self, body: bytes) -> None:
        path = self.path.partition("?")[0]
        control = self.served.control
        actions = {
            "/schedule": control.schedule, "/delete_instance": control.delete, "/register_service": control.register,
        }  # fmt: skip
        if path in actions:
            done = actions[path](_task(body))
            if "instances" in done and path == "/schedule":
                self._await_route(done["service_name"])
            self._answer(200, _json(done))
        else:
            self._pass_on(path, body)

    def _await_route(self, service: str) -> None:
        """Return when the router lists the service, or after a while: its table comes from the scheduler."""
        end = time.monotonic() + ROUTE_TIMEOUT_S
        while time.monotonic() < end:
            with call_service(
                self.served.service_url("-"), "/services", "GET", None, (), SOCKET_TIMEOUT_S, self.served.scheduler
            ) as reply:
                if reply.status == 200 and service in {each["service"] for each in json.loads(reply.body)["services"]}:
                    return
            time.sleep(ROUTE_POLL_S)
        log.warning("the router does not list %s yet", service)

    def _pass_on(self, path: str, body: bytes) -> None:
        """Send the request to the service that the path begins with, and return its answer."""
        service, _, rest = path.lstrip("/").partition("/")
        kind = self.headers.get("Content-Type", "application/json")
        reply = call_service(
            self.served.service_url(service), f"/{rest}", "POST", body, [("Content-Type", kind)], ANSWER_TIMEOUT_S,
            self.served.scheduler,
        )  # fmt: skip
        with reply:
            self._answer(reply.status, reply.body, reply.headers.get("content-type", "application/json"))

    def _answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        log.info(format, *args)


def _task(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError("the body is no JSON object", hint='such as {"service_name": "chat", ...}')
    return found


def _name_of(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _json(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _problem(message: str) -> bytes:
    return _json({"error": {"message": message}})
