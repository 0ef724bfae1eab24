"""The memory of a real worker with its companion processes: the starter and the idle shims."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.agents import connected, start, start_server
from benchmarks.figure import Figure
from weft.access.client import Client
from weft.access.wire.messages import JobSpec, SubmitRequest
from weft.node.agent.free_memory import TRIM_PERIOD_S
from weft.node.engine.shim import process_tree
from weft.node.engine.shim.starter import SPARE_IDLE_S

GOAL_MB: Final = 30.0
JOBS: Final = 20


def figures() -> Iterator[Figure]:
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory(prefix="weft-b-")))
        _, port = start_server(stack, home, 60.0)
        words = ("--scheduler", f"localhost:{port}", "--id", "n1", "--gpus", "0,1", "--pretend", "--run-as", "worker")
        worker = start(stack, "weft", "worker", *words)
        client = stack.enter_context(Client(scheduler=f"localhost:{port}"))
        while not connected(client):
            time.sleep(0.2)
        yield Figure("a worker that has joined, with its starter", tree_pss_mb(worker), "MB PSS", GOAL_MB)
        client.submit(SubmitRequest(jobs=[JobSpec(command=["true"], gpus=1) for _ in range(JOBS)], chdir="/"))
        while (found := client.queue(limit=1)).running + found.waiting:
            time.sleep(0.2)
        yield Figure(f"  the same after {JOBS} jobs", tree_pss_mb(worker), "MB PSS")
        time.sleep(max(3 * SPARE_IDLE_S, TRIM_PERIOD_S) + 5)
        yield Figure("  the same when spare shims have ended", tree_pss_mb(worker), "MB PSS", GOAL_MB)
        yield Figure("  of that, the worker itself", pss_mb(worker), "MB PSS")
        companions = process_tree.descendants([worker], process_tree.list_processes())
        yield Figure("  companion processes", float(len(companions)), "")


def tree_pss_mb(root: int) -> float:
    """Return the main memory of a process and its descendants. Memory that several of them share counts once."""
    children = process_tree.descendants([root], process_tree.list_processes())
    return sum(pss_mb(pid) for pid in {root, *(stat.pid for stat in children)})


def pss_mb(pid: int) -> float:
    """Return the main memory of a process; its share of what it shares with others."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except FileNotFoundError:
        return 0.0
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
