"""The transport to the scheduler of a cluster: gRPC over TCP. It starts no scheduler.

The first calls use `unary`, which does not import the gRPC library: most commands make one or two calls. Streams, large
requests and clients that make more calls use a channel of the library.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from weft.access.client import unary
from weft.access.client.transport import NotSent, foreign_error, timeout_error
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import Credentials, find_credentials, is_listening, open_channel
from weft.access.wire.failures import decode_error
from weft.access.wire.service import call, method_of, service_of
from weft.errors import NotLeading, Unanswered, Unreachable, WeftError

RETURN_TIMEOUT_S: Final = 60.0
"""Time to wait for a scheduler that has answered before."""
POLL_S: Final = 0.2
MAX_UNARY_CALLS: Final = 3
"""Calls with a connection each. A channel, which keeps its connection, costs less for more calls than that."""


class RemoteTransport:
    """Carries calls to one server. With `silence_s`, it gives up a server that has stopped after this time, and raises
    NotSent for a request that the server did not get."""

    def __init__(
        self, where: Address, credentials: Credentials | None = None, *, silence_s: float | None = None
    ) -> None:
        self.where, self._credentials, self._silence_s = where, credentials, silence_s
        self._channel: Any = None
        self._methods: dict[str, Any] = {}
        self._unary_calls = 0
        self._lock = threading.Lock()

    @property
    def advice(self) -> str:
        return f"see server.log in the folder of the scheduler at {self.where}"

    def open(self) -> None:
        self.close()
        self._credentials = self._credentials or find_credentials(self.where)

    def close(self) -> None:
        self._methods.clear()
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def call(self, name: str, request: Any, timeout_s: float) -> Any:
        if self._channel is None and self._unary_calls < MAX_UNARY_CALLS:
            message = request.SerializeToString()
            if len(message) <= unary.MAX_CALL_BYTES:
                self._unary_calls += 1
                return method_of(name).reply.FromString(self._call_alone(name, message, timeout_s))
        with self._translated_errors(timeout_s):
            if self._silence_s is None:
                return self._method(name)(request, timeout=timeout_s)
            return self._guarded(self._method(name, "future")(request, timeout=timeout_s), self._silence_s)

    def _guarded(self, call: Any, silence_s: float) -> Any:
        """Return the answer of a call, or cancel it if the server stops."""
        import grpc

        while True:
            try:
                return call.result(timeout=silence_s)
            except grpc.FutureTimeoutError:
                if not unary.greets(self.where, self._opened(), silence_s):
                    call.cancel()
                    raise Unreachable(f"the server at {self.where} has stopped answering\n  try again") from None

    def stream(self, name: str, request: Any, timeout_s: float | None = None) -> Iterator[Any]:
        with self._translated_errors(timeout_s):
            yield from self._method(name)(request, timeout=timeout_s)

    def upload(self, name: str, requests: Iterator[Any], timeout_s: float) -> Any:
        with self._translated_errors(timeout_s):
            return self._method(name)(requests, timeout=timeout_s)

    def converse(self, name: str, requests: Iterator[Any]) -> Iterator[Any]:
        with self._translated_errors(None):
            yield from self._method(name)(requests)

    def is_hopeless(self, *, has_answered: bool) -> bool:
        return not has_answered

    def await_scheduler(self) -> None:
        until = time.monotonic() + RETURN_TIMEOUT_S
        while not is_listening(self.where):
            if time.monotonic() > until:
                raise Unreachable(
                    f"the scheduler at {self.where} has not answered for {RETURN_TIMEOUT_S:.0f} s\n"
                    "  jobs keep running; try again later"
                )
            time.sleep(POLL_S)

    def _call_alone(self, name: str, message: bytes, timeout_s: float) -> bytes:
        """Make the call on a connection for it alone, and return the message of the answer."""
        try:
            return unary.call(self.where, self._opened(), name, message, timeout_s, self._silence_s)
        except unary.CallFailed as failure:
            if self._silence_s is not None and not failure.is_sent:
                raise NotSent(f"no server answers at {self.where}: {failure.details}") from None
            raise self._error_of(failure.code, failure.details, timeout_s, is_sent=failure.is_sent) from None

    def _opened(self) -> Credentials:
        assert self._credentials is not None, "open() finds them"
        return self._credentials

    def _method(self, name: str, variant: str = "") -> Any:
        """Return a method; the variant `future` of it returns a future of the answer."""
        with self._lock:  # threads share the channel
            if self._channel is None:
                if self._silence_s is not None and not unary.greets(self.where, self._opened(), self._silence_s):
                    raise NotSent(f"no server answers at {self.where}")
                self._channel = open_channel(self.where, self._opened())
            if name + variant not in self._methods:
                found: Any = call(self._channel, name, service_of(name))
                found = getattr(found, variant) if variant else found
                self._methods[name + variant] = partial(found, metadata=self._opened().metadata())
            return self._methods[name + variant]

    @contextmanager
    def _translated_errors(self, timeout_s: float | None) -> Iterator[None]:
        from weft.access.client.quiet_grpc import load_grpc

        load_grpc()
        import grpc

        try:
            yield
        except grpc.RpcError as error:
            found: Any = error
            raise self._error_of(found.code().name, found.details() or "", timeout_s) from None

    def _error_of(self, code: str, details: str, timeout_s: float | None, *, is_sent: bool = True) -> WeftError:
        """Return the error as the scheduler raised it, or why there is no answer."""
        told = decode_error(details)
        if code == "UNAVAILABLE" and isinstance(told, NotLeading):
            return told
        if code == "UNAVAILABLE":
            from weft.access.client.diagnosis import diagnose

            found = diagnose(self.where, self._credentials.ca if self._credentials else None, details)
            return Unanswered(str(found)) if is_sent and isinstance(found, Unreachable) else found
        if code == "CANCELLED" and told is None:  # a server that stops, or loses the lead, cancels its calls
            return Unanswered(f"the scheduler at {self.where} ended the call before it answered\n  try again")
        if code == "DEADLINE_EXCEEDED":
            return timeout_error(timeout_s, self.advice)
        if code == "UNIMPLEMENTED":
            return foreign_error(details, self.advice)
        return told or WeftError(f"the scheduler failed: {code}: {details[:500]}\n  {self.advice}")
