"""Pass HTTP requests to the replicas of services, until Ctrl-C or SIGTERM. Requests wait while no replica is ready.

Without the scheduler, and while the table cannot be read, the router serves the last table."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from weft.cli import connection, flags
from weft.errors import InputError

if TYPE_CHECKING:
    import ssl

    from weft.access.client import Client
    from weft.access.endpoints.addresses import Address
    from weft.router.process import RouterPlan
    from weft.router.settings import Guard, RouterSettings

DEFAULT_PORT: Final = 8080
EXAMPLE: Final = """examples:
  weft router --scheduler gpu-head:50051
  weft router --table services.yaml
  weft router --table services.yaml --listen 127.0.0.1:9000 --max-connections 10000
  weft auth init --host gpu-head && weft router --table services.yaml --listen 0.0.0.0:8443
  weft router --print-front nginx --listen 127.0.0.1:8080 > /etc/nginx/conf.d/weft.conf"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    flags.add_scheduler(parser)
    add(
        "--table",
        metavar="FILE",
        help="services and replicas, YAML or JSON; read again when it changes (default: those of the scheduler)",
    )
    add(
        "--listen",
        metavar="ADDR",
        default=f"127.0.0.1:{DEFAULT_PORT}",
        help=f"HOST:PORT to listen on (127.0.0.1:{DEFAULT_PORT}); other machines need TLS and a token: weft auth init",
    )
    add(
        "--server-port",
        metavar="N",
        type=flags.port,
        default=50051,
        help="port of the weft server whose certificate and tokens are used beyond this machine (50051)",
    )
    add(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="host name that requests may name, such as that of a TLS front; '*': any",
    )
    add("--max-connections", metavar="N", type=flags.whole_number(1, 1_000_000), default=4000, help="clients (4000)")
    add("--max-body", metavar="SIZE", help="largest body of a request (1G)")
    add("--drain", metavar="S", type=flags.seconds, default=30.0, help="seconds to end requests before it stops (30)")
    add("--share-port", action="store_true", help="let other routers listen on the same port; limits are per process")
    add("--supervised", metavar="FD:DIR", type=_supervised, help=argparse.SUPPRESS)
    add("--print-front", metavar="KIND", choices=("haproxy", "nginx"), help="print a TLS front's configuration and end")


def run(args: argparse.Namespace) -> int:
    where = _address(args.listen)
    if args.print_front:
        from weft.router.fronts import render_front

        print(render_front(args.print_front, where, args.max_connections), end="")
        return 0
    from weft.router import process
    from weft.router.settings import RouterSettings

    tls, guard = _protection(where, args.server_port)
    settings = RouterSettings(
        max_connections=args.max_connections,
        max_body_bytes=_body_bytes(args.max_body),
        drain_s=args.drain,
        allowed_hosts=_allowed_hosts(where, args.allow_host) if guard is None else None,
        guard=guard,
    )
    process.run(_plan(args, where, settings, tls))
    return 0


def _plan(args: argparse.Namespace, where: Address, settings: RouterSettings, tls: ssl.SSLContext | None) -> RouterPlan:
    """Return where and how the router runs: with the table of a file, or with that of the scheduler."""
    from weft.router.process import RouterPlan
    from weft.router.sources import TableFile

    def announce(port: int) -> None:
        _print_address(where, port, tls)

    if args.supervised is not None:
        return _supervised_plan(args, where, settings, tls)
    if args.table is not None:
        return RouterPlan(where, TableFile(args.table), settings, tls, args.share_port, on_open=announce)
    if not where.port:
        raise InputError("--listen needs a port here", hint="the scheduler must know it: such as 127.0.0.1:8080")
    from weft.router.scheduler_link import SchedulerLink

    connection.connect_to_running(args.scheduler).close()  # a wrong address is an error; later the link waits
    link = SchedulerLink(lambda: connection.connect_to_running(args.scheduler), _public_address(where, tls))
    return RouterPlan(where, link, settings, tls, args.share_port, link=link, on_open=announce)


