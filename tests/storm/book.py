"""Records that the processes of jobs wrote of themselves and of their faults, independent of the scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from storm.probe import born
from weft.model import JobId

RunKey = tuple[JobId, int]


class Begin(NamedTuple):
    job: JobId
    run: int
    rank: int
    node: str
    pid: int
    born: int
    leads: bool

    @property
    def key(self) -> RunKey:
        return self.job, self.run

    @property
    def lives(self) -> bool:
        return born(self.pid) == self.born


@dataclass
class Book:
    path: Path
    killed: set[RunKey] = field(default_factory=set)
    """Runs of which a process was killed."""
    unkept: set[RunKey] = field(default_factory=set)
    """Runs of which a shim was killed."""

    def _lines(self, kind: str) -> list[list[str]]:
        lines = [line.split() for line in self.path.read_text().splitlines()]
        return [line[1:] for line in lines if line[0] == kind]

    def begins(self) -> list[Begin]:
        return [
            Begin(job, int(run), int(rank), node, int(pid), int(since), what == "leads")
            for job, run, rank, node, _gpus, pid, since, what in self._lines("begin")
        ]

    def living(self) -> list[Begin]:
        return [line for line in self.begins() if line.lives]

    def living_leaders(self) -> list[Begin]:
        return [line for line in self.living() if line.leads]

    def overlaps(self) -> list[str]:
        return [" ".join(line) for line in self._lines("overlap")]

    def codes(self) -> dict[RunKey, dict[int, int]]:
        """Return the exit codes of runs that ended by themselves, by rank."""
        found: dict[RunKey, dict[int, int]] = {}
        for job, run, rank, code in self._lines("end"):
            found.setdefault((job, int(run)), {})[int(rank)] = int(code)
        return found
