"""What a client shows at the door of a scheduler, and how it knows that it is the right one.

A scheduler on this machine leaves its token, for its own user, in its folder, beside its authority if it has one. For
any other, `weft auth join` has written one, with the certificate authority to trust, into a folder for that address.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import grpc

from weft.endpoints.addresses import Address, is_here, numeric
from weft.endpoints.paths import home, make_private, server_folder
from weft.endpoints.private_files import read_private, write_private
from weft.errors import NotPermitted, Unreachable
from weft.wire.protocol import PROTOCOL
from weft.wire.service import CHANNEL

KEEPALIVE: Final = (
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
)
"""A peer that has vanished without a word is noticed."""
Kind = Literal["user", "worker"]
_TOKENS: Final[dict[Kind, tuple[str, ...]]] = {"user": ("token",), "worker": ("worker-token", "token")}
"""One machine may be both: a worker's token is kept beside that of a user, and nobody takes the one for the other."""


@dataclass(frozen=True)
class Credentials:
    token: str = field(repr=False)
    ca: bytes | None = None
    """Whom to trust, as PEM; None: no TLS, and so only on this machine."""

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What goes with each call."""
        shown = (("authorization", f"Bearer {self.token}"),) if self.token else ()
        return (*shown, *versions())


@cache
def versions() -> tuple[tuple[str, str], ...]:
    from weft.version import VERSION

    return (("weft-protocol", str(PROTOCOL)), ("weft-version", VERSION))


# ---- where they are


def joined_folder(where: Address, env: Mapping[str, str] = os.environ) -> Path:
    """Where `weft auth join` keeps what it was given."""
    if given := env.get("WEFT_CREDENTIALS"):
        return Path(given).absolute()
    config = env.get("XDG_CONFIG_HOME") or Path(home(env), ".config")
    return Path(config, "weft", "credentials", f"{where.host.lower()}_{where.port}").absolute()


def find(where: Address, kind: Kind = "user", env: Mapping[str, str] = os.environ) -> Credentials:
    """Those for this scheduler; raises what to do where there are none."""
    is_loopback = where.is_loopback
    for folder in (joined_folder(where, env), *_own_folders(where, env)):
        for name in _TOKENS[kind]:
            if found := _read(folder / name):
                ca = _read(folder / "ca.pem")
                if ca is None and not is_loopback:
                    raise NotPermitted(f"no certificate to know {where} by in {folder}\n  {_join(where)}")
                return Credentials(found.decode().strip(), ca)
    if is_loopback:
        if not answers(where):
            raise Unreachable(f"no scheduler listens at {where}\n  weft server --port {where.port} starts one")
        raise NotPermitted(
            f"no token for the scheduler at {where}: it is not yours, or keeps its state elsewhere\n  {_join(where)}"
        )
    raise NotPermitted(f"no token for the scheduler at {where}\n  {_join(where)}")


def _own_folders(where: Address, env: Mapping[str, str]) -> list[Path]:
    """Of a scheduler of this user's here. By an address that others reach, too, it is known by its authority."""
    folder = server_folder(where.port, env)
    mine = where.is_loopback or ((folder / "ca.pem").exists() and is_here(where.host))
    return [folder] if mine else []


def _read(path: Path) -> bytes | None:
    try:
        return read_private(path)
    except FileNotFoundError:
        return None


def _join(where: Address) -> str:
    return f"ask whoever runs it for one (weft auth token), then: weft auth join {where} TOKEN"


def keep(where: Address, kind: Kind, credentials: Credentials, env: Mapping[str, str] = os.environ) -> Path:
    """Writes them where `find` looks; the file of the token."""
    folder = joined_folder(where, env)
    make_private(folder)
    if credentials.ca is not None:
        write_private(folder / "ca.pem", credentials.ca)
    else:
        (folder / "ca.pem").unlink(missing_ok=True)
    path = folder / _TOKENS[kind][0]
    write_private(path, f"{credentials.token}\n".encode())
    return path


def answers(where: Address, timeout_s: float = 3.0) -> bool:
    """Whether anybody listens there."""
    try:
        socket.create_connection((where.host, where.port), timeout=timeout_s).close()
    except OSError:
        return False
    return True


# ---- channels


def channel(where: Address, credentials: Credentials, of: Any = grpc, options: Sequence[tuple[str, Any]] = ()) -> Any:
    """To this scheduler, by grpc or by grpc.aio."""
    options = (*CHANNEL, *KEEPALIVE, *options)
    if credentials.ca is None:
        return of.insecure_channel(str(numeric(where)), options=options)
    trusted = grpc.ssl_channel_credentials(root_certificates=credentials.ca)
    return of.secure_channel(str(where), trusted, options=options)
