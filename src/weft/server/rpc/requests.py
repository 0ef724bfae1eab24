"""Decode requests. Refuse those that are too large or malformed, before anything reads their content."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import DecodeError

from weft.access.wire.limits import check
from weft.access.wire.service import MAX_REQUEST_BYTES, Method
from weft.errors import InputError
from weft.server.process.cpu_shares import metered, payer
from weft.server.process.slices import at_once, in_slices

MAX_BYTES_AT_ONCE: Final = 64 << 10
"""Larger requests are checked before they are decoded, and in slices."""


def check_size(method: Method, size: int) -> None:
    """Raise if a request has too many bytes for this method."""
    if size > MAX_REQUEST_BYTES:
        raise InputError(
            f"the {method.request.DESCRIPTOR.name} has {size / 1e6:.1f} MB, "
            f"and the scheduler accepts {MAX_REQUEST_BYTES / 1e6:.1f} MB",
            hint="send less at a time, and put large values into files",
        )


async def decode(method: Method, content: bytes) -> Any:
    """Return a request of this method. Raise InputError if it is malformed, or if it has more than it may."""
    check_size(method, len(content))
    kind = method.request
    try:
        if len(content) <= MAX_BYTES_AT_ONCE:
            request = kind.FromString(content)
            at_once(check(kind.DESCRIPTOR, request))
            return request
        work = in_slices(check(kind.DESCRIPTOR, content))
        await (work if (account := payer()) is None else metered(account, work))
        return kind.FromString(content)
    except DecodeError:
        raise InputError(
            f"the request cannot be decoded as a {kind.DESCRIPTOR.name}",
            hint="bring both ends to the same version of Weft",
        ) from None
