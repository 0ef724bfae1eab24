"""The servers of the emulated device on the nodes of a cell: a server that a job started would end with that job."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from weft.errors import WeftError
from weft.testbed.matrix import Cell, weaves

OPTIONS: Final = ("--idle", "86400", "--with-parent", "yes")
"""The servers wait for jobs as long as the driver lives; they end with it, even if it is killed."""
START_TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.02


@contextmanager
def device_servers(cell: Cell, nodes: Sequence[str], folder: str) -> Iterator[None]:
    """Run a server for each node, if the jobs of the cell share stages: in lock-step they never do."""
    if not weaves(cell.policy) or cell.order == "slots":
        yield
        return
    words = [sys.executable, "-m", "weft.train.emulated.server"]
    servers: list[subprocess.Popen[bytes]] = []
    try:
        for node in nodes:
            path = f"{folder}/{node}.sock"
            with open(f"{path}.log", "wb") as log:
                servers.append(
                    subprocess.Popen([*words, path, *OPTIONS], stdin=subprocess.PIPE, stdout=log, stderr=log)
                )
        for node, server in zip(nodes, servers, strict=True):
            _await_socket(f"{folder}/{node}.sock", server)
        yield
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.communicate()


def _await_socket(path: str, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_TIMEOUT_S
    while not os.path.exists(path):
        if server.poll() is not None or time.monotonic() > until:
            with open(f"{path}.log", errors="replace") as log:
                raise WeftError(f"an emulated device did not start: {log.read().strip()[-500:] or path}")
        time.sleep(POLL_S)
