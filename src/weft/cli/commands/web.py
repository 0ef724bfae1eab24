"""Serve a web page about the scheduler on this machine, and print a link that opens it once, until Ctrl-C.

If a page for the scheduler of this machine is served already, print another link to it."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags
from weft.errors import InputError, WeftError

if TYPE_CHECKING:
    import socket

    from weft.access.endpoints.paths import Paths

EXAMPLE: Final = """examples:
  weft web
  weft web --read-only --port 9000
  weft web --scheduler gpu-head:50051
  ssh -L 8765:localhost:8765 gpu-head weft web     the page of another machine, in a browser here"""
DEFAULT_PORT: Final = 8765
HOST: Final = "127.0.0.1"
RECORD: Final = "web.json"
"""In the scheduler's folder: the port of the page, and the secret with which its user gets another link."""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_scheduler(parser)
    parser.add_argument(
        "--port",
        metavar="N",
        type=flags.whole_number(high=65535),
        help=f"port of the page ({DEFAULT_PORT}); 0: a free one",
    )
    parser.add_argument("--read-only", action="store_true", help="show everything, change nothing")


def run(args: argparse.Namespace) -> int:
    import secrets

    from weft.access.endpoints.paths import Paths
    from weft.web.process import WebPlan
    from weft.web.process import run as serve

    with connection.connect_or_start(args.scheduler) as client:
        where = client.where
        client.queue(limit=1)  # a wrong address or token is an error here, not later in the browser
    local = where if isinstance(where, Paths) else None
    if local is not None and (link := _link_of_running(local)):
        if args.port is not None or args.read_only:
            raise InputError("a page is served already", hint="end it first (Ctrl-C), or open it: weft web")
        _print_link(link)
        return 0
    key = secrets.token_urlsafe(32)

    def announce(port: int, link: str) -> None:
        if local is not None:
            _write_record(local, port, key)
        _print_link(link)
        with suppress(OSError):
            if sys.stdout.isatty():
                print("The link works once, within ten minutes. weft web prints another one. Ctrl-C ends the page.")
            sys.stdout.flush()

    try:
        serve(WebPlan(where, _bind(args.port), read_only=args.read_only, key=key if local else "", on_open=announce))
    finally:
        if local is not None:
            _remove_record(local, key)
    return 0


def _bind(port: int | None) -> socket.socket:
    """Return the socket of the page: at the given port, or at the usual one if it is free."""
    from weft.access.http.listener import bind

    if port is None:
        try:
            return bind(HOST, DEFAULT_PORT, port_flag="--port", host_flag="")
        except WeftError:
            port = 0
    return bind(HOST, port, port_flag="--port", host_flag="")


def _print_link(link: str) -> None:
    with suppress(OSError):  # the reader of a pipe has ended; the page has not
        print(f"  open  {link}", flush=True)


def _write_record(paths: Paths, port: int, key: str) -> None:
    import json

    from weft.access.endpoints.private_files import write_private

    write_private(paths.state / RECORD, json.dumps({"port": port, "key": key}).encode())


def _read_record(paths: Paths) -> tuple[int, str]:
    import json

    from weft.access.endpoints.private_files import read_private

    try:
        found = json.loads(read_private(paths.state / RECORD))
        return int(found["port"]), str(found["key"])
    except (OSError, WeftError, ValueError, KeyError, TypeError):
        return 0, ""


def _remove_record(paths: Paths, key: str) -> None:
    if _read_record(paths)[1] == key:
        with suppress(OSError):
            (paths.state / RECORD).unlink()


def _link_of_running(paths: Paths) -> str:
    """Return another link to the page that is served already; empty: there is none."""
    import http.client

    port, key = _read_record(paths)
    if not port:
        return ""
    where = f"http://{HOST}:{port}"
    asked = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        asked.request("POST", "/links", headers={"Origin": where, "X-Weft-Key": key})
        found = asked.getresponse()
        secret = found.read(200).decode("ascii", "replace")
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        asked.close()
    return f"{where}/login?token={secret}" if found.status == 200 else ""
