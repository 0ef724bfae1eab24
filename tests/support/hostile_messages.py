"""Messages with one field that a peer has filled as badly as it can, found by reflection: new fields are covered too.

They are made as bytes: two million empty messages would take a gigabyte as objects, here as well as on the server.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import combinations
from struct import pack
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

Field = FieldDescriptor
MAX_BYTES = 4_100_000
WHOLE = {
    Field.TYPE_UINT32: (2**32 - 1,), Field.TYPE_UINT64: (2**64 - 1,), Field.TYPE_INT32: (2**31 - 1, -(2**31)),
    Field.TYPE_SINT32: (2**31 - 1, -(2**31)), Field.TYPE_INT64: (2**63 - 1, -(2**63)), Field.TYPE_ENUM: (2**31 - 1,),
    Field.TYPE_BOOL: (1,),
}  # fmt: skip
FRACTIONS = (float("inf"), float("-inf"), float("nan"), -1.0, 1e308)
TEXTS = (
    "x" * 4_000_000, "9" * 4000, "0-99999%1", "@~999999999", "[" * 100_000, '{"a":' * 50_000, '"\\ud800"', "1e999",
    "a: &a [x]\nb: [" + "*a, " * 100_000 + "]", "\0", "*" * 300, "a\n" * 200_000, "0.1,1-3," * 100_000,
    "a: {" + "a," * 8000 + "}", "a: {" + "a," * 32_000 + "}",
)  # fmt: skip
LISTS = (
    ["1-20000"] * 300_000, [f"{first}-{first + 20_000}" for first in range(10_000)],
    [f"@~{back}" for back in range(10_000)], [f"task-{number}" for number in range(10_000)],
    [f"group-{number}/task-1" for number in range(10_000)], [f"{2 * number}-{2 * number}" for number in range(10_000)],
    [str(number) for number in range(10_000)], [""] * 1_000_000,
)  # fmt: skip


class Attack(NamedTuple):
    """A message as bytes, with its field and a word for what is wrong with it."""

    field: str
    what: str
    content: bytes


def attacks(base: Message, skip: Collection[str] = ()) -> Iterator[Attack]:
    """Yield the message with one bad field, for each field of it and of the messages in it, except in those to skip."""
    for path in _paths(base.DESCRIPTOR):
        if path[0].name in skip:
            continue
        for what, payload in _payloads(path[-1]):
            content = _craft(base, path, payload)
            if len(content) <= MAX_BYTES:
                yield Attack(".".join(field.name for field in path), what, content)


def paired_attacks(base: Message, skip: Collection[str] = ()) -> Iterator[Attack]:
    """Yield the message with two bad fields at its top level."""
    for one, other in combinations((field for field in base.DESCRIPTOR.fields if field.name not in skip), 2):
        for (what, first), (too, second) in zip(_payloads(one), _payloads(other), strict=False):
            content = base.SerializeToString() + first + second
            if len(content) <= MAX_BYTES:
                yield Attack(f"{one.name}+{other.name}", f"{what}+{too}", content)


def _paths(kind: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for field in kind.fields:
        yield (*above, field)
        if field.message_type is not None:
            yield from _paths(field.message_type, (*above, field))


def _craft(base: Message | None, path: Sequence[Any], payload: bytes) -> bytes:
    """Return the message with this payload in the field at the end of the path, inside its first nested messages."""
    if len(path) == 1:
        return (base.SerializeToString() if base is not None else b"") + payload
    field, nested = path[0], None
    rest = b""
    if base is not None:
        value = getattr(base, field.name)
        nested = (value[0] if len(value) else None) if field.is_repeated else value
        copy = type(base)()
        copy.CopyFrom(base)
        copy.ClearField(field.name)
        rest = copy.SerializeToString()
    return rest + _bytes(field, _craft(nested, path[1:], payload))


def _payloads(field: Any) -> Iterator[tuple[str, bytes]]:
    """Yield bad values of a field as bytes, each with a word for it."""
    if field.message_type is not None:
        yield "empty", _bytes(field, b"")
        if field.is_repeated:
            yield from (("thousand", _bytes(field, b"") * 1001), ("most", _bytes(field, b"") * (MAX_BYTES // 3)))
    elif field.type in (Field.TYPE_STRING, Field.TYPE_BYTES):
        for text in TEXTS:
            yield text[:20], _bytes(field, text.encode())
        for what, items in _lists() if field.is_repeated else ():
            tag = _varint(field.number << 3 | 2)
            yield what, tag + tag.join(items)
    elif field.type == Field.TYPE_DOUBLE:
        for number in FRACTIONS:
            yield str(number), _varint(field.number << 3 | 1) + pack("<d", number)
    else:
        for whole in WHOLE[field.type]:
            plain = (whole << 1) ^ (whole >> 31) if field.type == Field.TYPE_SINT32 else whole
            payload = _varint(field.number << 3) + _varint(plain % 2**64)
            yield str(whole), payload
            if field.is_repeated:
                yield f"many times {whole}", payload * (MAX_BYTES // len(payload) // 2)
                yield "many zeros", _bytes(field, b"\0" * (MAX_BYTES // 2))


@cache
def _lists() -> list[tuple[str, list[bytes]]]:
    """Return the long lists: what they hold, and their items with their length."""
    return [
        (f"{len(texts)} texts like {texts[-1]}", [_varint(len(text)) + text.encode() for text in texts])
        for texts in LISTS
    ]


def _bytes(field: Any, content: bytes) -> bytes:
    return _varint(field.number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
