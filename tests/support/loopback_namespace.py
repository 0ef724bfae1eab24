"""Programs that listen on all addresses, put where there is only the loopback: a network namespace of a test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest


def needed(what: str, is_there: bool, hint: str) -> None:
    """Where everything must be there, what is missing is a failure."""
    if not is_there:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"{what} is missing: {hint}")


def need_torch() -> None:
    needed("torch", find_spec("torch") is not None, "make setup installs it")


def need_mpirun() -> None:
    needed("mpirun", shutil.which("mpirun") is not None, "make setup installs it (Debian: openmpi-bin)")


@contextmanager
def nowhere_else() -> Iterator[tuple[str, ...]]:
    """The words that a command begins with to run in there."""
    script = "ip link set lo up && echo ready && exec sleep infinity"
    command = ["unshare", "--net", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as holder:
        try:
            assert holder.stdout is not None
            ready = holder.stdout.readline().strip() == "ready"
            needed("a network namespace", ready, "this needs root, unshare (util-linux) and ip (iproute2)")
            yield ("nsenter", f"--net=/proc/{holder.pid}/ns/net", "--")
        finally:
            holder.kill()


def lines_of(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines() if path.exists() else []
