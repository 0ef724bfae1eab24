"""A cell on workers that join from other machines: the driver starts the scheduler, waits for GPUs, and ends it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from weft.access.client import Client
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.paths import make_private, server_folder
from weft.errors import Unreachable, WeftError

POLL_S: Final = 0.5
JOIN_TIMEOUT_S: Final = 3600.0
"""Limit for the workers to join: a person starts them by hand."""
END_TIMEOUT_S: Final = 20.0
CONSOLE_FILE: Final = "testbed-console.log"

Wait = Callable[[int, int], None]
"""Called with the GPUs that have joined and the GPUs that are wanted, while workers are missing. It may raise."""


@contextmanager
def served_scheduler(address: Address, options: Sequence[str], gpus: int, wait: Wait) -> Iterator[int]:
    """Run a scheduler at this address until the block ends; yield its pid once workers with these GPUs have joined.

    Workers stay: they connect again to the scheduler of the next cell."""
    folder = server_folder(address.port)
    make_private(folder)
    console = folder / CONSOLE_FILE
    words = [sys.executable, "-m", "weft", "server", "--host", address.host, "--port", str(address.port), *options]
    with open(console, "wb") as output:
        process = subprocess.Popen(words, cwd="/", stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        _await_gpus(process, console, address, gpus, wait)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_gpus(process: subprocess.Popen[bytes], console: Path, address: Address, gpus: int, wait: Wait) -> None:
    until = time.monotonic() + JOIN_TIMEOUT_S
    while True:
        if process.poll() is not None:
            raise WeftError(f"the scheduler did not start: {console.read_text(errors='replace').strip()[-1000:]}")
        joined = _joined_gpus(address)
        if joined >= gpus:
            return
        if time.monotonic() > until:
            raise Unreachable(f"workers with {joined} of {gpus} GPUs joined within {JOIN_TIMEOUT_S:.0f} s")
        wait(joined, gpus)
        time.sleep(POLL_S)


def _joined_gpus(address: Address) -> int:
    """Return the GPUs of connected workers; 0 while the scheduler does not answer."""
    try:
        with Client(address) as client:
            return sum(node.gpus for node in client.nodes().nodes if node.state == "connected")
    except WeftError:
        return 0
