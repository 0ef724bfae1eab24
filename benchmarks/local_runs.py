"""Runs of the local engine, of a command that does nothing: how many a second, and what each costs."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.figure import Figure
from weft.local.engine import LocalEngine
from weft.local.order import RunOrder
from weft.local.reports import Report, RunExited

RUNS, IN_FLIGHT = 1000, 8
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Tally:
    engine: LocalEngine
    left: int
    done: asyncio.Event
    exits: list[RunExited] = field(default_factory=list)

    def start(self) -> None:
        self.left -= 1
        self.engine.start(RunOrder(str(self.left), 1, ("true",), env=tuple(os.environ.items())))

    def hear(self, report: Report) -> None:
        if isinstance(report, RunExited):
            self.exits.append(report)
            if self.left:
                self.start()
            elif not self.engine.runs:
                self.done.set()


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        yield from asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> list[Figure]:
    engine = LocalEngine("here", folder / "jobs", folder / "runtime", lambda report: tally.hear(report))
    tally = Tally(engine, RUNS, asyncio.Event())
    await engine.open()
    engine_s, wall = time.process_time(), time.monotonic()
    for _ in range(IN_FLIGHT):
        tally.start()
    await tally.done.wait()
    wall, engine_s = time.monotonic() - wall, time.process_time() - engine_s
    starter_s = _cpu_s(engine.starter or os.getpid())
    await engine.close()
    assert all(report.code == 0 for report in tally.exits)
    shim_s, command_s = (sum(getattr(e, name) for e in tally.exits) for name in ("shim_cpu_s", "cpu_s"))
    return [
        Figure(f"local runs of `true`, {IN_FLIGHT} in flight", RUNS / wall, "runs/s", 400, more_is_better=True),
        Figure("starter, shim and command", 1e3 * (starter_s + shim_s + command_s) / RUNS, "CPU ms/run", 2.5),
        Figure("of it the command", 1e3 * command_s / RUNS, "CPU ms/run"),
        Figure("the engine beside", 1e3 * engine_s / RUNS, "CPU ms/run"),
    ]


def _cpu_s(pid: int) -> float:
    """What a process used itself."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
