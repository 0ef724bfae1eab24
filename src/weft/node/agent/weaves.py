"""The woven runs of a node: their weaves as their folders say, and their counters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from weft.access.wire.messages import StageCounters
from weft.access.wire.runs import RunKey
from weft.node.engine.shim import run_files
from weft.node.engine.users.file_rights import rights_of
from weft.node.engine.users.run_folder import account_of_file
from weft.node.engine.weaves import weave_of
from weft.train.weave.directory import read_counters


@dataclass(frozen=True, slots=True)
class RunWeave:
    """The weave of a run, and what the run did there."""

    id: str
    """Empty: the run is not woven."""
    stages: tuple[StageCounters, ...] = ()


class WovenRuns:
    """The runs that are woven, or were once. Only their folders are read."""

    def __init__(self, jobs: Path) -> None:
        self._jobs = jobs
        self._keys: set[RunKey] = set()

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: RunKey) -> None:
        self._keys.add(key)

    def discard(self, key: RunKey) -> None:
        self._keys.discard(key)

    def find(self, keys: Iterable[RunKey]) -> None:
        """Add those runs of an earlier process that are woven."""
        self._keys.update(key for key in keys if self.of(key).id)

    def of(self, key: RunKey) -> RunWeave:
        """Return the weave of a run as its folder says."""
        found = weave_of(run_files.run_dir(str(self._jobs), *key))
        if found is None:
            return RunWeave("")
        path, place = found
        with rights_of(account_of_file(str(path))):
            counters = read_counters(path)
        member = next((each for each in counters if each.place == place), None)
        stages = () if member is None else tuple(
            StageCounters(
                stage=name, served_s=use.served_s, waited_s=use.waited_s, grants=use.grants, passed_over=use.passed_over
            )
            for name, use in member.stages.items()
            if use.grants
        )  # fmt: skip
        return RunWeave(path.name, stages)

    def reports(self) -> dict[RunKey, RunWeave]:
        """Return the weave of each run that is woven or was once."""
        return {key: self.of(key) for key in self._keys}
