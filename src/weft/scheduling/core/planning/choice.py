"""The choice of the planner for a policy, made once per scheduler."""

from __future__ import annotations

from weft.errors import PlanError
from weft.scheduling.core.blame import blame
from weft.scheduling.core.planning.ask_walk import AskPlanner, StartPlanner
from weft.scheduling.core.planning.backfill import BackfillPlanner
from weft.scheduling.core.planning.key_walk import PreemptivePlanner, StrictPlanner, StrictPreemptivePlanner
from weft.scheduling.core.planning.planner import Planner
from weft.scheduling.core.planning.repack import RepackAsksPlanner, RepackKeysPlanner
from weft.scheduling.core.planning.weaves import WeavePlanner
from weft.scheduling.core.ports import Policy, Replanner
from weft.scheduling.core.queue.order import has_key


def planner_of(policy: Policy, *, repack: bool) -> type[Planner]:
    """Return the planner of a policy; with `repack`, one that places all jobs again if the policy may preempt."""
    if isinstance(policy, Replanner):
        if type(policy).rank is Replanner.rank:
            raise PlanError(blame(policy, "has no rank: define rank(self, view)"))
        if not policy.preempts:
            return StartPlanner
        if repack:
            return RepackAsksPlanner
        return WeavePlanner if policy.weaves else AskPlanner
    if not has_key(policy):
        raise PlanError(blame(policy, "has no key: define key(self, job, now)"))
    if not policy.preempts:
        return BackfillPlanner if policy.backfill else StrictPlanner
    if repack:
        return RepackKeysPlanner
    return PreemptivePlanner if policy.backfill else StrictPreemptivePlanner
