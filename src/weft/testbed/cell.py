"""Runs a cell: brings its cluster up, plays the trace, collects the journal, and ends everything that it started."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from weft.bringup import record, teardown
from weft.bringup.loopback import bring_up
from weft.bringup.record import Record
from weft.client import Client
from weft.client.trace_player import TracePlayer, check_fits
from weft.endpoints.addresses import Address, parse_address
from weft.endpoints.paths import server_folder
from weft.errors import WeftError
from weft.inputs.atomic import write_atomic
from weft.journal import JsonlJournal, open_journal
from weft.model import Fact
from weft.sim.traces.trace import TraceJob
from weft.testbed import measures
from weft.testbed.emulated_jobs import device_variables, live_policy, program_of
from weft.testbed.matrix import Cell
from weft.testbed.scaling import scale_interval
from weft.testbed.store import CLUSTER, JOURNAL, Store
from weft.testbed.workload import CellWorkload

POLL_S: Final = 2.0
"""Seconds between two looks at which jobs have ended. The journal has the exact times."""
UNLIMITED: Final = 1_000_000
"""Preemptions: the published policies stop a job as often as they like."""
GROUP: Final = "testbed"

Tick = Callable[[int], None]
"""Called with the number of ended jobs, several times per second. It may raise, which ends the cell."""


def run_cell(store: Store, cell: Cell, workload: CellWorkload, tick: Tick) -> dict[str, Any]:
    """Run a cell from its beginning, and save and return its result."""
    check_fits(workload.jobs, workload.gpus)
    with store.locked(cell) as folder:
        end_leftovers(folder)
        began, began_at = time.monotonic(), datetime.now(UTC)
        with _cluster(folder, cell, workload) as up, TemporaryDirectory(prefix="weft-testbed-") as saves:
            played = _play(up, cell, workload.jobs, saves, tick)
        facts = _read_facts(folder)
        result = {
            "began": began_at.isoformat(timespec="seconds"), "wall_s": round(time.monotonic() - began, 1), **played,
            "trace": workload.trace, "gpus": workload.gpus, "nodes": len(workload.nodes),
            "figures": measures.figures_of(facts, cell.speed, GROUP),
            "latencies": measures.as_json(measures.latencies(facts)),
            "weave_sizes": measures.weave_sizes(facts),
        }  # fmt: skip
        store.save(cell, result)
        return result


def end_leftovers(folder: Path) -> None:
    """End the cluster of a driver that was killed."""
    try:
        address = parse_address(json.loads((folder / CLUSTER).read_bytes())["scheduler"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    if (left := record.load(address)) is not None:
        _end(left, address)
    (folder / CLUSTER).unlink(missing_ok=True)


@contextmanager
def _cluster(folder: Path, cell: Cell, workload: CellWorkload) -> Iterator[Record]:
    """Bring up a cluster. At the end save its journal, end its processes and remove its files."""
    address = Address("localhost", _free_port())
    write_atomic(folder / CLUSTER, json.dumps({"scheduler": str(address)}).encode())
    try:
        up = bring_up(address, workload.nodes, _options(cell))
    except BaseException:
        teardown.remove_files(address)
        raise
    try:
        yield up
        _stop(up)
        _save_journal(address, folder)
    finally:
        _end(up, address)
        (folder / CLUSTER).unlink(missing_ok=True)


def _options(cell: Cell) -> list[str]:
    """Return the flags of the scheduler."""
    return [
        "--policy", live_policy(cell), "--min-run", "0", "--max-preemptions", str(UNLIMITED),
        "--schedule-interval", f"{scale_interval(cell.interval_s, cell.speed):g}",
    ]  # fmt: skip


def _play(up: Record, cell: Cell, jobs: Sequence[TraceJob], saves: str, tick: Tick) -> dict[str, Any]:
    """Play the trace to its end. Return what only the running cluster tells."""
    loads: list[float] = []

    def watch(ended: int) -> None:
        loads.append(os.getloadavg()[0])
        tick(ended)

    with Client(parse_address(up.scheduler)) as client:
        player = TracePlayer(
            client,
            jobs,
            cell.speed,
            group=GROUP,
            folder=saves,
            program=program_of(cell),
            env=device_variables(cell),
            poll_s=POLL_S,
        )
        player.play(watch)
    cpu_s = sum(_cpu_s(each.who.pid) for each in up.processes)
    load = {"mean": round(sum(loads) / len(loads), 2), "max": max(loads)}
    return {"late_s": round(player.late_s, 3), "cpu_s": round(cpu_s, 1), "load": load}


def _stop(up: Record) -> None:
    """End the processes in order, so that the journal is complete."""
    teardown.end_processes(up)


def _end(up: Record, address: Address) -> None:
    teardown.end_processes(up)
    record.save(Record(str(address)))
    teardown.remove_files(address)


def _save_journal(address: Address, folder: Path) -> None:
    path = folder / JOURNAL
    path.unlink(missing_ok=True)
    with open_journal(server_folder(address.port) / "state.db", readonly=True) as live, JsonlJournal(path) as copy:
        copy.append(*live.read())


def _read_facts(folder: Path) -> list[Fact]:
    with open_journal(folder / JOURNAL, readonly=True) as journal:
        return list(journal.read())


def read_cell_facts(store: Store, cell: Cell) -> list[Fact]:
    """Return the facts of a finished cell."""
    if not (store.folder(cell) / JOURNAL).exists():
        raise WeftError(f"{store.folder(cell)} has no journal\n  remove the folder, and run the cell again")
    return _read_facts(store.folder(cell))


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process, and of its children that have ended."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
