"""The processes of a run, for its shim: signals to the leader, to all of them, and their end.

A run in a container has other processes as well: the supervisor, the runtime's program, and an init. They get no signal
that is meant for the command, except SIGKILL.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

from weft.node.engine.container import record
from weft.node.engine.shim import process_tree, run_files
from weft.node.engine.shim.process_id import ProcStat


class RunTree:
    """The processes of one run. The shim runs in the directory of the run."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.leader = -1
        self._folder: str = spec["dir"] if spec.get("container") else ""

    def signal_leader(self, number: int) -> None:
        # an unreaped child keeps its pid, so this cannot reach another process
        os.kill(self.leader, number)
        os.kill(self.leader, signal.SIGCONT)

    def members(self) -> list[ProcStat]:
        """Return the processes of the command. In a container that has not started, there are none."""
        everything = process_tree.list_processes()
        if not self._folder:
            return process_tree.descendants([os.getpid()], everything)
        known = record.read_record(self._folder)
        if known is None or not known.pid:
            return []
        first = [each for each in everything if (each.pid, each.start) == (known.pid, known.start) and not each.dead]
        below = process_tree.descendants([known.pid], everything) if first else []
        return below if known.init else [*first, *below]

    def signal_all(self, *signals: int) -> int:
        """Signal every process of the command; return how many there are."""
        victims = self.members()
        reached = sum(process_tree.signal_process(stat, *signals) for stat in victims)
        if self._folder and not reached and signals[0] not in (signal.SIGSTOP, signal.SIGCONT):
            self.signal_leader(signals[0])  # it has not started yet, or belongs to another user
        return len(victims)

    def kill(self) -> None:
        """Send SIGKILL to every process, those of Weft and the runtime included."""
        for stat in self.members() if self._folder else ():
            process_tree.signal_process(stat, signal.SIGKILL)
        process_tree.signal_descendants(os.getpid(), signal.SIGKILL)


def run_pids(shims: Mapping[tuple[str, int], int], jobs_dir: str) -> dict[tuple[str, int], frozenset[int]]:
    """Return the pids of all runs, given those of their shims. A daemon may own the processes of a container."""
    everything = process_tree.list_processes()
    found = {}
    for (job, run), shim in shims.items():
        known = record.read_record(run_files.run_dir(jobs_dir, job, run))
        roots = [shim, known.pid] if known is not None and known.pid else [shim]
        below = {stat.pid for stat in process_tree.descendants(roots, everything)}
        found[job, run] = frozenset(below.union(roots[1:]))
    return found
