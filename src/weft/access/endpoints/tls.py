"""Trust in a scheduler by the fingerprint of its certificate authority, which a join token carries."""

from __future__ import annotations

import socket
import ssl
from typing import Any, Final

from weft.access.endpoints.addresses import Address
from weft.errors import Unreachable, WeftError

HANDSHAKE_TIMEOUT_S: Final = 10.0


def fingerprint(pem: bytes) -> str:
    """Return a certificate's SHA-256 as `openssl x509 -fingerprint -sha256` does, in lower case without colons."""
    from hashlib import sha256  # calls do not need it

    try:
        return sha256(ssl.PEM_cert_to_DER_cert(pem.decode("ascii"))).hexdigest()
    except ValueError:
        raise WeftError("not a PEM certificate") from None


def fetch_authority(where: Address, wanted: str) -> bytes:
    """Return the certificate with this fingerprint from the scheduler's chain, as PEM. No token is sent."""
    from hashlib import sha256

    try:
        chain = _fetch_chain(where)
    except ssl.SSLError as error:
        raise Unreachable(
            f"{where} does not speak TLS ({error.reason or error})\n  check that this is the scheduler's address"
        ) from None
    except OSError as error:
        raise Unreachable(
            f"{where} cannot be reached: {error.strerror or error}\n  check that weft server runs there"
        ) from None
    for each in chain:
        if sha256(each).hexdigest() == wanted:
            return ssl.DER_cert_to_PEM_cert(each).encode()
    raise Unreachable(
        f"the server at {where} is not the scheduler that issued this token: its certificate authority differs\n"
        "  check the address; if weft auth init has replaced the authority, ask for a new token"
    )


def _fetch_chain(where: Address) -> list[bytes]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the fingerprint is checked afterwards
    context.set_alpn_protocols(["h2"])
    with connect(context, where, HANDSHAKE_TIMEOUT_S) as secure:
        if hasattr(secure, "get_unverified_chain"):  # from Python 3.13 on
            return list(secure.get_unverified_chain())
        found: Any = secure._sslobj.get_unverified_chain()  # type: ignore[attr-defined]
        return [each.public_bytes(ssl._ssl.ENCODING_DER) for each in found or ()]  # type: ignore[attr-defined]


def connect(context: ssl.SSLContext, where: Address, timeout_s: float) -> ssl.SSLSocket:
    """Connect with TLS, or raise ssl.SSLError or OSError.

    Wrap the socket before connecting it: Python leaks a socket that is reset between the two steps.
    """
    failure: OSError = OSError(f"{where.host} has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM):
        secure = context.wrap_socket(socket.socket(family, kind, protocol), server_hostname=where.host)
        secure.settimeout(timeout_s)
        try:
            secure.connect(address)
        except OSError as error:
            secure.close()
            if isinstance(error, ssl.SSLError):
                raise
            failure = error
        else:
            return secure
    raise failure
