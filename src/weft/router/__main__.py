"""The router that a scheduler starts: `python -m weft.router FD STATE RUNTIME`, with a socket that listens already."""

from __future__ import annotations

import logging
import socket
import sys

from weft.access.client import Client
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.paths import Paths
from weft.router import process
from weft.router.handover import SOCKET_NAME, end_without_folder, offer_socket
from weft.router.scheduler_link import SchedulerLink
from weft.router.settings import RouterSettings


def main(args: list[str]) -> int:
    listening, (state, runtime) = socket.socket(fileno=int(args[0])), args[1:3]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    where = Address(*listening.getsockname()[:2])
    link = SchedulerLink(lambda: _connect(Paths(state, runtime)), str(where))
    names = frozenset((b"localhost", socket.gethostname().lower().encode()))
    settings, door = RouterSettings(allowed_hosts=names), f"{runtime}/{SOCKET_NAME}"
    plan = process.RouterPlan(
        where, link, settings, listening=listening, link=link, on_start=lambda: offer_socket(listening, door)
    )
    process.run(plan)
    return 0


def _connect(paths: Paths) -> Client:
    end_without_folder(paths.state)
    return Client(paths, start=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
