"""Credentials of a client for a cluster scheduler: its token, and the certificate authority to trust.

A scheduler on this machine leaves a token for its own user in its folder, next to its authority if it has one. For any
other scheduler, `weft auth join` writes both into a folder for that address.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from weft.access.endpoints.addresses import Address, is_known_host, is_this_machine, resolve_local
from weft.access.endpoints.paths import absolute, home_folder, make_private, server_folder_name
from weft.access.endpoints.private_files import read_private, write_private
from weft.access.wire.protocol import PROTOCOL
from weft.access.wire.service import CHANNEL
from weft.errors import NotPermitted, Unreachable

if TYPE_CHECKING:
    from pathlib import Path

KEEPALIVE_OPTIONS: Final = (
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
)
"""Detect a peer that disappears without closing the connection."""
Kind = Literal["user", "worker"]
_TOKEN_FILES: Final[dict[Kind, tuple[str, ...]]] = {"user": ("token",), "worker": ("worker-token", "token")}
"""Names of token files. One machine may hold a worker's and a user's token, which must not be confused."""


class Credentials(NamedTuple):
    token: str
    ca: bytes | None = None
    """The certificate authority to trust, as PEM; None: no TLS, which is allowed only on this machine."""

    def __repr__(self) -> str:
        return f"Credentials(ca={self.ca!r})"  # the token is secret

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the gRPC metadata of each call."""
        token = (("authorization", f"Bearer {self.token}"),) if self.token else ()
        return (*token, *version_metadata())


@cache
def version_metadata() -> tuple[tuple[str, str], ...]:
    from weft.version import VERSION

    return (("weft-protocol", str(PROTOCOL)), ("weft-version", VERSION))


# ---- files


def credentials_folder(where: Address, env: Mapping[str, str] = os.environ) -> Path:
    """Return the folder in which `weft auth join` saves credentials for this scheduler."""
    from pathlib import Path  # most commands do without it

    return Path(_folder_name(where, env))


def _folder_name(where: Address, env: Mapping[str, str]) -> str:
    if given := env.get("WEFT_CREDENTIALS"):
        return absolute(given)
    config = env.get("XDG_CONFIG_HOME") or os.path.join(home_folder(env), ".config")
    return absolute(config, "weft", "credentials", f"{where.host.lower()}_{where.port}")


def find_credentials(where: Address, kind: Kind = "user", env: Mapping[str, str] = os.environ) -> Credentials:
    """Return the credentials for this scheduler, or raise an error that says how to get them. Those for one of its
    servers are valid for all."""
    failures: list[NotPermitted | Unreachable] = []
    for server in where.servers:
        try:
            return _find_credentials(server, kind, env)
        except (NotPermitted, Unreachable) as error:
            failures.append(error)
    raise next((error for error in failures if isinstance(error, NotPermitted)), failures[0])


def _find_credentials(where: Address, kind: Kind, env: Mapping[str, str]) -> Credentials:
    is_loopback = where.is_loopback
    for folder in (_folder_name(where, env), *_own_folders(where, env)):
        for name in _TOKEN_FILES[kind]:
            if found := _read(os.path.join(folder, name)):
                ca = _read(os.path.join(folder, "ca.pem"))
                if ca is None and not is_loopback:
                    raise NotPermitted(f"no certificate authority for {where} in {folder}\n  {_join_hint(where)}")
                return Credentials(found.decode().strip(), ca)
    if is_loopback:
        if not is_listening(where):
            raise Unreachable(f"no scheduler listens at {where}\n  start one: weft server --port {where.port}")
        raise NotPermitted(
            f"no token for the scheduler at {where}: another user runs it, or its state is elsewhere\n"
            f"  {_join_hint(where)}"
        )
    if not is_known_host(where.host):
        raise Unreachable(f"the host {where.host} is not known\n  check its name in the address {where}")
    raise NotPermitted(f"no token for the scheduler at {where}\n  {_join_hint(where)}")


def _own_folders(where: Address, env: Mapping[str, str]) -> list[str]:
    """Return the folder of the user's own scheduler if it runs at this address.

    At an address that is not loopback, it must have a certificate authority.
    """
    folder = server_folder_name(where.port, env)
    has_authority = os.path.exists(os.path.join(folder, "ca.pem"))
    mine = where.is_loopback or (has_authority and is_this_machine(where.host))
    return [folder] if mine else []


def _read(path: str) -> bytes | None:
    try:
        return read_private(path)
    except FileNotFoundError:
        return None


def _join_hint(where: Address) -> str:
    return f"ask its admin for a token (weft auth token), then: weft auth join {where} TOKEN"


def save_credentials(where: Address, kind: Kind, credentials: Credentials, env: Mapping[str, str] = os.environ) -> Path:
    """Save credentials for each server where `find_credentials` finds them. Return the path of the first token file."""
    first, *_ = [_save_credentials(server, kind, credentials, env) for server in where.servers]
    return first


def _save_credentials(where: Address, kind: Kind, credentials: Credentials, env: Mapping[str, str]) -> Path:
    folder = credentials_folder(where, env)
    make_private(folder)
    if credentials.ca is not None:
        write_private(folder / "ca.pem", credentials.ca)
    else:
        (folder / "ca.pem").unlink(missing_ok=True)
    path = folder / _TOKEN_FILES[kind][0]
    write_private(path, f"{credentials.token}\n".encode())
    return path


def is_listening(where: Address, timeout_s: float = 3.0) -> bool:
    """Return whether the address accepts connections."""
    try:
        socket.create_connection((where.host, where.port), timeout=timeout_s).close()
    except OSError:
        return False
    return True


# ---- channels


def open_channel(
    where: Address, credentials: Credentials, library: Any = None, options: Sequence[tuple[str, Any]] = ()
) -> Any:
    """Open a channel to this scheduler. `library` is grpc or grpc.aio; None: grpc."""
    import grpc  # most commands do without it

    library = library or grpc
    options = (*CHANNEL, *KEEPALIVE_OPTIONS, *options)
    if credentials.ca is None:
        return library.insecure_channel(str(resolve_local(where)), options=options)
    trusted = grpc.ssl_channel_credentials(root_certificates=credentials.ca)
    return library.secure_channel(str(where), trusted, options=options)
