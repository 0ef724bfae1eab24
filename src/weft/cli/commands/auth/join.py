"""Exchange a join token for a personal token, and save that where commands find it.

The token goes only to its scheduler: it names the authority whose certificate the scheduler must present."""

from __future__ import annotations

import argparse
import socket
import sys
from typing import Final

from weft.cli import connection, render

EXAMPLE: Final = """examples:
  weft auth join gpu-head:50051 weft-join.0a1b2c...
  weft auth join gpu-head:50051 - < token
  weft auth join head-a:50051,head-b:50051 weft-join.0a1b2c...
  weft auth join gpu-head:50051 weft-join.0a1b2c... --node gpu7"""
MAX_TOKEN_CHARS: Final = 1000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("where", metavar="HOST:PORT", help="address of the scheduler; of all its servers: A,B")
    parser.add_argument("token", metavar="TOKEN", help="token from weft auth token; -: standard input")
    parser.add_argument("--node", metavar="NAME", help="for a worker: its name (default: the host name)")


def run(args: argparse.Namespace) -> int:
    connection.load_grpc()
    from weft.access.client.join import join
    from weft.access.endpoints.addresses import parse_scheduler
    from weft.access.endpoints.credentials import save_credentials

    where = parse_scheduler(args.where)
    token = sys.stdin.readline(MAX_TOKEN_CHARS) if args.token == "-" else args.token
    reply, credentials = join(where, token.strip(), args.node or socket.gethostname())
    path = save_credentials(where, "worker" if reply.role == "worker" else "user", credentials)
    if args.json:
        render.print_json({"schema": 1, "role": reply.role, "user": reply.user, "file": str(path)})
        return 0
    print(f"joined {where} as {reply.role}" + ("" if reply.role == "worker" else f" {reply.user}"))
    if reply.role == "worker":
        render.print_message(f"next: weft worker --scheduler {where} --id {args.node or socket.gethostname()}")
    else:
        render.print_message(
            f"next: weft queue --scheduler {where}; scheduler: {where} in the config file makes it the default"
        )
    return 0
