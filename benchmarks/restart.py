"""Restarting a scheduler with a long history: the CPU time to read its journal, whole and compacted."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figure import Figure
from weft.history.journal.sqlite import SqliteJournal
from weft.history.journal.sqlite.compaction import compact
from weft.model import Exited, Fact, Gpu, Job, Node, NodeJoined, PerRank, Start, Started, Submitted, Task
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.placements.packed import Packed
from weft.scheduling.policies.priority import Priority
from weft.server.replay import replay

JOBS = 100_000
GOAL_S = 5.0
ENV = (("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/srv/ada"), ("LANG", "C.UTF-8"), ("USER", "ada"))


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="weft-b-") as root:
        path = Path(root, "state.db")
        with SqliteJournal(path) as journal:
            journal.append(*_history())
        yield Figure(f"restart with {JOBS:,} jobs, all facts", _measure_restart(path), "CPU s", GOAL_S)
        began = time.process_time()
        compact(path)
        yield Figure("compacting that journal, in a separate process", time.process_time() - began, "CPU s")
        yield Figure(f"restart with {JOBS:,} jobs, compacted", _measure_restart(path), "CPU s", GOAL_S)


def _history() -> Iterator[Fact]:
    """Yield the facts of jobs of which half have run and half wait."""
    task = Task(chdir="/srv/ada/work", env=ENV)
    yield NodeJoined(0.0, Node("n0", (Gpu("RTX3090", 24576),) * 8, cpus=32, ram_mb=131072))
    for number in range(JOBS):
        job = Job(
            str(number), 1, name="train", user="ada", memory_mb=PerRank(4096), command=("python", "train.py"), task=task
        )
        yield Submitted(float(number), job)
        if number % 2:
            yield Start(number + 0.1, job.id, 1, (("n0", (0,)),))
            yield Started(number + 0.2, job.id, 1)
            yield Exited(number + 0.9, job.id, 1, "done", code=0)


def _measure_restart(path: Path) -> float:
    began = time.process_time()
    scheduler = Scheduler(Priority(preempts=True), Packed())
    with SqliteJournal(path) as journal:
        replay(scheduler, journal)
    took_s = time.process_time() - began
    assert len(scheduler.state.jobs) == JOBS
    return took_s
