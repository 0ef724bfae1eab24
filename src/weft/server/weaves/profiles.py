"""Profiles of jobs as runs measure them."""

from __future__ import annotations

from typing import Final

from weft.model import Profile, Profiled, Seconds
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.views.answers.jobs import StageTimesView

MIN_CHANGE: Final = 0.1
"""A profile is recorded again if a stage differs by this part from the known one."""
MIN_CHANGE_S: Final = 1e-4
"""Smaller differences do not count: they are the cost of measuring."""


def measured_profile(job: JobState, stages: StageTimesView) -> Profile:
    """Return the profile of a run that recorded its stages while it ran alone."""
    model = next((value for name, value in job.job.params if name == "model"), "")
    start_s = max((stages.first_step_s or 0.0) - stages.step_s, 0.0)
    return Profile(
        model, stages.step_s, stages.data_s, stages.gpu_s, stages.net_s, start_s,
        memory_mb=max(stages.memory_mb, job.measured_mb),
    )  # fmt: skip


def differs(profile: Profile, known: Profile | None) -> bool:
    """Return whether a profile says something new."""
    if known is None:
        return True
    stages = (
        (profile.data_s, known.data_s),
        (profile.gpu_s, known.gpu_s),
        (profile.network_s, known.network_s),
    )
    return any(abs(new - old) > max(MIN_CHANGE * old, MIN_CHANGE_S) for new, old in stages)


def profiled(state: State, job: JobState, key: str, profile: Profile, now: Seconds, source: str = "run") -> Profiled:
    """Return the fact that stores a profile which a run of this job measured, for jobs of the same user."""
    return Profiled(now, key, max(job.gpus, 1), gpu_model_of(state, job), profile, source, job.job.user)


def gpu_model_of(state: State, job: JobState) -> str:
    """Return the model of the GPUs that the last run of a job had, if they are all of one; else an empty text."""
    models = set()
    for name, gpus in job.placed:
        node = state.resources.by_id.get(name)
        known = node.node.gpus if node is not None else ()
        models |= {known[gpu].model for gpu in gpus if gpu < len(known)}
    return models.pop() if len(models) == 1 else ""
