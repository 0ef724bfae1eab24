"""One unary gRPC call on an HTTP/2 connection (RFC 9113), without I/O.

A command makes one or two calls. Importing the gRPC library for them would take half of its CPU time. This covers what
a client needs for one call per connection: no streams of messages, no requests larger than the first window.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from weft.access.wire import hpack
from weft.access.wire.service import MAX_MESSAGE_BYTES

PREFIX_BYTES: Final = 5
"""Size of the head of a gRPC message: a flag for compression, and the length."""
FIRST_WINDOW_BYTES: Final = 65_535
MAX_CALL_BYTES: Final = FIRST_WINDOW_BYTES - PREFIX_BYTES
"""The largest request: a client may send no more before it has read the server's settings."""
MAX_FRAME_BYTES: Final = 16_384
MAX_HEADER_BYTES: Final = 64 << 10
MAX_WINDOW_BYTES: Final = (1 << 31) - 1
HEAD_BYTES: Final = 9
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
STREAM: Final = 1
_NO_PUSH: Final = (2).to_bytes(2) + (0).to_bytes(4)
_LARGE_WINDOW: Final = (4).to_bytes(2) + MAX_WINDOW_BYTES.to_bytes(4)
CODES: Final = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
"""The status codes of gRPC, by number."""
_CODES_OF_HTTP: Final = {
    "400": "INTERNAL", "401": "UNAUTHENTICATED", "403": "PERMISSION_DENIED", "404": "UNIMPLEMENTED",
    "429": "UNAVAILABLE", "502": "UNAVAILABLE", "503": "UNAVAILABLE", "504": "UNAVAILABLE",
}  # fmt: skip
"""The status of a call that got an answer of HTTP without one, as gRPC's clients interpret it."""
_CODES_OF_RESET: Final = {7: "UNAVAILABLE", 8: "CANCELLED", 11: "RESOURCE_EXHAUSTED", 12: "PERMISSION_DENIED"}


class Http2Error(Exception):
    """The server does not speak HTTP/2, or ends the connection."""


class Status(NamedTuple):
    code: str
    details: str = ""


