"""The check of guarantees: which waiting jobs could have GPUs by guarantee, and are not about to get them."""

from __future__ import annotations

from weft.scheduling.core.planning.allocator import Allocator, decide_nothing
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.teams.context import TeamContext
from weft.scheduling.core.teams.reclaim import find_reclaim
from weft.scheduling.core.teams.repacking import waiting_cursor


def unserved_jobs(layer: TeamContext) -> list[JobState]:
    """Return the waiting jobs within the guarantees of their teams that fit on idle or borrowed GPUs, and for which no
    run stops. Call it between two steps; after a step of a scheduler that keeps its guarantees there are none."""
    state, standing = layer.state, layer.standing
    if state.paused:
        return []
    allocator = Allocator(state, layer.placement, decide_nothing)
    for replica in state.services.waiting.values():  # they come first, those that borrow only if all runs may restart
        if (layer.restarts_all or layer.is_guaranteed(replica)) and allocator.promise(replica.shape):
            standing.expect(replica)
    found: list[JobState] = []
    cursor = waiting_cursor(layer)
    for _, _, job in cursor:
        shape = job.shape
        if not standing.is_entitled(job) or standing.full_team(job) is not None:
            cursor.fail(shape)
        elif allocator.fits(shape):
            found.append(job)
            standing.expect(job)
        elif allocator.promise(shape):
            standing.expect(job)
        elif (plan := find_reclaim(layer, job, allocator)) is not None:
            if plan.gone:  # else it only waits until GPUs are released
                found.append(job)
            standing.expect(job)
            allocator.promise_parts(plan.parts)
        else:
            cursor.fail(shape)
    return found
