"""Request one allocation of a pool, wait until its worker has joined, and give it back. Show its log if it fails."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render
from weft.errors import WeftError
from weft.text import escape_controls

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.views.answers.pools import AllocationView, PoolView

EXAMPLE: Final = """example:
  weft pool try a100"""
POLL_S: Final = 0.5


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", metavar="NAME", help="the pool")
    parser.add_argument(
        "--timeout", metavar="S", type=flags.seconds_or_duration, default=600.0, help="the most time to wait (10m)"
    )
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.pools import TRY_POOL

    with connection.connect(args.scheduler) as client:
        began = time.monotonic()
        key = client.operate(TRY_POOL, pool=args.pool).key
        joined = _wait(client, args.pool, key, began + args.timeout, quiet=args.json)
        client.operate(TRY_POOL, pool=args.pool, done=key)
    took_s = round(time.monotonic() - began, 1)
    if args.json:
        render.print_json({"schema": 1, "pool": args.pool, "key": key, "node": joined, "seconds": took_s})
    else:
        render.print_message(f"{joined} joined after {took_s} s; pool {args.pool} works")
    return 0


def _wait(client: Client, name: str, key: str, until: float, *, quiet: bool) -> str:
    """Return the node once it has joined; raise with the log if the allocation fails."""
    last = ""
    while time.monotonic() < until:
        pool = next((each for each in client.pools().pools if each.name == name), None)
        each = None if pool is None else next((a for a in pool.allocations if a.key == key), None)
        if each is None or each.phase == "released":
            raise WeftError(_failure(pool, each, key))
        if each.phase == "joined":
            return each.node
        words = f"{each.phase}{f' ({each.reason})' if each.reason else ''}"
        if words != last and not quiet:
            render.print_message(escape_controls(f"{key}: {words}"))
        last = words
        time.sleep(POLL_S)
    client_words = "weft pool show says more" if not last else f"it is {last}; weft pool show says more"
    raise WeftError(f"no worker joined from {key} in time\n  {client_words}")


def _failure(pool: PoolView | None, each: AllocationView | None, key: str) -> str:
    if each is not None:
        return f"{key} was given back: {each.reason}\n  weft pool show says more"
    log = "" if pool is None else escape_controls(pool.failure.replace("\n", "\n  "))
    return f"{key} has ended before a worker joined\n  {log or 'it left no log'}"
