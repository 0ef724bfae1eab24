"""Errors as gRPC statuses, with their details as JSON."""

from __future__ import annotations

from typing import Any, Final, NoReturn

import grpc

from weft.access.wire.failures import encode_error
from weft.errors import (
    Deposed,
    InputError,
    JournalError,
    NotAuthenticated,
    NotFound,
    NotLeading,
    NotPermitted,
    Refused,
    WeftError,
)

CODES: Final[dict[type[WeftError], grpc.StatusCode]] = {
    NotFound: grpc.StatusCode.NOT_FOUND,
    NotAuthenticated: grpc.StatusCode.UNAUTHENTICATED,
    NotPermitted: grpc.StatusCode.PERMISSION_DENIED,
    Refused: grpc.StatusCode.FAILED_PRECONDITION,
    NotLeading: grpc.StatusCode.UNAVAILABLE,
    Deposed: grpc.StatusCode.UNAVAILABLE,
    JournalError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    InputError: grpc.StatusCode.INVALID_ARGUMENT,
}


async def abort(context: Any, error: WeftError, code: grpc.StatusCode | None = None) -> NoReturn:
    """Send the error with all its parts, so that the client can raise it again."""
    usual = next((code for kind, code in CODES.items() if isinstance(error, kind)), grpc.StatusCode.UNKNOWN)
    await context.abort(code or usual, encode_error(error))
    raise AssertionError("abort raises")