def _supervised(text: str) -> tuple[int, str]:
    number, _, folder = text.partition(":")
    return int(number), folder


def _supervised_plan(
    args: argparse.Namespace, where: Address, settings: RouterSettings, tls: ssl.SSLContext | None
) -> RouterPlan:
    """Return the plan of a router that the scheduler of a cluster starts, with a socket that listens already."""
    import logging
    import socket
    from pathlib import Path

    from weft.access.endpoints.addresses import Address
    from weft.router.handover import SOCKET_NAME, end_without_folder, offer_socket
    from weft.router.process import RouterPlan
    from weft.router.scheduler_link import SchedulerLink

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    number, folder = args.supervised
    listening = socket.socket(fileno=number)
    where = Address(where.host, listening.getsockname()[1])

    def connect() -> Client:
        end_without_folder(Path(folder).parent)
        return connection.connect_to_running(args.scheduler)

    link = SchedulerLink(connect, _public_address(where, tls))
    door = f"{folder}/{SOCKET_NAME}"
    return RouterPlan(
        where, link, settings, tls, listening=listening, link=link, on_start=lambda: offer_socket(listening, door)
    )


def _public_address(where: Address, tls: ssl.SSLContext | None) -> str:
    """Return the address by which clients reach the router."""
    import platform

    from weft.access.endpoints.addresses import Address

    host = platform.node() if where.host in ("0.0.0.0", "::") else where.host
    return f"{'https://' if tls is not None else ''}{Address(host, where.port)}"


def _address(text: str) -> Address:
    from weft.access.endpoints.addresses import Address, parse_address

    host, colon, port = text.rpartition(":")
    if colon and port == "0":  # a free port
        return Address(parse_address(f"{host}:1", "--listen").host, 0)
    if text.isdecimal():
        return parse_address(f"127.0.0.1:{text}", "--listen")
    return parse_address(text if colon and port.isdecimal() else f"{text}:{DEFAULT_PORT}", "--listen")


def _body_bytes(text: str | None) -> int:
    from weft.inputs.quantities import parse_megabytes

    return 1 << 30 if text is None else parse_megabytes(text) << 20


def _allowed_hosts(where: Address, given: list[str]) -> frozenset[bytes] | None:
    """Return the names of this machine and the given ones: a web page must not reach the router by another name."""
    import socket

    names = {"localhost", socket.gethostname(), where.host, *given}
    return None if "*" in given else frozenset(name.lower().encode() for name in names)


def _protection(where: Address, server_port: int) -> tuple[ssl.SSLContext | None, Guard | None]:
    """Return TLS and the check of tokens, which an address that other machines reach needs."""
    if where.is_loopback:
        return None, None
    import ssl

    from weft.access.auth import tls
    from weft.access.auth.rate_limit import FailureLimiter
    from weft.access.auth.tokens import follow_tokens
    from weft.access.endpoints.paths import server_folder
    from weft.router.access import TokenGuard

    folder = server_folder(server_port)
    if tls.load(folder) is None:
        raise InputError(
            f"{where.host} can be reached from other machines, and there is no certificate for TLS",
            hint=f"weft auth init --port {server_port} --host NAME makes one; or listen on 127.0.0.1",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(folder / tls.FOLDER / "server.pem", folder / tls.FOLDER / "server.key")
    tokens = follow_tokens(folder)

    def verify(token: str) -> Any:
        return tokens.verify(token)

    return context, TokenGuard(verify, FailureLimiter())


def _print_address(where: Address, port: int, tls: ssl.SSLContext | None) -> None:
    from weft.access.endpoints.addresses import Address

    with suppress(OSError):  # the reader of a pipe has ended; the router has not
        print(f"  listens  {'http' if tls is None else 'https'}://{Address(where.host, port)}", flush=True)
        if sys.stdout.isatty():
            print("Ctrl-C ends it, after the requests under way.", flush=True)
