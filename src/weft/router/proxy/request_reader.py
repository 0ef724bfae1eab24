"""Reads the requests of one client connection: parsing, strict checks and limits."""

from __future__ import annotations

from typing import Final, Protocol

import httptools

from weft.router.rules.refusals import HEAD_TOO_LARGE, Refusal, bad_request, body_too_large
from weft.router.rules.request_head import SPECIAL, RequestHead
from weft.router.settings import RouterSettings

LINE_BYTES: Final = 4
"""A colon, a blank and the line end."""


class RequestSink(Protocol):
    """Gets the parts of requests in the order in which they arrive."""

    def request_begun(self, head: RequestHead) -> None: ...

    def request_body(self, piece: bytes) -> None: ...

    def request_complete(self) -> None: ...

    def request_refused(self, refusal: Refusal) -> None:
        """The connection is out of step: nothing more can be read from it."""


class RequestReader:
    """The parser of one connection. `early` holds bytes that follow an upgrade."""

    __slots__ = (
        "_body_bytes", "_head", "_head_bytes", "_in_body", "_max_body_bytes", "_max_head_bytes", "_parser",
        "_silent_bytes", "_sink", "_url", "early", "ended", "in_head",
    )  # fmt: skip

    def __init__(self, sink: RequestSink, settings: RouterSettings) -> None:
        self._sink = sink
        self._max_head_bytes, self._max_body_bytes = settings.max_head_bytes, settings.max_body_bytes
        self._parser = httptools.HttpRequestParser(self)
        self._head = RequestHead()
        self._url = b""
        self._head_bytes = self._body_bytes = 0
        self._silent_bytes = 0
        """Bytes since the parser last found something: a header or a line between chunks may never end."""
        self._in_body = False
        self.in_head = False
        """True while part of a head has arrived."""
        self.ended = False
        """True once nothing more is read: after an error, an upgrade, or the last request of the connection."""
        self.early = b""

    def feed(self, data: bytes) -> None:
        """Read the next bytes of the connection."""
        while data and not self.ended:
            self._silent_bytes += len(data)
            try:
                self._parser.feed_data(data)
                data = b""
            except httptools.HttpParserUpgrade as upgrade:
                data = self._begin_upgrade(data[upgrade.args[0] :])
            except httptools.HttpParserError as error:
                if not self.ended:
                    self._refuse(bad_request(f"not valid HTTP: {error}"))
            if max(self._head_bytes, self._silent_bytes) > self._max_head_bytes and not self.ended:
                self._refuse(HEAD_TOO_LARGE)

    def _begin_upgrade(self, rest: bytes) -> bytes:
        """Return what is still to be read as HTTP: all of it, unless the upgrade is one that the router knows."""
        if self._head.is_upgrade or self.ended:
            self.ended, self.early = True, rest
            return b""
        self._parser = httptools.HttpRequestParser(self)
        return rest

    def _refuse(self, refusal: Refusal) -> None:
        self.ended = True
        self.in_head = self._in_body = False
        self._sink.request_refused(refusal)

    # ---- callbacks of the parser

    def on_message_begin(self) -> None:
        self._head = RequestHead()
        self._url = b""
        self._head_bytes = self._body_bytes = self._silent_bytes = 0
        self.in_head = True

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._head_bytes += len(url)
        self._silent_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value) + LINE_BYTES
        self._silent_bytes = 0
        if self._in_body:
            return  # trailers end at the router
        key = name.lower()
        if key in SPECIAL:
            self._head.add(key, value)
        else:
            self._head.lines.append(b"%b: %b\r\n" % (name, value))

    def on_headers_complete(self) -> None:
        if self.ended:
            return
        head, parser = self._head, self._parser
        head.method, head.target = parser.get_method(), self._url
        head.keep_alive = parser.should_keep_alive()
        self.in_head = False
        refusal = HEAD_TOO_LARGE if self._head_bytes > self._max_head_bytes else head.check(parser.get_http_version())
        if refusal is None and (head.content_length or 0) > self._max_body_bytes:
            refusal = body_too_large(self._max_body_bytes)
        if refusal is not None:
            self._refuse(refusal)
            return
        self._head_bytes = self._silent_bytes = 0
        self._in_body = True
        self._sink.request_begun(head)

    def on_body(self, piece: bytes) -> None:
        if self.ended:
            return
        self._silent_bytes = 0
        self._body_bytes += len(piece)
        if self._body_bytes > self._max_body_bytes:
            self._refuse(body_too_large(self._max_body_bytes))
        else:
            self._sink.request_body(piece)

    def on_message_complete(self) -> None:
        if self.ended:
            return
        self._in_body = False
        if self._head_bytes > self._max_head_bytes:
            self._refuse(HEAD_TOO_LARGE)
            return
        self._head_bytes = self._silent_bytes = 0
        if not self._head.keep_alive and not self._head.is_upgrade:
            self.ended = True  # what follows the last request is ignored
        self._sink.request_complete()
