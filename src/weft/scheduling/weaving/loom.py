"""Loom: weave by price. Groups of jobs compete for GPUs by the worth of the work that they do per second and GPU.

A linear program over all weaves prices each job's work (`prices`). A job weighs its price times the number of
jobs behind it (`valuation`). The densest groups get the GPUs (`weaving.selection`, docs/explanation/loom.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from weft.model import Fact, Seconds
from weft.scheduling.core.ports import Ask, Replanner, View
from weft.scheduling.weaving.candidates import joint_ask
from weft.scheduling.weaving.choice import all_alone, choose_groups
from weft.scheduling.weaving.groups import GroupTables
from weft.scheduling.weaving.live_jobs import UNREAD, LiveJobs
from weft.scheduling.weaving.pace import Pace
from weft.scheduling.weaving.rates import Contention, Order, Rates, pacing
from weft.scheduling.weaving.valuation import Guard, open_market

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]


class Learned(Protocol):
    """The part of the memory that learns from facts."""

    @property
    def gap_s(self) -> Seconds:
        """The mean time between events that call for a plan."""

    def apply(self, fact: Fact) -> None: ...


@dataclass
class Memory:
    """The memory of Loom."""

    learned: Any
    live: LiveJobs = field(default_factory=LiveJobs)


@dataclass(frozen=True)
class Loom(Replanner):
    """The common part of Loom-S and Loom-L."""

    max_rho: float = 20.0
    """The slow-down, against an equal share of the cluster, that no job should reach; 0: no limit."""
    order: Literal["auto", "fair", "fifo", "slots"] = "auto"
    """The turns of the members of a weave, as for Muri. `auto`: fair; in Muri's model slots."""
    contention: Literal["auto", "muri", "none"] = "auto"
    """The slowdown of members by each other otherwise, as for Muri. `auto`: in lock-step by Muri's factors."""

    preempts = True
    weaves = True
    concentration: ClassVar[float] = 0.5
    """The worth of serving few jobs at a high rate instead of many at a low one."""
    keep: ClassVar[float] = 0.1
    """The bonus of a group that runs, where only runs that move restart."""

    def __post_init__(self) -> None:
        if self.max_rho < 0:
            raise ValueError(f"max_rho must not be below 0, but is {self.max_rho:g}")

    @cached_property
    def pace(self) -> Pace | Rates:
        """The iteration times of its weaves."""
        usual: Contention = "muri" if self.turns == "slots" else "none"
        contention = usual if self.contention == "auto" else self.contention
        return pacing(self.turns, contention, ordering="best", matched=True)

    @property
    def turns(self) -> Order:
        """The order in which members of its weaves take turns, on real GPUs too."""
        return "fair" if self.order == "auto" else self.order

    @cached_property
    def _tables(self) -> GroupTables:
        return GroupTables(self.pace)

    def learn(self) -> Learned:
        """Return the initial memory of what the policy learns from facts."""
        raise TypeError(f"{type(self).__name__} has no learn")

    def expect_left_s(self, view: View, live: LiveJobs) -> Numbers:  # noqa: ARG002
        """Return the solo seconds of work that each job is expected to need until it ends."""
        raise TypeError(f"{type(self).__name__} has no expect_left_s")

    def least_lengths_s(self, view: View, live: LiveJobs, left_s: Numbers) -> Numbers:  # noqa: ARG002
        """Return the solo seconds of work that each job has in total, at least, for the guard against slow-down."""
        return live.worked_s + left_s

    def memo(self) -> Any:
        return Memory(self.learn())

    def observe(self, memo: Any, fact: Fact) -> Any:
        if type(fact) not in UNREAD:
            memo.learned.apply(fact)
            memo.live.observe(fact)
        return memo

    def rank(self, view: View) -> Iterable[Ask]:
        live: LiveJobs = view.memo.live
        live.refresh(view)
        asks = [joint_ask(view, [job], None) for job in live.without_gpus]
        jobs = live.jobs
        if not jobs:
            return asks
        self._urgent_at.clear()
        chosen = all_alone(view, live) or self._choose(view)
        pace = self.pace if self.turns == "slots" else None
        return asks + [joint_ask(view, [jobs[number] for number in group], pace) for group in chosen]

    def _choose(self, view: View) -> list[tuple[int, ...]]:
        """Return the groups that get GPUs, by the numbers of their jobs."""
        live: LiveJobs = view.memo.live
        left_s = self.expect_left_s(view, live)
        guard = Guard(view.now, view.gpus, self.max_rho, self.least_lengths_s(view, live, left_s))
        market = open_market(live, left_s, self._tables, guard)
        if market.urgent_in_s is not None:
            self._urgent_at[view.now] = view.now + market.urgent_in_s
        return choose_groups(view, market, self.concentration, self.keep, view.memo.learned.gap_s)

    def wake_at(self, view: View) -> Seconds | None:
        """Return when the next job gets so slow that it comes first."""
        return self._urgent_at.get(view.now)

    @cached_property
    def _urgent_at(self) -> dict[Seconds, Seconds]:
        return {}
