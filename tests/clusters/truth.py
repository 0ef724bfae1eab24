"""The true history of the machines, independent of messages: which runs have processes where, and how they ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from weft.model import JobId

RunKey = tuple[JobId, int]


@dataclass(slots=True)
class Process:
    """All processes of one part of a run."""

    key: RunKey
    machine: str
    gpus: tuple[int, ...]
    since: float


@dataclass(slots=True)
class End:
    """The true end of a part. `code` as a shell would give it; `why` as its shim knew it."""

    machine: str
    code: int | None
    why: str
    started: bool = True


@dataclass(slots=True)
class Truth:
    living: dict[tuple[RunKey, str], Process] = field(default_factory=dict)
    ends: dict[RunKey, list[End]] = field(default_factory=dict)
    begun: set[tuple[RunKey, str]] = field(default_factory=set)
    woven: Callable[[RunKey, RunKey], bool] = lambda _one, _other: False
    """Return whether two runs are decided to take turns on the same GPUs."""

    def begin(self, process: Process) -> None:
        """The strong property: at no time has a job two runs with processes, or a GPU two runs on it."""
        key = process.key
        assert (key, process.machine) not in self.begun, f"run {key} was started twice on {process.machine}"
        for other in self.living.values():
            assert other.key[0] != key[0] or other.key[1] == key[1], (
                f"run {key} starts on {process.machine} while {other.key} lives on {other.machine}"
            )
            shared = set(other.gpus) & set(process.gpus) if other.machine == process.machine else set()
            assert not shared or self.woven(key, other.key), (
                f"run {key} starts on GPUs {shared} of {process.machine}, where {other.key} lives"
            )
        self.begun.add((key, process.machine))
        self.living[key, process.machine] = process

    def end(self, key: RunKey, machine: str, code: int | None, why: str) -> None:
        del self.living[key, machine]
        self.ends.setdefault(key, []).append(End(machine, code, why))

    def by_themselves(self, key: RunKey) -> list[End]:
        """Return the ends of a run that no request caused."""
        return [end for end in self.ends.get(key, ()) if not end.why]
