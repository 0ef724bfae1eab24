"""The head of a replica's answer: how its body ends, and what the client gets."""

from __future__ import annotations

from typing import Final

SPECIAL: Final = frozenset(
    (
        b"connection", b"content-length", b"keep-alive", b"proxy-authenticate", b"proxy-connection", b"trailer",
        b"transfer-encoding", b"upgrade", b"x-request-id", b"x-weft-replica",
    )
)  # fmt: skip
"""Headers that are not passed on as they are."""
BODILESS: Final = frozenset((204, 304))


class AnswerHead:
    """The status line and headers of one answer."""

    __slots__ = ("bodiless", "chunked", "connection", "content_length", "lines", "reason", "status", "upgrade")

    def __init__(self) -> None:
        self.status = 0
        self.reason = b""
        self.lines: list[bytes] = []
        self.content_length: bytes | None = None
        self.chunked = False
        self.connection: bytes | None = None
        self.upgrade: bytes | None = None
        self.bodiless = False

    def add(self, key: bytes, value: bytes) -> bool:
        """Read a header of `SPECIAL`; `key` is in lower case. Return False if the answer cannot be passed on."""
        if key == b"content-length":
            self.content_length = value
        elif key == b"transfer-encoding":
            self.chunked = True
            return value.lower() == b"chunked"
        elif key == b"connection":
            self.connection = value if self.connection is None else self.connection + b"," + value
        elif key == b"upgrade":
            self.upgrade = value
        return True

    def render(self, *, http10: bool, method: bytes, keep_alive: bool, marks: bytes) -> tuple[bytes, bool, bool]:
        """Return the head that the client gets, whether its body is in chunks, and whether the connection stays open.

        `marks` are the headers that the router adds.
        """
        lines = self.lines
        if self.connection is not None:
            named = {token.strip().lower() for token in self.connection.split(b",")}
            if named - {b"close", b"keep-alive", b"upgrade"}:
                lines = [line for line in lines if line.partition(b":")[0].lower() not in named]
        parts = [b"HTTP/1.1 %d %b\r\n" % (self.status, self.reason), *lines]
        self.bodiless = method == b"HEAD" or self.status in BODILESS
        in_chunks = False
        if self.status == 101:
            parts.append(b"Connection: Upgrade\r\nUpgrade: %b\r\n" % (self.upgrade or b"websocket"))
        elif self.content_length is not None:
            if self.status != 204:
                parts.append(b"Content-Length: %b\r\n" % self.content_length)
        elif not self.bodiless:
            in_chunks = not http10
            keep_alive = keep_alive and in_chunks
            if in_chunks:
                parts.append(b"Transfer-Encoding: chunked\r\n")
        if not keep_alive:
            parts.append(b"Connection: close\r\n")
        elif http10:
            parts.append(b"Connection: keep-alive\r\n")
        parts.append(marks)
        return b"".join(parts), in_chunks, keep_alive
