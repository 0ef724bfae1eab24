"""The transport to a scheduler with several servers, of which one leads: it finds the leader, also after a take-over.

A call goes to the server that answered last. A server that is a standby, cannot be reached, or has stopped without
closing its port did nothing: the call then goes to the next one, until its time is over. After any other failure the
next call goes to another server; whether this one had an effect is not known, and its caller decides whether to repeat
it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from weft.access.client.remote import RemoteTransport
from weft.access.client.transport import NotSent
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import Credentials, find_credentials
from weft.access.wire import messages as m
from weft.errors import NotLeading, Unreachable

T = TypeVar("T")
SILENCE_S: Final = 2.0
"""A server that says nothing for this long has stopped: it accepts connections, but does not greet."""
PAUSE_S: Final = 0.1
RETURN_TIMEOUT_S: Final = 60.0
"""Time to wait for a server that leads."""


class FailoverTransport:
    def __init__(self, where: Address, credentials: Credentials | None = None) -> None:
        self.where, self._credentials = where, credentials
        self._servers: list[RemoteTransport] = []
        self._at = 0

    @property
    def advice(self) -> str:
        return f"see server.log in the folders of the servers at {self.where}"

    def open(self) -> None:
        self.close()
        self._credentials = self._credentials or find_credentials(self.where)
        self._servers = [RemoteTransport(each, self._credentials, silence_s=SILENCE_S) for each in self.where.servers]

    def close(self) -> None:
        for server in self._servers:
            server.close()

    def call(self, name: str, request: Any, timeout_s: float) -> Any:
        return self._attempt(lambda server, left_s: server.call(name, request, left_s), timeout_s)

    def stream(self, name: str, request: Any, timeout_s: float | None = None) -> Iterator[Any]:
        def begin(server: RemoteTransport, _: float) -> tuple[list[Any], Iterator[Any]]:
            replies = server.stream(name, request, timeout_s)
            first = next(replies, None)  # a standby refuses before the first reply
            return ([] if first is None else [first]), replies

        if name == "Watch" or timeout_s is None:  # the first reply may take for ever
            self._find_leader(RETURN_TIMEOUT_S)
            replies = self._current.stream(name, request, timeout_s)
        else:
            first, replies = self._attempt(begin, timeout_s)
            yield from first
        yield from self._watched(replies)

    def upload(self, name: str, requests: Iterator[Any], timeout_s: float) -> Any:
        self._find_leader(timeout_s)
        return self._current.upload(name, requests, timeout_s)

    def converse(self, name: str, requests: Iterator[Any]) -> Iterator[Any]:
        self._find_leader(RETURN_TIMEOUT_S)
        return self._watched(self._current.converse(name, requests))

    def is_hopeless(self, *, has_answered: bool) -> bool:  # noqa: ARG002
        """Return False: another server may take over."""
        return False

    def await_scheduler(self) -> None:
        self._find_leader(RETURN_TIMEOUT_S)

    @property
    def _current(self) -> RemoteTransport:
        return self._servers[self._at]

    def _advance(self) -> None:
        self._current.close()
        self._at = (self._at + 1) % len(self._servers)

    def _find_leader(self, timeout_s: float) -> None:
        """Make a call without effect, so that the current server is the leader."""
        self.call("Query", m.QueryRequest(what="groups"), timeout_s)

    def _attempt(self, call: Callable[[RemoteTransport, float], T], timeout_s: float) -> T:
        until = time.monotonic() + timeout_s
        while True:
            try:
                return call(self._current, max(until - time.monotonic(), PAUSE_S))
            except (NotLeading, NotSent) as error:
                self._advance()
                if time.monotonic() + PAUSE_S >= until:
                    raise Unreachable(
                        f"no server of {self.where} leads: {str(error).splitlines()[0]}\n"
                        "  jobs keep running; try again later"
                    ) from None
                if self._at == 0:
                    time.sleep(PAUSE_S)
            except Unreachable:
                self._advance()
                raise

    def _watched(self, replies: Iterator[Any]) -> Iterator[Any]:
        """Yield the replies. If they end with a failure, the next call goes to another server."""
        try:
            yield from replies
        except Unreachable:
            self._advance()
            raise
