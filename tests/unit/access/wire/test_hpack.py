"""Headers of HTTP/2: the examples of RFC 7541, what this end sends, and bytes that are not headers."""

from __future__ import annotations

import random

import pytest

from weft.access.wire.hpack import Decoder, HeaderError, encode

EXAMPLES = {
    "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff": [
        (":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com"),
    ],
    "8286 84be 5886 a8eb 1064 9cbf": [
        (":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com"),
        ("cache-control", "no-cache"),
    ],
    "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf": [
        (":method", "GET"), (":scheme", "https"), (":path", "/index.html"), (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ],
}  # fmt: skip
"""Appendix C.4: three requests on one connection, with Huffman codes and the dynamic table."""
ADD = bytes((0x40,))
"""A new name and its value, to be added to the table."""


def entry(name: bytes, value: bytes) -> bytes:
    return ADD + bytes((len(name),)) + name + bytes((len(value),)) + value


def test_the_examples_of_the_rfc() -> None:
    decoder = Decoder()
    for block, headers in EXAMPLES.items():
        assert list(decoder.decode(bytes.fromhex(block))) == headers


@pytest.mark.parametrize("length", [0, 1, 126, 127, 128, 254, 255, 5000])
def test_what_is_sent_can_be_read(length: int) -> None:
    headers = [(":path", "/weft"), ("authorization", "x" * length), ("te", "trailers")]
    assert list(Decoder().decode(encode(headers))) == headers


def test_secrets_are_never_indexed_by_a_proxy() -> None:
    assert encode([("authorization", "t")])[0] == 0x10
    assert encode([("te", "t")])[0] == 0
    assert encode([("te", "é")]).endswith(b"?")


def test_the_table_forgets_the_oldest_entries() -> None:
    decoder = Decoder()
    assert list(decoder.decode(entry(b"a", b"1") + entry(b"b", b"2") + bytes((0x80 | 62, 0x80 | 63)))) == [
        ("a", "1"), ("b", "2"), ("b", "2"), ("a", "1"),
    ]  # fmt: skip
    assert list(decoder.decode(bytes((0x20 | 31, 3, 0x80 | 62)))) == [("b", "2")], "34 bytes hold one entry"
    with pytest.raises(HeaderError, match="no header 63"):
        list(decoder.decode(bytes((0x80 | 63,))))


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (b"\x80", "no header 0"),
        (b"\xff\xff\xff\xff\xff\x7f", "too large"),
        (b"\x3f\xff\xff\x7f", "table of headers is too large"),
        (b"\x00", "incomplete"),
        (b"\x00\x05ab", "incomplete"),
        (b"\x00\x01a\x84\xff\xff\xff\xff", "not ASCII"),
        (b"\x00\x01a\x81\x00", "not ASCII"),
    ],
)
def test_what_is_wrong_is_named(block: bytes, why: str) -> None:
    with pytest.raises(HeaderError, match=why):
        list(Decoder().decode(block))


def test_random_bytes_are_headers_or_refused() -> None:
    chance = random.Random(7)
    for _ in range(3000):
        decoder = Decoder()
        try:
            for _ in range(3):
                assert all(isinstance(each, tuple) for each in decoder.decode(chance.randbytes(chance.randrange(30))))
        except HeaderError:
            continue