class UnaryCall:
    """A call. Send `greeting` and `request`, pass received bytes to `receive`, and send the bytes that it returns. The
    call is over when `status` is set."""

    def __init__(self, headers: Iterable[tuple[str, str]], message: bytes) -> None:
        block = hpack.encode(headers)
        if len(block) > MAX_FRAME_BYTES or len(message) > MAX_CALL_BYTES:
            raise ValueError("too large for one call on a new connection")
        body = b"\0" + len(message).to_bytes(4) + message
        parts = [body[at : at + MAX_FRAME_BYTES] for at in range(0, len(body), MAX_FRAME_BYTES)]
        self.greeting: bytes = b"".join([
            PREFACE,
            _frame(SETTINGS, 0, 0, _NO_PUSH + _LARGE_WINDOW),
            _frame(WINDOW, 0, 0, (MAX_WINDOW_BYTES - FIRST_WINDOW_BYTES).to_bytes(4)),
        ])  # fmt: skip
        """The first bytes. A server that runs answers them, before there is any request."""
        self.request: bytes = b"".join([
            _frame(HEADERS, END_HEADERS, STREAM, block),
            *(_frame(DATA, END_STREAM if part is parts[-1] else 0, STREAM, part) for part in parts),
        ])  # fmt: skip
        self.status: Status | None = None
        self._buffer = bytearray()
        self._decoder = hpack.Decoder()
        self._headers: dict[str, str] = {}
        self._block: bytearray | None = None
        """Headers whose last frame has not come."""
        self._ends_stream = False
        self._body = bytearray()
        self._has_begun = False

    @property
    def reply(self) -> bytes:
        """The message of the answer, once the status is OK."""
        return bytes(self._body[PREFIX_BYTES:])

    def receive(self, data: bytes) -> bytes:
        """Take bytes from the server, and return the bytes to send back."""
        self._buffer += data
        at, answers = 0, b""
        while self.status is None and len(self._buffer) - at >= HEAD_BYTES:
            size = int.from_bytes(self._buffer[at : at + 3])
            kind, flags = self._buffer[at + 3], self._buffer[at + 4]
            if size > MAX_FRAME_BYTES or (kind != SETTINGS and not self._has_begun):
                raise Http2Error("it does not speak HTTP/2")
            self._has_begun = True
            end = at + HEAD_BYTES + size
            if len(self._buffer) < end:
                break
            stream = int.from_bytes(self._buffer[at + 5 : at + HEAD_BYTES]) & MAX_WINDOW_BYTES
            answers += self._receive_frame(kind, flags, stream, bytes(self._buffer[at + HEAD_BYTES : end]))
            at = end
        del self._buffer[:at]
        return answers

    def _receive_frame(self, kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        if (kind == CONTINUATION) != (self._block is not None):
            raise Http2Error("its headers are interrupted")
        if kind in (SETTINGS, PING) and not flags & ACK:
            return _frame(kind, ACK, 0, payload if kind == PING else b"")
        if kind == GOAWAY and int.from_bytes(payload[:4]) & MAX_WINDOW_BYTES < STREAM:
            raise Http2Error(f"it refuses new calls: {payload[8:].decode(errors='replace')[:200]}")
        if stream == STREAM:
            self._receive_stream_frame(kind, flags, payload)
        return b""

    def _receive_stream_frame(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == RESET:
            number = int.from_bytes(payload[:4])
            self.status = Status(_CODES_OF_RESET.get(number, "INTERNAL"), f"the call was reset with code {number}")
        elif kind == PUSH:
            raise Http2Error("it pushes answers")
        elif kind == DATA:
            self._body += _unpadded(flags, payload)
            if len(self._body) > MAX_MESSAGE_BYTES + PREFIX_BYTES:
                self.status = Status("RESOURCE_EXHAUSTED", f"the answer is larger than {MAX_MESSAGE_BYTES >> 20} MB")
            elif flags & END_STREAM:
                self._end()
        elif kind in (HEADERS, CONTINUATION):
            if kind == HEADERS:
                self._block, self._ends_stream = bytearray(), bool(flags & END_STREAM)
                payload = _unpadded(flags, payload)[5 if flags & PRIORITY else 0 :]
            assert self._block is not None
            self._block += payload
            if len(self._block) > MAX_HEADER_BYTES:
                raise Http2Error("its headers are too large")
            if flags & END_HEADERS:
                self._read_headers(bytes(self._block))

    def _read_headers(self, block: bytes) -> None:
        self._block = None
        try:
            self._headers.update(self._decoder.decode(block))
        except hpack.HeaderError as error:
            raise Http2Error(str(error)) from None
        if self._ends_stream:
            self._end()

    def _end(self) -> None:
        """Set the status of the call from the trailers."""
        number, http = self._headers.get("grpc-status"), self._headers.get(":status", "")
        if number is None:
            self.status = Status(_CODES_OF_HTTP.get(http, "UNKNOWN"), f"an answer of HTTP with status {http[:20]}")
            return
        known = number.isdecimal() and int(number) < len(CODES)
        code, details = (
            CODES[int(number)] if known else "UNKNOWN",
            _percent_decoded(self._headers.get("grpc-message", "")),
        )
        if code == "OK" and not self._is_one_message():
            code, details = "INTERNAL", "the answer is not one message"
        self.status = Status(code, details)

    def _is_one_message(self) -> bool:
        return self._body[:1] == b"\0" and int.from_bytes(self._body[1:PREFIX_BYTES]) == len(self._body) - PREFIX_BYTES


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def _unpadded(flags: int, payload: bytes) -> bytes:
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Http2Error("its padding is too long")
    return payload[1 : len(payload) - payload[0]]


def _percent_decoded(text: str) -> str:
    """Decode a message as gRPC encodes it: bytes outside of printable ASCII, and the percent sign, as %XX."""
    first, *rest = text.encode("latin-1").split(b"%")
    found = bytearray(first)
    for part in rest:
        try:
            found += bytes.fromhex(part[:2].decode("ascii")) + part[2:]
        except ValueError:
            found += b"%" + part
    return found.decode(errors="replace")
