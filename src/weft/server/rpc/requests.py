"""Requests as bytes: those that are too large or are no message are refused before anything walks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from google.protobuf.message import DecodeError

from weft.errors import InputError
from weft.wire.service import Method


@dataclass(frozen=True, slots=True)
class UnreadableRequest:
    """What came instead of a message of this type."""

    expected: str
    size: int = 0
    """Bytes, where there are too many of them to decode."""
    limit: int = 0

    def refuse(self) -> NoReturn:
        if self.size > self.limit:
            raise InputError(
                f"a {self.expected} of {self.size / 1e6:.1f} MB, and the scheduler accepts {self.limit / 1e6:.1f} MB",
                hint="send less at a time, and put large values into files",
            )
        raise InputError(
            f"what came is not a {self.expected}, but bytes that cannot be read",
            hint="bring both ends to the same version of Weft",
        )


def too_large(method: Method, size: int) -> UnreadableRequest | None:
    """Return what to refuse where a request of this method has too many bytes."""
    limit = method.max_request_bytes
    return UnreadableRequest(method.request.DESCRIPTOR.name, size, limit) if size > limit else None


def reader(method: Method) -> Callable[[bytes], Any]:
    """Return a function that decodes requests of this method."""

    def read(text: bytes) -> Any:
        if found := too_large(method, len(text)):  # before anything decodes or walks it
            return found
        try:
            return method.request.FromString(text)
        except DecodeError:
            return UnreadableRequest(method.request.DESCRIPTOR.name)

    return read
