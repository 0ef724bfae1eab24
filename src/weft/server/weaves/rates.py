"""The rate of a woven run before its counters say it: by the profiles of the members, as the policy counts. Pure."""

from __future__ import annotations

from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.scheduling.weaving.pace import Pace
from weft.scheduling.weaving.rates import Rates


def expected_rate(state: State, job: JobState, pace: Pace | Rates | None) -> float:
    """Return the solo seconds of work per second that a run does in its present weave.

    That is 1 if it is not woven, if the policy counts no pace, or if a member has no profile.
    """
    if pace is None or len(job.weave) < 2:
        return 1.0
    members = [state.jobs.get(name) for name in job.weave]
    profiles = [profile for each in members if each is not None and (profile := state.profiles.of(each.job))]
    if len(profiles) < len(members):
        return 1.0
    place = job.weave.index(job.id)
    return profiles[place].iteration_s / pace.iterations_s(profiles)[place]
