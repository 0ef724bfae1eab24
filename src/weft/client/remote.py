"""The transport to the scheduler of a cluster: gRPC over TCP. It starts no scheduler."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import grpc

from weft.client.transport import foreign_error, timeout_error
from weft.endpoints.addresses import Address
from weft.endpoints.credentials import Credentials, find_credentials, is_listening, open_channel
from weft.endpoints.tls import connect
from weft.errors import Unreachable, WeftError
from weft.wire.failures import decode_error
from weft.wire.service import call, service_of

PROBE_TIMEOUT_S: Final = 5.0
RETURN_TIMEOUT_S: Final = 60.0
"""Time to wait for a scheduler that has answered before."""
POLL_S: Final = 0.2
HTTP2: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""The first bytes of a gRPC client. The answer begins with a frame of kind 4."""
SETTINGS: Final = 4
ALERT: Final = 0x15


class RemoteTransport:
    def __init__(self, where: Address, credentials: Credentials | None = None) -> None:
        self.where, self._credentials = where, credentials
        self._channel: Any = None
        self._methods: dict[str, Any] = {}

    @property
    def advice(self) -> str:
        return f"see server.log in the folder of the scheduler at {self.where}"

    def open(self) -> None:
        self.close()
        self._credentials = self._credentials or find_credentials(self.where)
        self._channel = open_channel(self.where, self._credentials)

    def close(self) -> None:
        self._methods.clear()
        if self._channel is not None:
            self._channel.close()

    def call(self, name: str, request: Any, timeout_s: float) -> Any:
        with self._translated_errors(timeout_s):
            return self._method(name)(request, timeout=timeout_s)

    def stream(self, name: str, request: Any, timeout_s: float | None = None) -> Iterator[Any]:
        with self._translated_errors(timeout_s):
            yield from self._method(name)(request, timeout=timeout_s)

    def upload(self, name: str, requests: Iterator[Any], timeout_s: float) -> Any:
        with self._translated_errors(timeout_s):
            return self._method(name)(requests, timeout=timeout_s)

    def is_hopeless(self, *, has_answered: bool) -> bool:
        return not has_answered

    def await_scheduler(self) -> None:
        until = time.monotonic() + RETURN_TIMEOUT_S
        while not is_listening(self.where):
            if time.monotonic() > until:
                raise Unreachable(
                    f"the scheduler at {self.where} has not answered for {RETURN_TIMEOUT_S:.0f} s\n"
                    "  jobs keep running; try again later"
                )
            time.sleep(POLL_S)

    def _method(self, name: str) -> Any:
        if name not in self._methods:
            metadata = self._credentials.metadata() if self._credentials else ()
            self._methods[name] = partial(call(self._channel, name, service_of(name)), metadata=metadata)
        return self._methods[name]

    @contextmanager
    def _translated_errors(self, timeout_s: float | None) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            raise self._error_of(error, timeout_s) from None

    def _error_of(self, error: Any, timeout_s: float | None) -> WeftError:
        """Return the error as the scheduler raised it, or why there is no answer."""
        code, details = error.code(), error.details() or ""
        if code == grpc.StatusCode.UNAVAILABLE:
            return diagnose(self.where, self._credentials.ca if self._credentials else None, details)
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            return timeout_error(timeout_s, self.advice)
        if code == grpc.StatusCode.UNIMPLEMENTED:
            return foreign_error(details, self.advice)
        return decode_error(details) or WeftError(
            f"the scheduler failed: {code.name}: {details[:500]}\n  {self.advice}"
        )


def diagnose(where: Address, ca: bytes | None, details: str) -> WeftError:
    """Probe the port to find out why a call failed: gRPC reports few details, and not always the same ones."""
    try:
        found = _probe_tls(where, ca) if ca is not None else _probe_plaintext(where)
    except socket.gaierror:
        return Unreachable(f"there is no host {where.host}\n  check the address: --scheduler HOST:PORT")
    except OSError as error:
        why = "nothing listens there" if isinstance(error, ConnectionRefusedError) else error.strerror or error
        hint = "start one there: weft server; or use the one of this machine: --scheduler local"
        return Unreachable(f"no scheduler answers at {where}: {why}\n  {hint}")
    return found or Unreachable(f"the scheduler at {where} does not answer: {details[:300]}\n  try again")


def _probe_tls(where: Address, ca: bytes) -> WeftError | None:
    try:
        context = ssl.create_default_context(cadata=ca.decode("ascii", "replace"))
        context.set_alpn_protocols(["h2"])
        with connect(context, where, PROBE_TIMEOUT_S) as secure:
            if secure.selected_alpn_protocol() == "h2":
                return None
        return _not_a_scheduler(where, "no gRPC")
    except ssl.SSLCertVerificationError as error:
        if "mismatch" in error.verify_message or "not valid for" in error.verify_message:
            return Unreachable(
                f"the certificate of the scheduler is not for the name {where.host}\n"
                f"  on its machine: weft auth init --port {where.port} --host {where.host}, then start it again"
            )
        return Unreachable(
            f"the server at {where} is not the scheduler that was joined: {error.verify_message}\n"
            f"  if the scheduler was set up again: weft auth join {where} TOKEN"
        )
    except (ssl.SSLError, ConnectionResetError) as error:
        if isinstance(error, ssl.SSLError) and "WRONG_VERSION" not in str(error.reason):
            return Unreachable(
                f"TLS with {where} failed: {error.reason or error}\n  check that this is the scheduler's address"
            )
        return Unreachable(
            f"the server at {where} does not speak TLS\n  check the address; if the scheduler has no certificate: "
            "weft auth init on its machine"
        )


def _probe_plaintext(where: Address) -> WeftError | None:
    with socket.create_connection((where.host, where.port), timeout=PROBE_TIMEOUT_S) as connection:
        connection.sendall(HTTP2)
        try:
            seen = connection.recv(64)
        except TimeoutError:
            return _not_a_scheduler(where, "it does not answer")
    if seen[:1] == bytes((ALERT,)) or (not seen and _speaks_tls(where)):
        return Unreachable(f"the server at {where} needs TLS\n  join the scheduler again: weft auth join {where} TOKEN")
    if seen.startswith(b"HTTP/"):
        return _not_a_scheduler(where, "it speaks HTTP/1")
    return None if seen[3:4] == bytes((SETTINGS,)) else _not_a_scheduler(where, "it does not speak gRPC")


def _speaks_tls(where: Address) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # no secret is sent
    try:
        with connect(context, where, PROBE_TIMEOUT_S):
            return True
    except OSError:
        return False


def _not_a_scheduler(where: Address, why: str) -> Unreachable:
    return Unreachable(f"the server at {where} is not a scheduler: {why}\n  check the port")
