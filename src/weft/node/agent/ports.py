"""The interface between the agent and its engine, which tests and benchmarks can replace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from weft.model import JobId
from weft.node.engine.launch_spec import LaunchSpec
from weft.node.engine.weave_spec import WeaveSpec


class Engine(Protocol):
    """Executes runs and reports their starts and exits. See `weft.node.engine.engine.ProcessEngine`."""

    async def open(self) -> None: ...

    def begin_node_stop(self, *, leaving: bool = False) -> None:
        """Mark that the node stops: a SIGTERM that ends runs from now on comes from the node. See the engine."""

    async def close(self) -> None:
        """Close without stopping the runs."""

    def start(self, spec: LaunchSpec) -> None:
        """Start a run. Raise InputError for an invalid spec."""

    def limits(self) -> str:
        """Say how limits on main memory and CPUs are kept."""

    def suspend(self, job: JobId, run: int, suspended: bool) -> bool:
        """Suspend a run, or let it continue; return False if it is unknown or has ended."""

    def reweave(self, job: JobId, run: int, weave: WeaveSpec | None) -> bool:
        """Move a run to another weave, or to none; return False if it has ended or nothing could be written."""

    def stop(self, job: JobId, run: int, why: str, grace_s: float | None = None) -> bool:
        """Stop a run; return False if it is unknown or has ended."""

    async def adopt(self, runs: Iterable[tuple[JobId, int]]) -> None:
        """Determine and report the state of these runs. A run without a claim never starts."""
