"""A namespace of a test, with nothing but the loopback: for programs that listen on all addresses or on fixed ports."""

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
def nowhere_else(*folders: str) -> Iterator[tuple[str, ...]]:
    """The words that a command begins with to run in there. These folders are empty there."""
    mounts = "".join(f"mount -t tmpfs -o mode=755 tmpfs {folder} && " for folder in folders)
    script = f"{mounts}ip link set lo up && echo ready && exec sleep infinity"
    command = ["unshare", "--net", *(["--mount"] if folders else []), "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as holder:
        try:
            assert holder.stdout is not None
            ready = holder.stdout.readline().strip() == "ready"
            needed("a namespace", ready, "this needs root, unshare (util-linux) and ip (iproute2)")
            # a command that enters other mounts begins in /, not in the folder of its caller
            yield ("nsenter", f"--target={holder.pid}", "--net", *(["--mount"] if folders else []), "--")
        finally:
            holder.kill()


def lines_of(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines() if path.exists() else []
