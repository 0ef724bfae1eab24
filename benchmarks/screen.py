"""weft top: what a screen costs the scheduler and the client with 10,000 waiting jobs, 1,000 GPUs and 100 changes a
second, in CPU seconds per second of changes."""

from __future__ import annotations

import os
import pty
import random
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from fcntl import ioctl
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.figure import Figure
from weft.model import (
    Event,
    Exited,
    Fact,
    Gpu,
    Job,
    JobId,
    Node,
    NodeId,
    NodeJoined,
    Seconds,
    Start,
    Started,
    Submitted,
)
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.job import JobState
from weft.scheduling.plugins import registry
from weft.server.api.changes import PERIOD_S, SLOW_PERIODS
from weft.views.answers.base import encode
from weft.views.answers.changes import ChangesView
from weft.views.answers.jobs import ProgressView
from weft.views.answers.services import ServiceView
from weft.views.answers.weaves import WeaveView
from weft.views.from_state.change_tracker import ChangeTracker
from weft.views.from_state.changed_rows import ChangeBuilder, Readings
from weft.views.from_state.gpu_numbers import GpuNumbers
from weft.views.from_state.measured import GpuUsage, NodeConnection

NODES: Final = 125
GPUS: Final = 8
WAITING: Final = 10_000
CHANGES_PER_S: Final = 100
SECONDS: Final = 30
SIZE: Final = (60, 200)
"""Lines and columns of the terminal."""


class BusyCluster:
    """A scheduler whose jobs end and start all the time, each GPU with new readings whenever one looks."""

    policy = "fifo"

    def __init__(self) -> None:
        self.scheduler = Scheduler(registry.load_policy("fifo"), registry.load_placement("packed"))
        self.numbers, self.at, self._draw = GpuNumbers(), 0.0, random.Random(1)
        nodes = [Node(f"n{at}", (Gpu("A100", 40960),) * GPUS, cpus=64, ram_mb=1 << 19) for at in range(NODES)]
        self.scheduler.step(*(NodeJoined(0.0, node) for node in nodes))
        self._next = 0
        self.step([self._submitted() for _ in range(NODES * GPUS + WAITING)])

    def _submitted(self) -> Submitted:
        self._next += 1
        draw = self._draw
        job = Job(str(self._next), name=f"train-{draw.randrange(999)}", user=f"user{draw.randrange(20)}", gpus=1)
        return Submitted(self.at, job)

    def step(self, events: Sequence[Event]) -> list[Fact]:
        decisions = self.scheduler.step(*events)
        started = [Started(self.at, each.job, each.run) for each in decisions if isinstance(each, Start)]
        more = self.scheduler.step(*started) if started else []
        return [*events, *decisions, *started, *more]

    def half_second(self) -> list[Fact]:
        """Return the facts of half a second: a job ends, one starts and works, one is submitted, and so on."""
        self.at += PERIOD_S
        ends = self._draw.sample(list(self.scheduler.state.active.values()), int(CHANGES_PER_S * PERIOD_S / 4))
        return self.step([*(Exited(self.at, job.id, job.run, "done", code=0) for job in ends), *map(self._new, ends)])

    def _new(self, _ended: JobState) -> Submitted:
        return self._submitted()

    # ---- the rows

    def now(self) -> Seconds:
        return self.at

    def progress(self, job: JobState) -> ProgressView | None:
        return ProgressView(self._draw.randrange(1000), 1000, 60.0, {"loss": 0.5}) if job.active else None

    def reported(self, since: Seconds) -> Sequence[JobId]:  # noqa: ARG002
        return list(self.scheduler.state.active)

    def readings(self) -> Readings:
        draw = self._draw
        return {
            (host.node.id, gpu): GpuUsage(draw.randrange(40960), float(draw.randrange(100)), 1)
            for host in self.scheduler.state.resources.nodes
            for gpu in range(GPUS)
        }

    def connections(self) -> Mapping[NodeId, NodeConnection]:
        return {}

    def services(self) -> Sequence[ServiceView]:
        return ()

    def weaves(self) -> Sequence[WeaveView]:
        return ()


def figures() -> Iterator[Figure]:
    cluster = BusyCluster()
    tracker, builder = ChangeTracker(cluster.numbers), ChangeBuilder(cluster)
    began = time.process_time()
    lines = [encode(page) for page in builder.snapshot()]
    first_s = time.process_time() - began
    cost_s, facts = 0.0, 0
    for period in range(1, int(SECONDS / PERIOD_S) + 1):
        happened = cluster.half_second()
        facts += len(happened)
        began = time.process_time()
        tracker.record(happened)
        found = builder.changes(tracker.take(), slow=period % SLOW_PERIODS == 0)
        lines.append(encode(found if found is not None else ChangesView(now=cluster.at)))
        cost_s += time.process_time() - began
    yield Figure(
        f"{facts / SECONDS:.0f} changes/s: the scheduler's part for screens", 100 * cost_s / SECONDS, "% of a core", 2.0
    )
    yield Figure("  first messages to a screen", first_s, "CPU s")
    yield Figure("  messages", sum(map(len, lines[-int(SECONDS / PERIOD_S) :])) / SECONDS / 1024, "KB/s")
    start_s, share = _measure_client(lines)
    yield Figure("  the client, at 200x60", 100 * share, "% of a core", 25.0)
    yield Figure("  start of the client, with all rows", start_s, "CPU s")


def _measure_client(lines: Sequence[str]) -> tuple[float, float]:
    """Return the CPU seconds of a screen that gets the first messages at once, and its CPU share while others come."""
    with TemporaryDirectory(prefix="weft-b-") as folder:
        played, report = Path(folder, "lines"), Path(folder, "report")
        played.write_text("\n".join(lines))
        master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        command = [
            sys.executable,
            "-m",
            "benchmarks.screen_client",
            str(played),
            str(report),
            str(int(SECONDS / PERIOD_S)),
        ]
        env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env)
        os.close(slave)
        try:
            while os.read(master, 1 << 16):
                pass
        except OSError:  # the screen is closed
            pass
        process.wait()
        os.close(master)
        start_s, share = map(float, report.read_text().split())
        return start_s, share
