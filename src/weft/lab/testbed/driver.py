"""Runs the cells of a matrix, several at a time. It keeps finished ones: a driver that was killed continues."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import Any, Final

from weft.access.client.quiet_grpc import load_grpc
from weft.errors import WeftError
from weft.lab.testbed.cell import run_cell
from weft.lab.testbed.clusters import LOOPBACK, Site
from weft.lab.testbed.matrix import Cell
from weft.lab.testbed.store import Store
from weft.lab.testbed.workload import CellWorkload

WAIT_S: Final = 0.2


class Interrupted(WeftError):
    """The driver was interrupted."""


@dataclass
class Progress:
    """Called in the threads of the cells."""

    begin: Callable[[Cell], None] = field(default=lambda _: None)
    advance: Callable[[Cell, int], None] = field(default=lambda _cell, _ended: None)
    finish: Callable[[Cell, dict[str, Any]], None] = field(default=lambda _cell, _result: None)
    fail: Callable[[Cell, Exception], None] = field(default=lambda _cell, _error: None)


def run_matrix(
    store: Store, work: Sequence[tuple[Cell, CellWorkload]], *, at_once: int, progress: Progress, site: Site = LOOPBACK
) -> list[tuple[Cell, Exception]]:
    """Run the cells that have not finished. Return the ones that failed. An interrupt ends all clusters first."""
    stop = threading.Event()
    load_grpc()  # it changes the environment, so not while threads start processes

    def run(cell: Cell, workload: CellWorkload) -> None:
        if stop.is_set():
            return
        progress.begin(cell)

        def tick(ended: int) -> None:
            if stop.is_set():
                raise Interrupted("interrupted")
            progress.advance(cell, ended)

        def wait(joined: int, wanted: int) -> None:
            if stop.is_set():
                raise Interrupted("interrupted")
            site.wait(joined, wanted)

        result = run_cell(store, cell, workload, tick, replace(site, wait=wait))
        progress.finish(cell, result)

    with ThreadPoolExecutor(max(at_once, 1)) as pool:
        running = {pool.submit(run, cell, workload): cell for cell, workload in work if not store.is_finished(cell)}
        failed: list[tuple[Cell, Exception]] = []
        waiting: set[Future[None]] = set(running)
        try:
            while waiting:
                done, waiting = wait(waiting, WAIT_S)
                for each in done:
                    error = each.exception()
                    if isinstance(error, Exception):
                        failed.append((running[each], error))
                        progress.fail(running[each], error)
        except BaseException:
            stop.set()
            raise
    return failed
