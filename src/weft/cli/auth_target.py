"""How `weft auth` comes to the tokens of a scheduler: beside it on its machine, or through it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from weft.cli import connection, flags
from weft.endpoints import config
from weft.endpoints.addresses import DEFAULT_PORT, Address
from weft.errors import InputError, WeftError
from weft.wire.views.base import Answer

if TYPE_CHECKING:
    from weft.wire.views.operations import Operation

V = TypeVar("V", bound=Answer)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which scheduler it is about."""
    flags.add_scheduler(parser)
    add_port(parser)


def add_port(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port", metavar="N", type=flags.port, help=f"of a scheduler of yours on this machine ({DEFAULT_PORT})"
    )


def managed(args: argparse.Namespace, operation: Operation[V], **options: str) -> V:
    """What an admin may do, done."""
    where = None if args.port else config.scheduler_address(args.scheduler)
    folder = own_folder(where or Address("localhost", args.port or DEFAULT_PORT))
    if folder is None and where is not None:
        with connection.begin(str(where)) as client:
            return client.manage(operation, **options)
    if folder is None:
        raise InputError(
            f"no scheduler of yours has been at port {args.port or DEFAULT_PORT} of this machine",
            hint="start weft server, or weft auth init first; another one: --scheduler HOST:PORT, as its admin",
        )
    from weft.server.auth import tls
    from weft.server.auth.identity import owner
    from weft.server.auth.token_admin import manage
    from weft.server.auth.tokens import Tokens

    tokens = Tokens(folder)
    try:
        found = manage(tokens, tls.load(folder), owner().user, operation.verb, options)
    finally:
        tokens.close()
    assert isinstance(found, operation.answer)
    return found


def own_folder(where: Address) -> Path | None:
    """Of a scheduler that this user runs on this machine, by whatever name it is reached."""
    from weft.endpoints.paths import server_folder

    folder = server_folder(where.port)
    return folder if folder.is_dir() and (where.is_loopback or _is_at(where, folder)) else None


def _is_at(where: Address, folder: Path) -> bool:
    """Whether the scheduler there shows the authority that is in this folder."""
    from weft.endpoints.tls import fetch_authority
    from weft.server.auth import tls

    material = tls.load(folder)
    try:
        return material is not None and bool(fetch_authority(where, material.fingerprint))
    except WeftError:
        return False
