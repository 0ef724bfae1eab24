"""Joining a scheduler: exchange a join token for credentials."""

from __future__ import annotations

from contextlib import suppress

from weft.access.client.failover import FailoverTransport
from weft.access.client.remote import RemoteTransport
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import Credentials
from weft.access.endpoints.tls import fetch_authority
from weft.access.wire import messages as m
from weft.errors import InputError, Unreachable

JOIN_TIMEOUT_S = 20.0
HINT = "copy the whole line that weft auth token printed"


def join(where: Address, token: str, node: str) -> tuple[m.JoinReply, Credentials]:
    """Return the scheduler's reply, and the credentials for later calls.

    Send the token only to a server with the certificate authority that the token names.
    """
    parts = token.split(".")
    if len(parts) != 4 or parts[0] != "weft-join":
        raise InputError("this is not a join token", hint=HINT)
    fingerprint = parts[3]
    if not fingerprint and not where.is_loopback:
        raise InputError(
            f"this token is for a scheduler without a certificate, and {where} is on another machine",
            hint="on its machine: weft auth init --host NAME, start it again, and make a new token",
        )
    ca = _authority(where, fingerprint) if fingerprint else None
    transport = (FailoverTransport if where.others else RemoteTransport)(where, Credentials("", ca))
    transport.open()
    try:
        reply: m.JoinReply = transport.call("Join", m.JoinRequest(token=token, node=node), JOIN_TIMEOUT_S)
    finally:
        transport.close()
    return reply, Credentials(reply.token, ca)


def _authority(where: Address, fingerprint: str) -> bytes:
    """Return the certificate authority of the scheduler, from the first server that answers."""
    *early, last = where.servers
    for server in early:
        with suppress(Unreachable, OSError):
            return fetch_authority(server, fingerprint)
    return fetch_authority(last, fingerprint)
