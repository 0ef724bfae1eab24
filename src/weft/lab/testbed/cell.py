"""Runs a cell: starts its cluster, plays the trace, collects the journal, and ends everything that it started."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from tempfile import TemporaryDirectory
from typing import Any, Final

from weft.access.client import Client
from weft.access.client.trace_player import TracePlayer, check_fits
from weft.errors import WeftError
from weft.lab.testbed import measures
from weft.lab.testbed.clusters import LOOPBACK, Running, Site, end_leftovers, read_journal
from weft.lab.testbed.device_servers import device_options, device_servers
from weft.lab.testbed.emulated_jobs import device_variables, program_of
from weft.lab.testbed.failures import failed_jobs
from weft.lab.testbed.matrix import Cell
from weft.lab.testbed.store import JOURNAL, Store
from weft.lab.testbed.workload import CellWorkload
from weft.model import Fact

POLL_S: Final = 2.0
"""Seconds between two looks at which jobs have ended. The journal has the exact times."""
GROUP: Final = "testbed"

Tick = Callable[[int], None]
"""Called with the number of ended jobs, several times per second. It may raise, which ends the cell."""


def run_cell(store: Store, cell: Cell, workload: CellWorkload, tick: Tick, site: Site = LOOPBACK) -> dict[str, Any]:
    """Run a cell from its beginning, and save and return its result."""
    check_fits(workload.jobs, workload.gpus)
    group = f"{GROUP}-{os.urandom(4).hex()}"
    with store.locked(cell) as folder:
        end_leftovers(folder)
        began, began_at = time.monotonic(), datetime.now(UTC)
        with site.open(folder, cell, workload) as up:
            played = _play(up, cell, workload, group, tick, site)
        facts = measures.facts_of(read_journal(folder), group)
        result = {
            "began": began_at.isoformat(timespec="seconds"), "wall_s": round(time.monotonic() - began, 1), **played,
            "trace": workload.trace, "gpus": workload.gpus, "nodes": len(workload.nodes), "group": group,
            "figures": measures.figures_of(facts, cell.speed, group),
            "latencies": measures.as_json(measures.latencies(facts)),
            "weave_sizes": measures.weave_sizes(facts),
            "device_options": " ".join(device_options()),
        }  # fmt: skip
        store.save(cell, result)
        return result


def _play(
    up: Running, cell: Cell, workload: CellWorkload, group: str, tick: Tick, site: Site
) -> dict[str, Any]:  # fmt: skip
    """Play the trace to its end. Return what only the running cluster tells."""
    loads: list[float] = []

    def watch(ended: int) -> None:
        loads.append(os.getloadavg()[0])
        tick(ended)

    # on other machines jobs start the servers that they need
    nodes = [node.id for node in workload.nodes] if site.address is None else []
    program, saves_in = program_of(cell, portable=site.address is not None), site.folder or None
    with (
        TemporaryDirectory(prefix="weft-testbed-", dir=saves_in, ignore_cleanup_errors=True) as saves,
        device_servers(cell, nodes, saves),
        Client(up.scheduler) as client,
    ):
        player = TracePlayer(
            client, workload.jobs, cell.speed, group=group, folder=saves, program=program,
            env=device_variables(cell, saves), poll_s=POLL_S,
        )  # fmt: skip
        try:
            player.play(watch)
        except BaseException:
            if site.address is not None:  # the workers stay, so their jobs would
                player.cancel()
            raise
        cpu_s, failed = sum(map(_cpu_s, up.pids)), failed_jobs(client, group)
    load = {"mean": round(sum(loads) / len(loads), 2), "max": max(loads)}
    return {"late_s": round(player.late_s, 3), "cpu_s": round(cpu_s, 1), "load": load, "failed": failed}


def read_cell_facts(store: Store, cell: Cell, group: str) -> list[Fact]:
    """Return the facts of a finished cell."""
    if not (store.folder(cell) / JOURNAL).exists():
        raise WeftError(f"{store.folder(cell)} has no journal\n  remove the folder, and run the cell again")
    return measures.facts_of(read_journal(store.folder(cell)), group)


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process, and of its children that have ended."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
