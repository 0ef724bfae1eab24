"""Where the runs are: this machine (`embedded`), or the agents of a cluster (`cluster`). The one seam between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from weft.core.state.job import JobState
from weft.engines.process.logs import LogPart
from weft.model import Decision, JobId, NodeId
from weft.server.api.gpu_numbers import GpuNumbers
from weft.server.jobs.admission import Site
from weft.server.jobs.quotas import Limits
from weft.server.settings import Settings

if TYPE_CHECKING:
    from weft.server.controller import Running


class Fleet(Protocol):
    numbers: GpuNumbers

    def check(self, settings: Settings) -> None:
        """Raises where it could not work with these."""

    @property
    def limits(self) -> Limits | None:
        """Of what one user may have; None: there is only one."""

    def settle(self, running: Running) -> None:
        """First of all: whom it works for, with the state as the journal has it."""

    async def open(self) -> None:
        """Finds its runs, and looks at its GPUs, before anything new is decided."""

    async def close(self) -> None:
        """Its runs go on."""

    def start_over(self, *, same: bool) -> None:
        """The state was made anew from the journal: believe what it says. `same`: it is what it was before."""

    async def find_again(self) -> None:
        """Runs that the new state knows and it does not."""

    def carry_out(self, decision: Decision) -> None: ...

    def kill_all(self) -> None:
        """Every run at once, without grace."""

    def forget(self, jobs: Iterable[JobId]) -> None:
        """What is kept of them may go."""

    def site(self) -> Site:
        """What a job must be to be taken, as things are."""

    def readings(self) -> Mapping[tuple[NodeId, int], Mapping[str, Any]]:
        """What is measured of each GPU, where it is."""

    def tail(self, job: JobId, run: int) -> bytes:
        """The last of what a run wrote, as far as it is at hand."""

    async def read_log(self, job: JobState, run: int, rank: int, offset: int, lines: int) -> LogPart | None:
        """A part of what a run wrote on one of its nodes, from `offset` on or so many lines from the end; None: it is
        not to be had just now."""

    def kept_log(self, job: JobState, run: int, rank: int, lines: int) -> LogPart:
        """What is at hand of it where it is not to be had: its last part."""

    def nodes(self) -> Mapping[NodeId, Mapping[str, Any]]:
        """What is known of each node beside what the state says."""

    def about(self) -> dict[str, Any]:
        """For `weft doctor`."""
