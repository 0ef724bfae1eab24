"""The interface between the client and the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from weft.errors import Unreachable


class Transport(Protocol):
    """Carries calls to one scheduler.

    It raises errors as the scheduler raised them, and Unreachable, with the cause, if no answer comes.
    """

    @property
    def advice(self) -> str:
        """The hint of errors that the scheduler itself causes: where to find its log."""

    def open(self) -> None:
        """Connect, or connect again. Raise Unreachable with advice if no scheduler can answer."""

    def close(self) -> None:
        """Drop connections; `open` makes new ones."""

    def call(self, name: str, request: Any, timeout_s: float) -> Any:
        """Send one message and return the answer."""

    def stream(self, name: str, request: Any, timeout_s: float | None = None) -> Iterator[Any]:
        """Send one message and yield the answers."""

    def upload(self, name: str, requests: Iterator[Any], timeout_s: float) -> Any:
        """Send a stream of messages and return the answer."""

    def converse(self, name: str, requests: Iterator[Any]) -> Iterator[Any]:
        """Send a stream of messages and yield the answers meanwhile."""

    def is_hopeless(self, *, has_answered: bool) -> bool:
        """Return whether another attempt would also fail. `has_answered`: a scheduler answered an earlier call."""

    def await_scheduler(self) -> None:
        """Wait until the next call may find a scheduler. Raise if it was stopped on purpose or does not return."""


class NotSent(Unreachable):
    """The server could not be reached, or did not answer before it got the request: it did nothing."""


def timeout_error(timeout_s: float | None, advice: str) -> Unreachable:
    return Unreachable(
        f"the scheduler has not answered for {timeout_s or 0:.0f} s: it hangs or is overloaded\n  {advice}"
    )


def foreign_error(details: str, advice: str) -> Unreachable:
    return Unreachable(f"the server there is an older Weft, or not Weft: {details[:200]}\n  {advice}")
