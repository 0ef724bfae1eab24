"""How one comes to a scheduler, and what it means when it does not answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

import grpc

from weft import errors
from weft.errors import InputError, NotFound, NotPermitted, Refused, Unreachable, WeftError

KINDS: Final = {
    "NotFound": NotFound, "NotPermitted": NotPermitted, "Refused": Refused, "JournalError": errors.JournalError,
}  # fmt: skip


class Route(Protocol):
    def open(self) -> Any:
        """A channel. Raises what to do where nobody can answer at all."""

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What is shown with each call."""

    def gone(self, details: str) -> WeftError:
        """Why nobody answers."""

    @property
    def advice(self) -> str:
        """Where to look when the scheduler itself fails."""

    def is_hopeless(self, *, spoke: bool) -> bool:
        """Whether nobody will answer a second time either; `spoke`: somebody has answered before."""

    def outlive(self) -> None:
        """Returns when the next call may find a scheduler again. Raises if it was told to end, or stays away."""


@contextmanager
def explained(route: Route, patience_s: float) -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        raise _told(error, route, patience_s) from None


def _told(error: Any, route: Route, patience_s: float) -> WeftError:
    """The error as the scheduler raised it."""
    code, details = error.code(), error.details() or ""
    if code == grpc.StatusCode.UNAVAILABLE:
        return route.gone(details)
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return Unreachable(
            f"the scheduler has not answered for {patience_s:.0f} s: it hangs, or has very much to do\n  {route.advice}"
        )
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return Unreachable(f"what listens there is an older Weft, or none: {details[:200]}\n  {route.advice}")
    try:
        body = json.loads(details)
        kind, what, hint = body["kind"], body["what"], body["hint"]
        place = {name: body[name] for name in ("where", "key", "index") if name in body}
    except (ValueError, KeyError, TypeError):
        return WeftError(f"the scheduler failed: {code.name}: {details[:500]}\n  {route.advice}")
    return KINDS[kind](what) if kind in KINDS else InputError(what, hint=hint, **place)
