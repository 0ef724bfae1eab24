"""What an agent needs of the node it is on: the seam at which a test or a benchmark puts something else in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from weft.engines.process.launch_spec import LaunchSpec
from weft.model import JobId


class Engine(Protocol):
    """Runs things, and reports what becomes of them: `weft.engines.process.engine.ProcessEngine`."""

    async def open(self) -> None: ...

    def begin_node_stop(self) -> None:
        """The node was told to stop: a SIGTERM that ends runs now is not theirs."""

    async def close(self) -> None:
        """Leaves the runs alone."""

    def start(self, order: LaunchSpec) -> None:
        """Raises InputError for an order that makes no sense."""

    def stop(self, job: JobId, run: int, why: str, grace_s: float | None = None) -> bool:
        """False: it is not known here, or has ended."""

    async def adopt(self, runs: Iterable[tuple[JobId, int]]) -> None:
        """Finds out what became of runs, and reports it; one that nobody has claimed never starts."""
