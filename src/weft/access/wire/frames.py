"""The framing of calls on a unix socket: one call per connection, protobuf messages with a length before each.

    request   "WEFT", protocol (2 bytes), length of the method's name (2), length of the message (4), name, message
    answer    frames of kind (1 byte), length (4), body: messages, then for a stream its end; or an error as JSON

The socket does not use gRPC: importing it costs a command more CPU time than everything else.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from weft.access.wire.protocol import PROTOCOL
from weft.access.wire.service import MAX_MESSAGE_BYTES

MAGIC: Final = b"WEFT"
MAX_NAME_BYTES: Final = 64
_HEAD: Final = Struct(">4sHHI")
_FRAME: Final = Struct(">cI")
FRAME_BYTES: Final = _FRAME.size
MESSAGE, END, ERROR = b"M", b"E", b"X"
KINDS: Final = (MESSAGE, END, ERROR)


class ProtocolError(Exception):
    """The bytes do not belong to this protocol."""


class Head(NamedTuple):
    """The head of a request, and the position of the message in it."""

    protocol: int
    method: str
    start: int
    size: int


def encode_request(method: str, message: bytes) -> bytes:
    name = method.encode("ascii")
    return _HEAD.pack(MAGIC, PROTOCOL, len(name), len(message)) + name + message


def decode_head(buffer: bytearray) -> Head | None:
    """Return the head of the request in the buffer; None while bytes of it are missing."""
    if not MAGIC.startswith(buffer[: len(MAGIC)]):
        raise ProtocolError
    if len(buffer) < _HEAD.size:
        return None
    _, protocol, name_bytes, size = _HEAD.unpack_from(buffer)
    if name_bytes > MAX_NAME_BYTES:
        raise ProtocolError
    start = _HEAD.size + name_bytes
    if len(buffer) < start:
        return None
    return Head(protocol, buffer[_HEAD.size : start].decode("ascii", "replace"), start, size)


def encode_frame(kind: bytes, body: bytes = b"") -> bytes:
    return _FRAME.pack(kind, len(body)) + body


def decode_frame(head: bytes) -> tuple[bytes, int]:
    """Return the kind and the length that the head of a frame announces."""
    kind, size = _FRAME.unpack(head)
    if kind not in KINDS or size > MAX_MESSAGE_BYTES:
        raise ProtocolError
    return kind, size
