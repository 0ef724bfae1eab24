"""Create a certificate authority, once, and a certificate that identifies the scheduler to other machines.

A second call creates a new certificate from the same authority: for other names, or before the old one expires. A
running scheduler uses it after its next start."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import auth_target, render
from weft.endpoints.addresses import DEFAULT_PORT

EXAMPLE: Final = """examples:
  weft auth init
  weft auth init --host gpu-head --host 192.0.2.7"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", metavar="NAME", action="append", default=[],
        help="name or address at which others reach the scheduler, repeatable (default: the names of this machine)",
    )  # fmt: skip
    auth_target.add_port(parser)


def run(args: argparse.Namespace) -> int:
    from weft.endpoints.paths import server_folder
    from weft.server.auth.certificates import init

    port = args.port or DEFAULT_PORT
    material, names = init(server_folder(port), args.host)
    if args.json:
        found = {"schema": 1, "hosts": names, "fingerprint": material.fingerprint, "folder": str(server_folder(port))}
        render.print_json(found)
        return 0
    print(f"certificate for {', '.join(names)}")
    print(f"authority {material.fingerprint}")
    host = next(filter(_is_ip, args.host), "0.0.0.0")
    render.print_message(f"next: weft server --host {host} --port {port}, and weft auth token for each user and worker")
    return 0


def _is_ip(host: str) -> bool:
    from ipaddress import ip_address

    try:
        return bool(ip_address(host))
    except ValueError:
        return False
