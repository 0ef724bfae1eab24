"""One unary gRPC call on a connection for it alone, with the standard library: over TLS, or plain on this machine."""

from __future__ import annotations

import math
import socket
import time
from typing import Final

from weft.endpoints.addresses import Address, resolve_local
from weft.endpoints.credentials import Credentials
from weft.wire.http2 import MAX_CALL_BYTES, Http2Error, UnaryCall
from weft.wire.service import PREFIX, service_of

__all__ = ["MAX_CALL_BYTES", "CallFailed", "call"]
CHUNK_BYTES: Final = 256 << 10
PROTOCOL: Final = "h2"
"""HTTP/2 in the negotiation of TLS."""
KEEPALIVE_S: Final = 20
KEEPALIVE_RETRY_S: Final = 10


class CallFailed(Exception):
    """The call has a status other than OK: that of the answer, or without an answer, the one that a channel reports."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(details)
        self.code, self.details = code, details


def call(where: Address, credentials: Credentials, name: str, message: bytes, timeout_s: float) -> bytes:
    """Call a method, and return the message of the answer."""
    until = time.monotonic() + timeout_s
    unary = UnaryCall(_headers(where, credentials, name, timeout_s), message)
    try:
        with _connect(where, credentials.ca, timeout_s) as connection:
            _exchange(connection, unary, until)
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


def _exchange(connection: socket.socket, unary: UnaryCall, until: float) -> None:
    connection.sendall(unary.opening)
    while unary.status is None:
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        connection.settimeout(left_s)
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

    from weft.endpoints.tls import connect

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks the certificate and the name of the host
    context.load_verify_locations(cadata=ca.decode("ascii", "replace"))
    context.set_alpn_protocols([PROTOCOL])
    found = connect(context, where, timeout_s)
    if found.selected_alpn_protocol() != PROTOCOL:
        found.close()
        raise Http2Error("it does not speak HTTP/2")
    return found
