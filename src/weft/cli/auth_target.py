"""Access of `weft auth` to a scheduler's tokens: its files on this machine, or a call to the scheduler."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from weft.access.endpoints import config
from weft.access.endpoints.addresses import DEFAULT_PORT, Address
from weft.cli import connection, flags
from weft.errors import InputError, WeftError
from weft.views.answers.base import Answer

if TYPE_CHECKING:
    from weft.views.answers.operations import Operation

V = TypeVar("V", bound=Answer)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that choose the scheduler."""
    flags.add_scheduler(parser)
    add_port(parser)


def add_port(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port", metavar="N", type=flags.port, help=f"port of your scheduler on this machine ({DEFAULT_PORT})"
    )


def manage_tokens(args: argparse.Namespace, operation: Operation[V], **options: str) -> V:
    """Run a token-admin operation and return its answer."""
    where = None if args.port else config.scheduler_address(args.scheduler)
    folder = own_server_folder(where or Address("localhost", args.port or DEFAULT_PORT))
    if folder is None and where is not None:
        with connection.connect_or_start(str(where)) as client:
            return client.manage(operation, **options)
    if folder is None:
        raise InputError(
            f"you have no scheduler at port {args.port or DEFAULT_PORT} of this machine",
            hint="run weft auth init or weft server first; as admin of another, give --scheduler HOST:PORT",
        )
    from weft.access.auth import tls
    from weft.access.auth.identity import owner
    from weft.access.auth.token_admin import manage
    from weft.access.auth.tokens import open_tokens

    tokens = open_tokens(folder)
    try:
        found = manage(tokens, tls.load(folder), owner().user, operation.verb, options)
    finally:
        tokens.close()
    assert isinstance(found, operation.answer)
    return found


def own_server_folder(where: Address) -> Path | None:
    """Return the folder of this user's scheduler at that address, or None if the scheduler is not on this machine."""
    from weft.access.endpoints.paths import server_folder

    folder = server_folder(where.port)
    return folder if folder.is_dir() and (where.is_loopback or _serves_from(where, folder)) else None


def _serves_from(where: Address, folder: Path) -> bool:
    """Return whether the scheduler at the address presents the certificate authority in this folder."""
    from weft.access.auth import tls
    from weft.access.endpoints.tls import fetch_authority

    material = tls.load(folder)
    try:
        return material is not None and bool(fetch_authority(where, material.fingerprint))
    except WeftError:
        return False
