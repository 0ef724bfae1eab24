"""The clusters of cells: on loopback with declared GPUs, or a scheduler that workers of other machines join."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from weft.access.endpoints.addresses import Address, parse_address
from weft.access.endpoints.paths import server_folder
from weft.history.journal import JsonlJournal, open_journal
from weft.inputs.atomic import write_atomic
from weft.lab.testbed.emulated_jobs import live_policy
from weft.lab.testbed.matrix import Cell
from weft.lab.testbed.scaling import scale_interval
from weft.lab.testbed.served import Wait, served_scheduler
from weft.lab.testbed.store import CLUSTER, JOURNAL
from weft.lab.testbed.workload import CellWorkload
from weft.model import Fact
from weft.node.bringup import record, teardown
from weft.node.bringup.loopback import bring_up
from weft.node.bringup.record import Record

UNLIMITED: Final = 1_000_000
"""Preemptions: the published policies stop a job as often as they like."""


class Running(NamedTuple):
    """A cluster that runs."""

    scheduler: Address
    pids: Sequence[int]
    """Its processes on this machine."""


@dataclass(frozen=True)
class Site:
    """The place where cells run."""

    address: Address | None = None
    """Where the scheduler of each cell listens, for workers on other machines; None: on loopback, at a free port."""
    folder: str = ""
    """A folder that all machines share, for the saves of jobs; empty: a temporary one of this machine."""
    wait: Wait = field(default=lambda _joined, _wanted: None)

    def open(self, folder: Path, cell: Cell, workload: CellWorkload) -> AbstractContextManager[Running]:
        """Start the cluster of a cell; at the end of the block save its journal in the folder of the cell."""
        if self.address is None:
            return _loopback(folder, cell, workload)
        return _served(folder, cell, workload, self.address, self.wait)


LOOPBACK: Final = Site()


def end_leftovers(folder: Path) -> None:
    """End the cluster of a driver that was killed."""
    try:
        address = parse_address(json.loads((folder / CLUSTER).read_bytes())["scheduler"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    if (left := record.load(address)) is not None:
        _end(left, address)
    (folder / CLUSTER).unlink(missing_ok=True)


def read_journal(folder: Path) -> list[Fact]:
    """Return the facts of a cell."""
    with open_journal(folder / JOURNAL, readonly=True) as journal:
        return list(journal.read())


@contextmanager
def _loopback(folder: Path, cell: Cell, workload: CellWorkload) -> Iterator[Running]:
    """Bring up a scheduler and its workers. End them and remove their files."""
    address = Address("localhost", _free_port())
    write_atomic(folder / CLUSTER, json.dumps({"scheduler": str(address)}).encode())
    try:
        up = bring_up(address, workload.nodes, _options(cell))
    except BaseException:
        teardown.remove_files(address)
        raise
    try:
        yield Running(address, [each.who.pid for each in up.processes])
        teardown.end_processes(up)
        _save_journal(address, folder)
    finally:
        _end(up, address)
        (folder / CLUSTER).unlink(missing_ok=True)


@contextmanager
def _served(folder: Path, cell: Cell, workload: CellWorkload, address: Address, wait: Wait) -> Iterator[Running]:
    """Start a scheduler, and wait for its workers. They stay, and join the scheduler of the next cell."""
    with served_scheduler(address, _options(cell), workload.gpus, wait) as pid:
        yield Running(address, [pid])
    _save_journal(address, folder)


def _options(cell: Cell) -> list[str]:
    """Return the flags of the scheduler."""
    return [
        "--policy", live_policy(cell), "--min-run", "0", "--max-preemptions", str(UNLIMITED),
        "--schedule-interval", f"{scale_interval(cell.interval_s, cell.speed):g}",
    ]  # fmt: skip


def _end(up: Record, address: Address) -> None:
    teardown.end_processes(up)
    record.save(Record(str(address)))
    teardown.remove_files(address)


def _save_journal(address: Address, folder: Path) -> None:
    path = folder / JOURNAL
    path.unlink(missing_ok=True)
    with open_journal(server_folder(address.port) / "state.db", readonly=True) as live, JsonlJournal(path) as copy:
        copy.append(*live.read())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
