"""The most that a request may hold, checked before anything works on it.

A request of 4 MB can have two million empty jobs, and each takes 500 bytes of memory once it is decoded. So a large one
is first read one level deep, as a *shallow* message whose nested messages and texts are bytes: they are counted before
any of them is made.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import cache
from math import isfinite
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from weft.access.wire.messages import shallow
from weft.errors import InputError

MAX_ITEMS: Final = 1000
"""The limit for repeated fields that `ITEMS` does not name."""
ITEMS: Final = {
    "SubmitRequest.jobs": 100_000, "SubmitRequest.env": 4096, "DeployRequest.env": 4096,
    "JobSpec.env": 4096, "JobSpec.command": 100_000, "JobSpec.params": 4096, "JobSpec.after": 10_000,
    "JobSpec.memory_mb": 10_000, "JobSpec.gpu_ids": 10_000, "JobSpec.gpu_choice": 10_000,
    "QueryRequest.jobs": 10_000, "ChangeRequest.jobs": 10_000, "WhatIfRequest.cancel": 10_000,
    "WhatIfRequest.priorities": 10_000,
    "Hello.runs": 20_000, "Heartbeat.runs": 20_000, "Hello.blocks": 10_240, "Heartbeat.blocks": 10_240,
    "GpuNews.blocks": 10_240, "GpuNews.measured": 100_000, "NodeSpec.gpus": 1024, "NodeStatus.readings": 1024,
    "NodeStatus.shares": 100_000, "Kept.jobs": 1_000_000, "TerminalPart.command": 100_000,
}  # fmt: skip
"""The most items of a repeated field."""
HINTS: Final = {
    "jobs": "name a range such as 3-7, or an array by its number: each counts as one",
    "env": "put them into a file",
    "after": "name an array by its number: it counts as one",
}
MAX_RECORDS: Final = 500_000
"""The most nested messages, in all."""
MAX_NUMBER: Final = 1e15
"""The largest number in a field that may have fractions: seconds since 1970 and more."""


class _Field(NamedTuple):
    """A field of which something is checked. A limit of 0 stands for a field that is not repeated."""

    name: str
    limit: int
    is_number: bool
    kind: Any
    """The descriptor of the nested message, if there is anything to check in it."""


def check(kind: Any, content: Message | bytes) -> Generator[None, None, None]:
    """Raise InputError if a request has more items than it may, or a number that is none. `content` is a message of
    this kind, or its bytes, which may raise DecodeError. Pause after each nested message."""
    records = 0
    left: list[tuple[Any, Message | bytes]] = [(kind, content)]
    while left:
        kind, content = left.pop()
        fields = _fields(kind)
        message = shallow(kind.name).FromString(content) if isinstance(content, bytes) else content
        for described, value in message.ListFields():
            field = fields.get(described.number)
            if field is None:
                continue
            if field.limit:
                records += len(value) if described.message_type is not None or isinstance(content, bytes) else 0
                _check_count(kind.name, field, len(value), records)
            for item in value if field.limit else (value,):
                if field.kind is not None:
                    left.append((field.kind, item))
                elif field.is_number and not (isfinite(item) and abs(item) <= MAX_NUMBER):
                    raise InputError(f"{item} is no number that a {kind.name} can have", key=field.name)
                else:
                    break  # items without anything to check
        yield


def _check_count(kind: str, field: _Field, count: int, records: int) -> None:
    if count > field.limit:
        raise InputError(
            f"{count:,} items in one {kind}; at most {field.limit:,} are accepted",
            hint=HINTS.get(field.name, "send less at a time"), key=field.name,
        )  # fmt: skip
    if records > MAX_RECORDS:
        raise InputError(f"the request has more than {MAX_RECORDS:,} parts", hint="send less at a time", key=field.name)


@cache
def _fields(kind: Any) -> dict[int, _Field]:
    """Return the fields of a message of which anything is checked, by number."""
    found = {}
    for field in kind.fields:
        limit = ITEMS.get(f"{kind.name}.{field.name}", MAX_ITEMS) if field.is_repeated else 0
        nested = field.message_type if field.message_type is not None and _fields(field.message_type) else None
        is_number = field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT)
        if limit or nested is not None or is_number:
            found[field.number] = _Field(field.name, limit, is_number, nested)
    return found
