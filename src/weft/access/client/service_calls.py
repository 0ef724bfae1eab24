"""Requests to services through their router, with the certificate authority and token that it needs."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator, Sequence
from typing import Final, Self
from urllib.parse import urlsplit

from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import Credentials, find_credentials
from weft.errors import InputError, Unreachable

PIECE_BYTES: Final = 65_536


class Reply:
    """The answer of a service. Read it whole or in pieces, as they come."""

    def __init__(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> None:
        self._connection, self._answer = connection, answer
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.getheaders()}

    def pieces(self) -> Iterator[bytes]:
        """Yield the body as it comes. Raise if it breaks off."""
        try:
            while piece := self._answer.read1(PIECE_BYTES):
                yield piece
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"the answer broke off: {error}\n  weft services shows its replicas") from None

    @property
    def body(self) -> bytes:
        """The rest of the body."""
        return b"".join(self.pieces())

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def call_service(
    url: str, path: str, method: str, body: bytes | None, headers: Sequence[tuple[str, str]], timeout_s: float,
    scheduler: Address | None,
) -> Reply:  # fmt: skip
    """Send one request to the service at this URL, and return the answer once its head is there."""
    if not url:
        raise Unreachable("no router serves the service\n  weft router starts one")
    if not path.isascii() or any(letter.isspace() for letter in path):
        raise InputError(f"{path[:80]!r} is not a path", hint="such as /v1/predict; encode other characters with %")
    where = urlsplit(url)
    access = find_credentials(scheduler) if scheduler is not None else None
    target = f"{where.path.rstrip('/')}/{path.lstrip('/')}"
    given = {name.lower() for name, _ in headers}
    found = _connect(str(where.hostname), where.port, timeout_s, where.scheme == "https", access)
    try:
        found.putrequest(method or ("GET" if body is None else "POST"), target, skip_accept_encoding=True)
        if where.scheme == "https" and access is not None and access.token and "authorization" not in given:
            found.putheader("Authorization", f"Bearer {access.token}")
        if body is not None:
            found.putheader("Content-Length", str(len(body)))
            if "content-type" not in given:
                found.putheader("Content-Type", "application/json")
        for name, value in headers:
            found.putheader(name, value)
        found.endheaders(body)
        return Reply(found, found.getresponse())
    except (OSError, http.client.HTTPException) as error:
        found.close()
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
        raise Unreachable(f"no answer from {url}: {reason}\n  weft services shows its replicas") from None


def _connect(
    host: str, port: int | None, timeout_s: float, secure: bool, access: Credentials | None
) -> http.client.HTTPConnection:
    if not secure:
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    authority = access.ca.decode() if access is not None and access.ca is not None else None
    return http.client.HTTPSConnection(
        host, port, timeout=timeout_s, context=ssl.create_default_context(cadata=authority)
    )
