"""Create a certificate authority, once, and a certificate that identifies the scheduler to other machines.

A second call creates a new certificate from the same authority: for other names, or before the old one expires. A
running scheduler uses it after its next start."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.access.endpoints.addresses import DEFAULT_PORT
from weft.cli import auth_target, render
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.access.auth.shared_authority import SharedAuthority

EXAMPLE: Final = """examples:
  weft auth init
  weft auth init --host gpu-head --host 192.0.2.7
  weft auth init --host head-a --db postgresql://weft@db/weft --key-file ~/.weft-key"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", metavar="NAME", action="append", default=[],
        help="name or address at which others reach the scheduler, repeatable (default: the names of this machine)",
    )  # fmt: skip
    auth_target.add_port(parser)
    parser.add_argument(
        "--db", metavar="URL", help="with several servers: their database, postgresql://..., which has the authority"
    )
    parser.add_argument(
        "--key-file", metavar="FILE", help="with --db: the file that encrypts the authority's key, the same everywhere"
    )


def run(args: argparse.Namespace) -> int:
    from weft.access.auth.certificates import init
    from weft.access.endpoints.paths import server_folder

    port = args.port or DEFAULT_PORT
    material, names = init(server_folder(port), args.host, _shared(args))
    if args.json:
        found = {"schema": 1, "hosts": names, "fingerprint": material.fingerprint, "folder": str(server_folder(port))}
        render.print_json(found)
        return 0
    print(f"certificate for {', '.join(names)}")
    print(f"authority {material.fingerprint}")
    host = next(filter(_is_ip, args.host), "0.0.0.0")
    shared = " --db URL --peers HOST:PORT,HOST:PORT" if args.db else ""
    server = f"weft server --host {host} --port {port}{shared}"
    render.print_message(f"next: {server}, and weft auth token for each user and worker")
    return 0


def _shared(args: argparse.Namespace) -> SharedAuthority | None:
    from weft.history.journal import is_postgres

    if args.db is None and args.key_file is None:
        return None
    if not (args.db and args.key_file and is_postgres(args.db)):
        raise InputError(
            "--db and --key-file go together", hint="such as --db postgresql://weft@db/weft --key-file ~/.weft-key"
        )
    from pathlib import Path

    from weft.access.auth.shared_authority import SharedAuthority

    return SharedAuthority(args.db, Path(args.key_file).expanduser())


def _is_ip(host: str) -> bool:
    from ipaddress import ip_address

    try:
        return bool(ip_address(host))
    except ValueError:
        return False
