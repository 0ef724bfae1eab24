"""Headers of HTTP/2 (HPACK, RFC 7541), as far as gRPC uses them: names and values are printable ASCII.

Only calls without the gRPC library use this module. The `hpack` package takes 11 ms of CPU time to import, this module
less than one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

MAX_TABLE_BYTES: Final = 4096
"""The size of the dynamic table that HTTP/2 gives both sides by default."""
ENTRY_BYTES: Final = 32
"""Size of an entry of the dynamic table in addition to its text."""
MAX_INTEGER_BYTES: Final = 4
_SECRETS: Final = ("authorization",)
_NAMES: Final = """
:authority :method=GET :method=POST :path=/ :path=/index.html :scheme=http :scheme=https :status=200 :status=204
:status=206 :status=304 :status=400 :status=404 :status=500 accept-charset accept-encoding=gzip,deflate accept-language
accept-ranges accept access-control-allow-origin age allow authorization cache-control content-disposition
content-encoding content-language content-length content-location content-range content-type cookie date etag expect
expires from host if-match if-modified-since if-none-match if-range if-unmodified-since last-modified link location
max-forwards proxy-authenticate proxy-authorization range referer refresh retry-after server set-cookie
strict-transport-security transfer-encoding user-agent vary via www-authenticate
"""
_STATIC: Final = tuple(
    (name, value.replace(",", ", ")) for name, _, value in (entry.partition("=") for entry in _NAMES.split())
)
"""The headers that have a number in every connection, from 1 on."""
_SYMBOLS: Final = {
    5: "012aceiost", 6: " %-./3456789=A_bdfghlmnpru", 7: ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz", 8: "&*,;XZ", 10: '!"()?',
    11: "'+|", 12: "#>", 13: "\0$@[]~", 14: "^}", 15: "<`{", 19: "\\",
}  # fmt: skip
"""The Huffman code of ASCII: characters by the length of their codes, which are consecutive numbers."""


class HeaderError(ValueError):
    """The bytes are not headers, or headers that gRPC does not send."""


def encode(headers: Iterable[tuple[str, str]]) -> bytes:
    """Encode headers as literals. Forbid proxies to index secrets."""
    found = bytearray()
    for name, value in headers:
        found.append(0x10 if name in _SECRETS else 0)
        for text in (name.encode("ascii"), value.encode("ascii", "replace")):
            found += _encode_length(len(text)) + text
    return bytes(found)


def _encode_length(length: int) -> bytes:
    if length < 0x7F:
        return bytes((length,))
    found, rest = bytearray((0x7F,)), length - 0x7F
    while rest >= 0x80:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


class Decoder:
    """Decodes the header blocks of one connection, in their order."""

    def __init__(self) -> None:
        self._table: list[tuple[str, str]] = []
        self._limit = MAX_TABLE_BYTES

    def decode(self, block: bytes) -> Iterator[tuple[str, str]]:
        at = 0
        while at < len(block):
            first = block[at]
            if first & 0x80:
                index, at = _integer(block, at, 7)
                yield self._entry(index)
            elif first & 0xE0 == 0x20:
                self._limit, at = _integer(block, at, 5)
                if self._limit > MAX_TABLE_BYTES:
                    raise HeaderError("the table of headers is too large")
                self._evict()
            else:
                indexed = bool(first & 0x40)
                index, at = _integer(block, at, 6 if indexed else 4)
                name, at = (self._entry(index)[0], at) if index else _text(block, at)
                value, at = _text(block, at)
                if indexed:
                    self._table.insert(0, (name, value))
                    self._evict()
                yield name, value

    def _entry(self, index: int) -> tuple[str, str]:
        if 0 < index <= len(_STATIC):
            return _STATIC[index - 1]
        if 0 < index <= len(_STATIC) + len(self._table):
            return self._table[index - len(_STATIC) - 1]
        raise HeaderError(f"there is no header {index}")

    def _evict(self) -> None:
        while sum(len(name) + len(value) + ENTRY_BYTES for name, value in self._table) > self._limit:
            self._table.pop()


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """Return the integer whose first byte has this many bits of it, and the position after it."""
    if at >= len(block):
        raise HeaderError("the headers are incomplete")
    largest = (1 << bits) - 1
    found, at = block[at] & largest, at + 1
    if found < largest:
        return found, at
    for place, byte in enumerate(block[at : at + MAX_INTEGER_BYTES]):
        found += (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            return found, at + place + 1
    raise HeaderError("a number in the headers is too large or incomplete")


def _text(block: bytes, at: int) -> tuple[str, int]:
    compressed = at < len(block) and bool(block[at] & 0x80)
    size, at = _integer(block, at, 7)
    text = block[at : at + size]
    if len(text) < size:
        raise HeaderError("the headers are incomplete")
    return _decompress(text) if compressed else text.decode("latin-1"), at + size


def _decompress(text: bytes) -> str:
    codes, found = _codes(), []
    code, length = 0, 0
    for byte in text:
        for place in range(7, -1, -1):
            code, length = code << 1 | byte >> place & 1, length + 1
            symbol = codes.get((length, code))
            if symbol is not None:
                found.append(symbol)
                code, length = 0, 0
    if length > 7 or code != (1 << length) - 1:  # the rest of the last byte is padding, all ones
        raise HeaderError("a header has characters that are not ASCII")
    return "".join(found)


@cache
def _codes() -> dict[tuple[int, int], str]:
    """Return the characters by the length and value of their Huffman codes."""
    found, code, before = {}, 0, 0
    for length, symbols in _SYMBOLS.items():
        code <<= length - before
        before = length
        for symbol in symbols:
            found[length, code] = symbol
            code += 1
    return found
