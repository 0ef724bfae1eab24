"""The seam between the client and the wire: a transport carries calls to one scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from weft.errors import Unreachable


class Transport(Protocol):
    """Carries calls to one scheduler. Errors of the scheduler arrive as they were raised there; where no answer comes,
    Unreachable says why."""

    @property
    def advice(self) -> str:
        """Where to look when the scheduler itself fails."""

    def open(self) -> None:
        """Connect, or connect again. Raise what to do where no scheduler can answer at all."""

    def close(self) -> None:
        """Drop connections; `open` makes new ones."""

    def call(self, name: str, request: Any, timeout_s: float) -> Any:
        """Send one message and return the one that answers it."""

    def stream(self, name: str, request: Any, timeout_s: float | None = None) -> Iterator[Any]:
        """Send one message and yield those that answer it."""

    def upload(self, name: str, requests: Iterator[Any], timeout_s: float) -> Any:
        """Send a stream of messages and return the one that answers it."""

    def is_hopeless(self, *, spoke: bool) -> bool:
        """Return whether a second attempt would find no scheduler either; `spoke`: one has answered before."""

    def outlive(self) -> None:
        """Return when the next call may find a scheduler again. Raise if it was told to end, or stays away."""


def hanging(timeout_s: float | None, advice: str) -> Unreachable:
    return Unreachable(
        f"the scheduler has not answered for {timeout_s or 0:.0f} s: it hangs, or has very much to do\n  {advice}"
    )


def foreign(details: str, advice: str) -> Unreachable:
    return Unreachable(f"what listens there is an older Weft, or none: {details[:200]}\n  {advice}")
