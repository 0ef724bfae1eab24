"""One unary gRPC call on a connection for it alone, with the standard library: over TLS, or plain on this machine."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable
from typing import Final

from weft.access.endpoints.addresses import Address, resolve_local
from weft.access.endpoints.credentials import Credentials
from weft.access.wire.http2 import MAX_CALL_BYTES, Http2Error, UnaryCall
from weft.access.wire.service import PREFIX, service_of

__all__ = ["MAX_CALL_BYTES", "CallFailed", "call"]
CHUNK_BYTES: Final = 256 << 10
PROTOCOL: Final = "h2"
"""HTTP/2 in the negotiation of TLS."""
KEEPALIVE_S: Final = 20
KEEPALIVE_RETRY_S: Final = 10


class CallFailed(Exception):
    """The call has a status other than OK: that of the answer, or without an answer, the one that a channel reports."""

    def __init__(self, code: str, details: str, *, is_sent: bool = True) -> None:
        super().__init__(details)
        self.code, self.details = code, details
        self.is_sent = is_sent
        """False: the server has not received the request."""


def call(
    where: Address,
    credentials: Credentials,
    name: str,
    message: bytes,
    timeout_s: float,
    silence_s: float | None = None,
) -> bytes:
    """Call a method, and return the message of the answer.

    With `silence_s`, a server that has stopped is given up: it must greet within this time before it gets the request,
    and after such a silence later, it must greet on another connection.
    """
    until = time.monotonic() + timeout_s
    unary = UnaryCall(_headers(where, credentials, name, timeout_s), message)
    try:
        connection = _connect(where, credentials.ca, timeout_s) if silence_s is None else (
            _greet(where, credentials, unary, min(timeout_s, silence_s))
        )  # fmt: skip
    except (OSError, Http2Error) as error:
        expired = isinstance(error, TimeoutError) and time.monotonic() >= until
        raise CallFailed("DEADLINE_EXCEEDED" if expired else "UNAVAILABLE", str(error), is_sent=False) from None
    opening = unary.request if silence_s is not None else unary.greeting + unary.request
    try:
        with connection:
            connection.sendall(opening)
            while unary.status is None:
                _await_answer(connection, unary, until, silence_s, lambda: greets(where, credentials, silence_s or 0.0))
    except TimeoutError as error:
        code = "DEADLINE_EXCEEDED" if time.monotonic() >= until else "UNAVAILABLE"
        raise CallFailed(code, str(error)) from None
    except (OSError, Http2Error) as error:
        raise CallFailed("UNAVAILABLE", str(error)) from None
    assert unary.status is not None
    if unary.status.code != "OK":
        raise CallFailed(*unary.status)
    return unary.reply


def _headers(where: Address, credentials: Credentials, name: str, timeout_s: float) -> list[tuple[str, str]]:
    return [
        (":method", "POST"), (":scheme", "http" if credentials.ca is None else "https"),
        (":path", f"/{PREFIX}{service_of(name)}/{name}"), (":authority", str(where)), ("te", "trailers"),
        ("content-type", "application/grpc"), ("grpc-timeout", f"{math.ceil(timeout_s * 1000)}m"),
        *credentials.metadata(),
    ]  # fmt: skip


def greets(where: Address, credentials: Credentials, timeout_s: float) -> bool:
    """Return whether a server answers on a new connection. One that was stopped accepts it, but says nothing."""
    try:
        _greet(where, credentials, UnaryCall((), b""), timeout_s).close()
    except (OSError, Http2Error):
        return False
    return True


def _greet(where: Address, credentials: Credentials, unary: UnaryCall, timeout_s: float) -> socket.socket:
    """Connect, and exchange greetings."""
    connection = _connect(where, credentials.ca, timeout_s)
    try:
        connection.settimeout(timeout_s)
        connection.sendall(unary.greeting)
        _receive(connection, unary)
    except BaseException:
        connection.close()
        raise
    return connection


def _await_answer(
    connection: socket.socket, unary: UnaryCall, until: float, silence_s: float | None, greets: Callable[[], bool]
) -> None:
    """Wait for the next part of the answer. After `silence_s`, raise if the server does not greet either."""
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    connection.settimeout(min(left_s, silence_s or left_s))
    try:
        _receive(connection, unary)
    except TimeoutError:
        if silence_s is None:
            raise
        if not greets():
            raise Http2Error("it has stopped answering") from None


def _receive(connection: socket.socket, unary: UnaryCall) -> None:
    data = connection.recv(CHUNK_BYTES)
    if not data:
        raise Http2Error("it closed the connection")
    if answers := unary.receive(data):
        connection.sendall(answers)


def _connect(where: Address, ca: bytes | None, timeout_s: float) -> socket.socket:
    """Connect. Without TLS, the address must be one of this machine."""
    found = _connect_plain(where, timeout_s) if ca is None else _connect_securely(where, ca, timeout_s)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # notice a machine that vanishes
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_RETRY_S)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 1)
    return found


def _connect_plain(where: Address, timeout_s: float) -> socket.socket:
    local = resolve_local(where)
    return socket.create_connection((local.host, local.port), timeout=timeout_s)


def _connect_securely(where: Address, ca: bytes, timeout_s: float) -> socket.socket:
    import ssl

    from weft.access.endpoints.tls import connect

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks the certificate and the name of the host
    context.load_verify_locations(cadata=ca.decode("ascii", "replace"))
    context.set_alpn_protocols([PROTOCOL])
    found = connect(context, where, timeout_s)
    if found.selected_alpn_protocol() != PROTOCOL:
        found.close()
        raise Http2Error("it does not speak HTTP/2")
    return found
