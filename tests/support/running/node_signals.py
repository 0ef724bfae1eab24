"""Signals to all processes of a node at once, as `scancel` and `systemctl stop` send them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from weft.node.engine.shim.process_tree import descendants, list_processes


def tree(*roots: int) -> list[int]:
    """Return the processes below these, each before its parent: a job's exit is known before the node's."""
    return [stat.pid for stat in reversed(descendants(roots, list_processes()))]


def terminate(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            continue


def shims_of(jobs: Path) -> list[int]:
    return [json.loads(path.read_bytes().rstrip(b"\0"))["shim"][1] for path in jobs.glob("*/1/started.json")]


def terminate_node(worker: int, jobs: Path) -> None:
    """SIGTERM to all jobs of a worker, then to the worker itself."""
    shims = shims_of(jobs)
    terminate([pid for pid in tree(worker, *shims) if pid not in shims])
    terminate([*shims, worker])
