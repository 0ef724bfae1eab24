"""Errors as a client is told of them: a status of gRPC, and what went wrong as JSON."""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

import grpc

from weft.errors import InputError, JournalError, NotFound, NotPermitted, Refused, WeftError

CODES: Final[dict[type[WeftError], grpc.StatusCode]] = {
    NotFound: grpc.StatusCode.NOT_FOUND,
    NotPermitted: grpc.StatusCode.PERMISSION_DENIED,
    Refused: grpc.StatusCode.FAILED_PRECONDITION,
    JournalError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    InputError: grpc.StatusCode.INVALID_ARGUMENT,
}


async def abort(context: Any, error: WeftError, code: grpc.StatusCode | None = None) -> NoReturn:
    """What went wrong goes over whole: its kind, message and hint."""
    usual = next((code for kind, code in CODES.items() if isinstance(error, kind)), grpc.StatusCode.UNKNOWN)
    hint = error.hint if isinstance(error, InputError) else ""
    what = f"{error.where}: {error.what}" if isinstance(error, InputError) and error.where else str(error)
    what = what if not isinstance(error, InputError) or error.where else error.what
    await context.abort(code or usual, json.dumps({"kind": type(error).__name__, "what": what, "hint": hint}))
    raise AssertionError("abort raises")
