"""The servers of the emulated device on the nodes of a cell: a server that a job started would end with that job."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from weft.errors import InputError, WeftError
from weft.lab.testbed.matrix import Cell, weaves
from weft.train.emulated.server import parse

OPTIONS: Final = ("--idle", "86400", "--with-parent", "yes")
"""The servers wait for jobs as long as the driver lives; they end with it, even if it is killed."""
VARIABLE: Final = "WEFT_DEVICE_OPTIONS"
START_TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.02


def device_options() -> list[str]:
    """Return the options of device servers that the environment gives; raise InputError if they make no sense."""
    words = os.environ.get(VARIABLE, "").split()
    try:
        parse(words)
    except ValueError as error:
        hint = "such as --capacity data=2,gpu=1,net=1 --loss gpu=0.15"
        raise InputError(f"{VARIABLE}: {error}", hint=hint) from None
    return words


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
                    subprocess.Popen(
                        [*words, path, *device_options(), *OPTIONS], stdin=subprocess.PIPE, stdout=log, stderr=log
                    )
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
