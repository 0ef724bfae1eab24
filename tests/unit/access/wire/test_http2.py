"""A unary call on HTTP/2 without a network: what is sent, and what each answer of a server becomes."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from weft.access.wire import hpack, http2
from weft.access.wire.http2 import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PRIORITY,
    PUSH,
    RESET,
    SETTINGS,
    WINDOW,
    Http2Error,
    Status,
    UnaryCall,
)

HELLO = http2._frame(SETTINGS, 0, 0, b"")
OK = [(":status", "200"), ("content-type", "application/grpc")]


def headers(pairs: Iterable[tuple[str, str]], flags: int = END_HEADERS, before: bytes = b"") -> bytes:
    return http2._frame(HEADERS, flags, 1, before + hpack.encode(pairs))


def data(message: bytes, flags: int = 0) -> bytes:
    return http2._frame(DATA, flags, 1, b"\0" + len(message).to_bytes(4) + message)


def trailers(status: str, message: str = "") -> bytes:
    return headers([("grpc-status", status), ("grpc-message", message)], END_HEADERS | END_STREAM)


def made(message: bytes = b"hi") -> UnaryCall:
    return UnaryCall([(":method", "POST"), (":path", "/weft.v1.Scheduler/Query")], message)


def status_of(*frames: bytes) -> Status | None:
    call = made()
    call.receive(HELLO + b"".join(frames))
    return call.status


def split(stream: bytes) -> list[tuple[int, int, int, bytes]]:
    """Return kind, flags, stream and payload of each frame."""
    found, at = [], 0
    while at < len(stream):
        size = int.from_bytes(stream[at : at + 3])
        found.append((stream[at + 3], stream[at + 4], int.from_bytes(stream[at + 5 : at + 9]), stream[at + 9 :][:size]))
        at += 9 + size
    return found


def test_the_request_follows_the_preface_and_the_settings() -> None:
    call = made(b"x" * 40_000)
    opening = call.greeting + call.request
    assert opening.startswith(http2.PREFACE)
    settings, window, head, *body = split(opening.removeprefix(http2.PREFACE))
    assert settings[:3] == (SETTINGS, 0, 0)
    assert window[:3] == (WINDOW, 0, 0)
    assert head[:3] == (HEADERS, END_HEADERS, 1)
    assert [(kind, flags) for kind, flags, _, _ in body] == [(DATA, 0), (DATA, 0), (DATA, END_STREAM)]
    assert b"".join(payload for *_, payload in body) == b"\0" + (40_000).to_bytes(4) + b"x" * 40_000


def test_a_request_must_fit_the_first_window() -> None:
    assert made(b"x" * http2.MAX_CALL_BYTES).request
    with pytest.raises(ValueError, match="too large"):
        made(b"x" * (http2.MAX_CALL_BYTES + 1))
    with pytest.raises(ValueError, match="too large"):
        UnaryCall([("authorization", "x" * 20_000)], b"")


def test_an_answer_is_read_in_any_pieces() -> None:
    stream = HELLO + headers(OK) + data(b"answer") + trailers("0")
    for size in (1, 2, 7, len(stream)):
        call, sent = made(), b""
        for at in range(0, len(stream), size):
            sent += call.receive(stream[at : at + size])
        assert (call.status, call.reply) == (Status("OK"), b"answer")
        assert split(sent) == [(SETTINGS, ACK, 0, b"")]


def test_a_large_answer_comes_in_many_frames() -> None:
    message = bytes(100_000)
    body = b"\0" + len(message).to_bytes(4) + message
    parts = [http2._frame(DATA, 0, 1, body[at : at + 16_384]) for at in range(0, len(body), 16_384)]
    call = made()
    for part in (HELLO, headers(OK), *parts, trailers("0")):
        call.receive(part)
    assert call.reply == message


def test_pings_are_answered_and_other_frames_ignored() -> None:
    call = made()
    sent = call.receive(
        HELLO + http2._frame(PING, 0, 0, b"12345678") + http2._frame(PING, ACK, 0, b"87654321")
        + http2._frame(WINDOW, 0, 0, bytes(4)) + http2._frame(200, 0, 0, b"new") + http2._frame(RESET, 0, 3, bytes(4))
    )  # fmt: skip
    assert split(sent) == [(SETTINGS, ACK, 0, b""), (PING, ACK, 0, b"12345678")]
    assert call.status is None


def test_padding_priority_and_continued_headers() -> None:
    block = hpack.encode(OK)
    first = http2._frame(HEADERS, PADDED | PRIORITY, 1, b"\x03" + bytes(5) + block[:4] + bytes(3))
    rest = http2._frame(CONTINUATION, END_HEADERS, 1, block[4:])
    padded = http2._frame(DATA, PADDED, 1, b"\x02" + b"\0" + (1).to_bytes(4) + b"a" + bytes(2))
    call = made()
    call.receive(HELLO + first + rest + padded + trailers("0"))
    assert (call.status, call.reply) == (Status("OK"), b"a")


@pytest.mark.parametrize(
    ("frames", "status"),
    [
        ([headers(OK), trailers("5", "no job %25 1%0A %E2%82%AC %zz")], Status("NOT_FOUND", "no job % 1\n € %zz")),
        ([headers([*OK, ("grpc-status", "16")], END_HEADERS | END_STREAM)], Status("UNAUTHENTICATED")),
        ([headers(OK), trailers("99")], Status("UNKNOWN")),
        ([headers(OK), trailers("x")], Status("UNKNOWN")),
        ([headers(OK), trailers("0")], Status("INTERNAL", "the answer is not one message")),
        ([headers(OK), data(b"a"), data(b"b"), trailers("0")], Status("INTERNAL", "the answer is not one message")),
        ([headers([(":status", "404")], END_HEADERS | END_STREAM)],
         Status("UNIMPLEMENTED", "an answer of HTTP with status 404")),
        ([headers([(":status", "503")]), data(b"busy", END_STREAM)],
         Status("UNAVAILABLE", "an answer of HTTP with status 503")),
        ([http2._frame(RESET, 0, 1, (7).to_bytes(4))], Status("UNAVAILABLE", "the call was reset with code 7")),
        ([http2._frame(RESET, 0, 1, (2).to_bytes(4))], Status("INTERNAL", "the call was reset with code 2")),
        ([http2._frame(GOAWAY, 0, 0, (1).to_bytes(4) + bytes(4))], None),
    ],
)  # fmt: skip
def test_each_end_has_a_status(frames: list[bytes], status: Status | None) -> None:
    assert status_of(*frames) == status


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        ([http2._frame(GOAWAY, 0, 0, bytes(8) + b"too many pings")], "too many pings"),
        ([http2._frame(PUSH, 0, 1, b"")], "pushes"),
        ([http2._frame(CONTINUATION, 0, 1, b"")], "interrupted"),
        ([headers(OK, 0), http2._frame(PING, 0, 0, bytes(8))], "interrupted"),
        ([headers(OK, END_HEADERS | PADDED, b"\xff")], "padding"),
        ([http2._frame(HEADERS, END_HEADERS, 1, b"\x80")], "no header 0"),
        ([headers(OK, 0), *[http2._frame(CONTINUATION, 0, 1, bytes(16_000))] * 5], "too large"),
    ],
)  # fmt: skip
def test_a_server_that_breaks_the_protocol_is_refused(frames: list[bytes], why: str) -> None:
    with pytest.raises(Http2Error, match=why):
        status_of(*frames)


@pytest.mark.parametrize("text", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\x03\x01\0\x02\x02\x46abcd", data(b"a")])
def test_another_protocol_is_noticed(text: bytes) -> None:
    with pytest.raises(Http2Error, match="does not speak HTTP/2"):
        made().receive(text)


def test_an_answer_over_the_limit_is_refused_before_it_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2, "MAX_MESSAGE_BYTES", 100)
    found = status_of(headers(OK), data(bytes(200)))
    assert found is not None
    assert found.code == "RESOURCE_EXHAUSTED"


def test_random_frames_end_with_a_status_or_an_error() -> None:
    chance = random.Random(3)
    for _ in range(3000):
        call = made()
        try:
            call.receive(HELLO)
            for _ in range(6):
                payload = chance.randbytes(chance.randrange(20))
                call.receive(http2._frame(chance.randrange(11), chance.randrange(256), chance.randrange(2), payload))
        except Http2Error:
            continue
