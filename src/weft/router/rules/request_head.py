"""The head of a request: what the router reads in it, what it refuses, and what the replica gets."""

from __future__ import annotations

import re
from typing import Final

from weft.router.rules.refusals import Refusal, bad_request
from weft.router.rules.target import HOST

SPECIAL: Final = frozenset(
    (
        b"authorization", b"connection", b"content-length", b"expect", b"host", b"keep-alive", b"proxy-authorization",
        b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"x-forwarded-for",
        b"x-forwarded-prefix", b"x-forwarded-proto", b"x-request-id", b"x-weft-replica",
    )
)  # fmt: skip
"""Headers that are not passed on as they are."""
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
_HOST: Final = re.compile(rb"%b*" % HOST)


class RequestHead:
    """The request line and headers of one request."""

    __slots__ = (
        "authorization", "chunked", "connection", "content_length", "expects", "forwarded_for", "forwarded_proto",
        "host", "hosts", "is_upgrade", "keep_alive", "lines", "method", "minor", "problem", "request_id", "target",
        "upgrade",
    )  # fmt: skip

    def __init__(self) -> None:
        self.method = b""
        self.target = b""
        self.minor = 1
        """The version is HTTP/1.`minor`."""
        self.keep_alive = True
        self.lines: list[bytes] = []
        """Headers that are passed on, each with its line end."""
        self.host = b""
        self.hosts = 0
        self.content_length: int | None = None
        self.chunked = False
        self.connection: bytes | None = None
        self.upgrade: bytes | None = None
        self.is_upgrade = False
        self.expects = False
        self.request_id = b""
        self.authorization: bytes | None = None
        self.forwarded_for = b""
        self.forwarded_proto = b""
        self.problem: Refusal | None = None

    def add(self, key: bytes, value: bytes) -> None:
        """Read a header of `SPECIAL`; `key` is in lower case."""
        if key == b"host":
            self.host, self.hosts = value, self.hosts + 1
        elif key == b"content-length":
            self.content_length = int(value)  # the parser has refused everything but digits
        elif key == b"connection":
            self.connection = value if self.connection is None else self.connection + b"," + value
        elif key == b"transfer-encoding":
            self.chunked = True
            if value.lower() != b"chunked":
                self.problem = Refusal(501, "unknown_encoding", "the only transfer encoding is chunked")
        elif key == b"upgrade":
            self.upgrade = value
        elif key == b"expect":
            self.expects = value.lower() == b"100-continue"
            if not self.expects:
                self.problem = Refusal(417, "unknown_expectation", "the only expectation is 100-continue")
        elif key == b"x-request-id":
            if _REQUEST_ID.fullmatch(value):
                self.request_id = value
        elif key == b"authorization":
            if self.authorization is not None:
                self.problem = bad_request("two Authorization headers")
            self.authorization = value
        elif key == b"x-forwarded-for":
            self.forwarded_for += (b", " if self.forwarded_for else b"") + value
        elif key == b"x-forwarded-proto" and value in (b"http", b"https"):
            self.forwarded_proto = value

    def check(self, version: str) -> Refusal | None:
        """Return what is wrong with the head, apart from what the parser refuses."""
        if self.problem is not None:
            return self.problem
        if version not in ("1.1", "1.0"):
            return Refusal(505, "unknown_version", "the versions are HTTP/1.1 and HTTP/1.0")
        self.minor = 1 if version == "1.1" else 0
        if self.hosts > 1 or (self.minor and not self.hosts) or not _HOST.fullmatch(self.host):
            return bad_request("one valid Host header is needed")
        if self.chunked and not self.minor:
            return bad_request("HTTP/1.0 has no transfer encodings")
        if self.method == b"CONNECT":
            return Refusal(501, "not_a_tunnel", "CONNECT is not supported")
        tokens = self.connection_tokens() if self.connection is not None else ()
        self.is_upgrade = self.minor == 1 and b"upgrade" in tokens and (self.upgrade or b"").lower() == b"websocket"
        if self.is_upgrade and (self.chunked or self.content_length):
            return bad_request("an upgrade has no body")
        return None

    def connection_tokens(self) -> tuple[bytes, ...]:
        return tuple(token.strip().lower() for token in (self.connection or b"").split(b","))

    def render(self, target: bytes, prefix: bytes, peer: bytes, scheme: bytes, length: int | None) -> bytes:
        """Return the head that a replica gets.

        `length` is the length of the body; None: the body is sent in chunks. The header of the router's token does
        not leave the router, see `authorization`.
        """
        lines = self.lines
        if self.connection is not None:
            named = set(self.connection_tokens())
            if named - {b"close", b"keep-alive", b"upgrade"}:
                lines = [line for line in lines if line.partition(b":")[0].lower() not in named]
        parts = [b"%b %b HTTP/1.1\r\nHost: %b\r\n" % (self.method, target, self.host), *lines]
        if self.authorization is not None:
            parts.append(b"Authorization: %b\r\n" % self.authorization)
        if length is None:
            parts.append(b"Transfer-Encoding: chunked\r\n")
        elif length or self.content_length is not None or self.chunked:
            parts.append(b"Content-Length: %d\r\n" % length)
        if prefix:
            parts.append(b"X-Forwarded-Prefix: %b\r\n" % prefix)
        if self.is_upgrade:
            parts.append(b"Connection: Upgrade\r\nUpgrade: websocket\r\n")
        before = self.forwarded_for + b", " if self.forwarded_for else b""
        parts.append(
            b"X-Forwarded-For: %b%b\r\nX-Forwarded-Proto: %b\r\nX-Request-Id: %b\r\n\r\n"
            % (before, peer, self.forwarded_proto or scheme, self.request_id)
        )
        return b"".join(parts)
