"""Measurement of the link from one node to another: a listener on the one, short TCP transfers from the other.

Each side proves with the key of the check that it belongs to it; the key itself is never sent. The listener ends with
the check, receives at most `MAX_TRANSFER_BYTES` from a peer and one transfer at a time, and writes nothing down.

    listener  ->  nonce of 16 bytes
    peer      ->  nonce of 16 bytes, HMAC over both, its name
    listener  ->  HMAC over both
    peer      ->  `p`: answered with the time, several times; then `b`, answered with `g` when it is the peer's turn
    peer      ->  data, until it closes its side
    listener  ->  bytes and seconds of the transfer
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

MAX_TRANSFER_BYTES: Final = 64 << 20
TRANSFER_S: Final = 0.3
CONNECT_TIMEOUT_S: Final = 2.0
HANDSHAKE_TIMEOUT_S: Final = 5.0
TURN_TIMEOUT_S: Final = 60.0
"""The most time that a peer waits for its turn: other peers transfer first."""
MAX_CONNECTIONS: Final = 64
PINGS: Final = 5
CHUNK: Final = bytes(256 << 10)
ACCEPT_POLL_S: Final = 0.2
_NONCE_BYTES: Final = 16
_PROOF_BYTES: Final = 32


class Member(NamedTuple):
    """A node of a check."""

    node: str
    address: str
    """The address at which the other nodes of a gang reach it."""
    ports: Sequence[int]
    """Ports from the range for gangs; the listener takes the first that is free."""


class Measurement(NamedTuple):
    mb_per_s: float
    latency_s: float
    clock_s: float
    """The lead of the clock of the listener."""
    uncertainty_s: float


class LinkError(Exception):
    """The link does not work; the text says why."""


class Listener:
    """Answers the peers of a check, each once."""

    def __init__(self, me: Member, key: bytes) -> None:
        self._key = key
        self._socket = _listen(me)
        self.port: int = self._socket.getsockname()[1]
        self._stopping = threading.Event()
        self._turn = threading.Lock()
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._changed = threading.Condition()
        self._served: set[str] = set()
        self._socket.settimeout(ACCEPT_POLL_S)
        threading.Thread(target=self._accept, daemon=True).start()

    def wait_for(self, peers: set[str], timeout_s: float) -> None:
        """Return when these peers have been served, or after the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: peers <= self._served, max(timeout_s, 0.0))

    def close(self) -> None:
        self._stopping.set()
        self._socket.close()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = self._socket.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            if not self._slots.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError, struct.error):
                self._serve(connection)
        finally:
            self._slots.release()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(HANDSHAKE_TIMEOUT_S)
        ours = os.urandom(_NONCE_BYTES)
        connection.sendall(ours)
        theirs, proof = _receive(connection, _NONCE_BYTES), _receive(connection, _PROOF_BYTES)
        name = _receive(connection, _receive(connection, 1)[0])
        if not hmac.compare_digest(proof, prove(self._key, b"peer", ours, theirs, name)):
            return
        connection.sendall(prove(self._key, b"listener", theirs, ours))
        while (asked := _receive(connection, 1)) == b"p":
            connection.sendall(struct.pack("!d", time.time()))
        if asked != b"b":
            return
        with self._turn:
            connection.sendall(b"g")
            received, seconds = _drain(connection)
        connection.sendall(struct.pack("!Qd", received, seconds))
        with self._changed:
            self._served.add(name.decode(errors="replace"))
            self._changed.notify_all()


def measure(peer: Member, key: bytes, me: str) -> Measurement:
    """Measure the link to a peer. Raise LinkError if it does not work now; it may still be starting."""
    try:
        found = socket.getaddrinfo(peer.address, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise LinkError(f"the host name {peer.address} does not resolve") from None
    problem = ""
    for family, kind, _, _, target in found:
        for port in peer.ports:
            with socket.socket(family, kind) as connection:
                connection.settimeout(CONNECT_TIMEOUT_S)
                try:
                    connection.connect((target[0], port, *target[2:]))
                    return _measure(connection, key, me)
                except ConnectionRefusedError:
                    problem = problem or f"port {port} of {peer.address} refuses connections"
                except TimeoutError:
                    problem = f"port {port} of {peer.address} does not answer: does a firewall block it?"
                except (OSError, struct.error) as error:
                    problem = f"port {port} of {peer.address}: {getattr(error, 'strerror', None) or error}"
    raise LinkError(problem or f"{peer.address} has no address")


def _measure(connection: socket.socket, key: bytes, me: str) -> Measurement:
    connection.settimeout(HANDSHAKE_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    theirs, ours, name = _receive(connection, _NONCE_BYTES), os.urandom(_NONCE_BYTES), me.encode()[:255]
    connection.sendall(ours + prove(key, b"peer", theirs, ours, name) + bytes([len(name)]) + name)
    if not hmac.compare_digest(_receive(connection, _PROOF_BYTES), prove(key, b"listener", ours, theirs)):
        raise OSError("another program listens there")
    pings = [_ping(connection) for _ in range(PINGS)]
    latency_s, clock_s = min(pings)
    connection.sendall(b"b")
    connection.settimeout(TURN_TIMEOUT_S)
    _receive(connection, 1)
    connection.settimeout(HANDSHAKE_TIMEOUT_S)
    until, left = time.monotonic() + TRANSFER_S, MAX_TRANSFER_BYTES
    while left > 0 and time.monotonic() < until:
        left -= connection.send(CHUNK[:left])
    connection.shutdown(socket.SHUT_WR)
    received, seconds = struct.unpack("!Qd", _receive(connection, 16))
    return Measurement(received / 1e6 / max(seconds, 1e-6), latency_s, clock_s, latency_s / 2)


def _ping(connection: socket.socket) -> tuple[float, float]:
    """Return the time of a round trip, and how far the other clock is ahead."""
    before, sent_at = time.monotonic(), time.time()
    connection.sendall(b"p")
    (theirs,) = struct.unpack("!d", _receive(connection, 8))
    trip_s = time.monotonic() - before
    return trip_s, theirs - (sent_at + trip_s / 2)


def prove(key: bytes, role: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, b"\0".join((b"weft mesh 1", role, *parts)), "sha256")


def _drain(connection: socket.socket) -> tuple[int, float]:
    """Receive until the peer closes its side; return the bytes and seconds. End a peer that sends too much."""
    received, room, begun, ended = 0, bytearray(len(CHUNK)), 0.0, 0.0
    while count := connection.recv_into(room):
        begun, ended = begun or time.monotonic(), time.monotonic()
        received += count
        if received > MAX_TRANSFER_BYTES:
            raise OSError("too much data")
    return received, ended - begun


def _receive(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = connection.recv(count - len(found))
        if not part:
            raise OSError("the other side closed the connection")
        found += part
    return found


def _listen(me: Member) -> socket.socket:
    """Listen at the node's address; at all addresses if it is not one of this machine, as behind a gateway."""
    family, kind, _, _, target = socket.getaddrinfo(me.address, None, type=socket.SOCK_STREAM)[0]
    problem: OSError | None = None
    for port in me.ports:
        for host in (target[0], "::" if family == socket.AF_INET6 else "0.0.0.0"):
            listener = socket.socket(family, kind)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((host, port))
                listener.listen(MAX_CONNECTIONS)
            except OSError as error:
                listener.close()
                problem = error
                if error.errno == errno.EADDRNOTAVAIL:
                    continue
                break
            return listener
    raise problem or OSError("no port to listen at")
