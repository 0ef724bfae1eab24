"""The web page that a server starts as another process, so that browsers never take the scheduler's time.

The server binds the socket, so that a port in use is an error of its start. The page ends with its server: it reads a
pipe of which the server holds the other end.
"""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from weft.access.endpoints.addresses import Address
from weft.access.server.plan import PageAt

CHECK_S: Final = 2.0
"""The seconds between two checks whether the page still runs."""
STOP_S: Final = 3.0
LOG: Final = "web.log"
log = logging.getLogger(__name__)


class PageProcess:
    """The page of one server; without `where`, there is none."""

    def __init__(self, folder: Path, where: PageAt | None) -> None:
        self._folder, self._where = folder, where
        self._socket: socket.socket | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._scheduler = Address("localhost", 0)
        self._tls: tuple[str, str] | None = None

    @property
    def port(self) -> int | None:
        return self._socket.getsockname()[1] if self._socket is not None else None

    def bind(self, server_port: int) -> None:
        """Take the port of the page. Raise if that is not possible."""
        if self._where is None:
            return
        from weft.access.http.listener import bind, tls_files

        files = tls_files(self._where.host, server_port, self._folder, "--web-host")
        self._tls = (str(files.certificate), str(files.key)) if files else None
        self._socket = bind(self._where.host, self._where.port, port_flag="--web-port", host_flag="--web-host")

    def start(self, scheduler: Address) -> None:
        """Start the page for the scheduler at this address."""
        self._scheduler = scheduler
        self.ensure()

    def ensure(self) -> None:
        """Start the page unless it runs."""
        if self._socket is None or self._where is None:
            return
        if self._child is not None:
            if self._child.poll() is None:
                return
            log.warning("the web page ended with code %s; see %s", self._child.returncode, self._folder / LOG)
        given = {
            "folder": str(self._folder), "scheduler": list(self._scheduler), "socket": self._socket.fileno(),
            "host": self._where.host, "read_only": self._where.read_only, "names": self._where.names,
            "tls": self._tls,
        }  # fmt: skip
        with open(self._folder / LOG, "ab") as output:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "weft.web", json.dumps(given)], stdin=subprocess.PIPE, stdout=output,
                stderr=output, pass_fds=(self._socket.fileno(),), start_new_session=True, cwd="/",
            )  # fmt: skip

    def stop(self) -> None:
        """End the page."""
        if self._child is not None:
            assert self._child.stdin is not None
            self._child.stdin.close()
            until = time.monotonic() + STOP_S
            while self._child.poll() is None and time.monotonic() < until:
                time.sleep(0.02)
            if self._child.poll() is None:
                self._child.kill()
                self._child.wait()
            self._child = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
