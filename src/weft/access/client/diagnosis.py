"""Probes of a port on which no scheduler answers, to find out why."""

from __future__ import annotations

import socket
import ssl
from typing import Final

from weft.access.endpoints.addresses import Address
from weft.access.endpoints.tls import connect
from weft.errors import Unreachable, WeftError

PROBE_TIMEOUT_S: Final = 5.0
HTTP2: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""The first bytes of a gRPC client. The answer begins with a frame of kind 4."""
SETTINGS: Final = 4
ALERT: Final = 0x15


def diagnose(where: Address, ca: bytes | None, details: str) -> WeftError:
    """Return why a call failed, as a probe of the port shows it: failures of connections have few details."""
    try:
        found = _probe_tls(where, ca) if ca is not None else _probe_plaintext(where)
    except socket.gaierror:
        return Unreachable(f"there is no host {where.host}\n  check the address: --scheduler HOST:PORT")
    except OSError as error:
        why = "nothing listens there" if isinstance(error, ConnectionRefusedError) else error.strerror or error
        hint = "start one there: weft server; or use the one of this machine: --scheduler local"
        return Unreachable(f"no scheduler answers at {where}: {why}\n  {hint}")
    return found or Unreachable(f"the scheduler at {where} does not answer: {details[:300]}\n  try again")


def _probe_tls(where: Address, ca: bytes) -> WeftError | None:
    try:
        context = ssl.create_default_context(cadata=ca.decode("ascii", "replace"))
        context.set_alpn_protocols(["h2"])
        with connect(context, where, PROBE_TIMEOUT_S) as secure:
            if secure.selected_alpn_protocol() == "h2":
                return None
        return _not_a_scheduler(where, "no gRPC")
    except ssl.SSLCertVerificationError as error:
        if "mismatch" in error.verify_message or "not valid for" in error.verify_message:
            return Unreachable(
                f"the certificate of the scheduler is not for the name {where.host}\n"
                f"  on its machine: weft auth init --port {where.port} --host {where.host}, then start it again"
            )
        return Unreachable(
            f"the server at {where} is not the scheduler that was joined: {error.verify_message}\n"
            f"  if the scheduler was set up again: weft auth join {where} TOKEN"
        )
    except (ssl.SSLError, ConnectionResetError) as error:
        if isinstance(error, ssl.SSLError) and "WRONG_VERSION" not in str(error.reason):
            return Unreachable(
                f"TLS with {where} failed: {error.reason or error}\n  check that this is the scheduler's address"
            )
        return Unreachable(
            f"the server at {where} does not speak TLS\n  check the address; if the scheduler has no certificate: "
            "weft auth init on its machine"
        )


def _probe_plaintext(where: Address) -> WeftError | None:
    with socket.create_connection((where.host, where.port), timeout=PROBE_TIMEOUT_S) as connection:
        connection.sendall(HTTP2)
        try:
            seen = connection.recv(64)
        except TimeoutError:
            return _not_a_scheduler(where, "it does not answer")
    if seen[:1] == bytes((ALERT,)) or (not seen and _speaks_tls(where)):
        return Unreachable(f"the server at {where} needs TLS\n  join the scheduler again: weft auth join {where} TOKEN")
    if seen.startswith(b"HTTP/"):
        return _not_a_scheduler(where, "it speaks HTTP/1")
    return None if seen[3:4] == bytes((SETTINGS,)) else _not_a_scheduler(where, "it does not speak gRPC")


def _speaks_tls(where: Address) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # no secret is sent
    try:
        with connect(context, where, PROBE_TIMEOUT_S):
            return True
    except OSError:
        return False


def _not_a_scheduler(where: Address, why: str) -> Unreachable:
    return Unreachable(f"the server at {where} is not a scheduler: {why}\n  check the port")
