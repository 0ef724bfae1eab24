"""The process engine with a command that does nothing: runs per second, and the CPU time of each."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.figure import Figure
from weft.node.engine.engine import ProcessEngine
from weft.node.engine.events import Report, RunExited
from weft.node.engine.launch_spec import LaunchSpec

RUNS, IN_FLIGHT = 1000, 8
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Collector:
    """Starts runs as others end, and collects the exits."""

    engine: ProcessEngine
    left: int
    done: asyncio.Event
    exits: list[RunExited] = field(default_factory=list)

    def start(self) -> None:
        self.left -= 1
        self.engine.start(LaunchSpec(str(self.left), 1, ("true",), env=tuple(os.environ.items())))

    def receive(self, report: Report) -> None:
        if isinstance(report, RunExited):
            self.exits.append(report)
            if self.left:
                self.start()
            elif not self.engine.runs:
                self.done.set()


def figures() -> Iterator[Figure]:
    """Measure in memory, and on disk without a goal: ext4 is slow for minutes after many files were deleted."""
    memory = Path("/dev/shm")
    for where, place in (("in memory", memory if memory.is_dir() else None), ("on disk", None)):
        with tempfile.TemporaryDirectory(dir=place) as folder:
            yield from asyncio.run(_measure(Path(folder), where, place is not None))


async def _measure(folder: Path, where: str, has_goal: bool) -> list[Figure]:
    engine = ProcessEngine("here", folder / "jobs", folder / "runtime", lambda report: collector.receive(report))
    collector = Collector(engine, RUNS, asyncio.Event())
    await engine.open()
    engine_s, wall = time.process_time(), time.monotonic()
    for _ in range(IN_FLIGHT):
        collector.start()
    await collector.done.wait()
    wall, engine_s = time.monotonic() - wall, time.process_time() - engine_s
    starter_s = _cpu_s(engine.starter_pid or os.getpid())
    await engine.close()
    assert all(report.code == 0 for report in collector.exits)
    shim_s, command_s = (sum(getattr(e, name) for e in collector.exits) for name in ("shim_cpu_s", "cpu_s"))
    rate_goal, cost_goal = (400, 2.5) if has_goal else (None, None)
    cost_ms = 1e3 * (starter_s + shim_s + command_s) / RUNS
    return [
        Figure(f"runs of `true` {where}, {IN_FLIGHT} in flight", RUNS / wall, "runs/s", rate_goal, more_is_better=True),
        Figure(f"{where}: starter, shim and command", cost_ms, "CPU ms/run", cost_goal),
        Figure(f"{where}: the command alone", 1e3 * command_s / RUNS, "CPU ms/run"),
        Figure(f"{where}: the engine", 1e3 * engine_s / RUNS, "CPU ms/run"),
    ]


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process, without its children."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
