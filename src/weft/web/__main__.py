"""The page that `weft server --web-port` starts: `python -m weft.web JSON`, with a bound socket and a pipe as stdin.

The server holds the other end of the pipe: the page ends with its server, however the server ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
import threading
from pathlib import Path

from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import Credentials
from weft.access.endpoints.private_files import read_private
from weft.access.http.listener import TlsFiles
from weft.web.process import WebPlan, run


def main(args: list[str]) -> int:
    given = json.loads(args[0])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    folder = Path(given["folder"])
    ca = folder / "ca.pem"
    credentials = Credentials(
        read_private(folder / "token").decode().strip(), read_private(ca) if ca.exists() else None
    )
    plan = WebPlan(
        Address(given["scheduler"][0], given["scheduler"][1]), socket.socket(fileno=given["socket"]), given["host"],
        given["read_only"], tuple(given["names"]), folder, credentials,
        TlsFiles(Path(given["tls"][0]), Path(given["tls"][1])) if given["tls"] else None, stop=_end_with_server,
    )  # fmt: skip
    run(plan)
    return 0


def _end_with_server(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def watch() -> None:
        while sys.stdin.buffer.read(4096):
            pass
        loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=watch, name="server", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
