"""Decode requests. Refuse those that are too large or malformed, before anything reads their content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from google.protobuf.message import DecodeError

from weft.errors import InputError
from weft.wire.service import Method


@dataclass(frozen=True, slots=True)
class UnreadableRequest:
    """A request that is too large or cannot be decoded."""

    expected: str
    size: int = 0
    """In bytes, if it is too large to decode."""
    limit: int = 0

    def refuse(self) -> NoReturn:
        if self.size > self.limit:
            raise InputError(
                f"the {self.expected} has {self.size / 1e6:.1f} MB, "
                f"and the scheduler accepts {self.limit / 1e6:.1f} MB",
                hint="send less at a time, and put large values into files",
            )
        raise InputError(
            f"the request cannot be decoded as a {self.expected}",
            hint="bring both ends to the same version of Weft",
        )


def too_large(method: Method, size: int) -> UnreadableRequest | None:
    """Return a request to refuse if it has too many bytes for this method."""
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
