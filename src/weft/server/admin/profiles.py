"""Store the profile that a run measured, and list the stored ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from weft.access.auth.identity import Caller, check_owner
from weft.errors import InputError, NotPermitted, Refused
from weft.model import Event, Seconds
from weft.model.profiles import key_of, problem_of_profile
from weft.scheduling.core.state.profiles import ProfileRecord
from weft.scheduling.core.state.state import State
from weft.server.controller import Controller
from weft.server.jobs.job_refs import resolve_one
from weft.server.weaves.profiles import measured_profile, profiled
from weft.views.answers.profiles import ProfileView, StoredProfileView
from weft.views.from_state.timestamps import iso

MAX_KEY_CHARS: Final = 200
NO_TIMES: Final = (
    "it reported no stages: --stages auto finds those of PyTorch, and other programs name them by weft.train.stage"
)


def store_profile(
    controller: Controller, options: Mapping[str, str], now: Seconds, who: Caller
) -> tuple[list[Event], StoredProfileView]:
    """Return the event that stores the stage times of a job's last run, under the key that is given or its own.

    It is for jobs of the job's user, or for the jobs of all users: only admins store those.
    """
    state, key = controller.scheduler.state, options.get("key", "")
    if len(key) > MAX_KEY_CHARS or not key.isprintable():
        raise InputError(f"invalid key {key[:80]!r}", hint=f"up to {MAX_KEY_CHARS} printable characters")
    if (shared := options.get("shared", "") == "yes") and who.role != "admin":
        raise NotPermitted(
            "only admins store profiles for the jobs of all users\n  without --shared it is for your jobs"
        )
    job = state.jobs[resolve_one(state, options.get("job", ""), who.user)]
    check_owner(who, job.job)
    stages = controller.progress.stages_of(job)
    if stages is None:
        raise Refused(f"job {job.id} has no profile\n  {NO_TIMES}")
    profile = measured_profile(job, stages)
    if problem := problem_of_profile(profile):
        raise Refused(f"job {job.id} has no profile: {problem}\n  {NO_TIMES}")
    fact = profiled(state, job, key or key_of(replace(job.job, profile_key="")), profile, now)
    fact = replace(fact, user="") if shared else fact
    shown = _view(
        ProfileRecord(fact.user, fact.key, fact.gpus, fact.gpu_model, profile, now, fact.source, 1, (0.0, 0.0, 0.0))
    )
    return [fact], StoredProfileView(job=job.id, profile=shown, stages=stages)


def profile_views(state: State) -> list[ProfileView]:
    return [_view(record) for record in state.profiles.records()]


def _view(record: ProfileRecord) -> ProfileView:
    profile, (data, gpu, net) = record.profile, record.deviation
    return ProfileView(
        user=record.user or None, key=record.key, gpus=record.gpus, gpu_model=record.gpu_model,
        data_s=profile.data_s, gpu_s=profile.gpu_s,
        net_s=profile.network_s, iteration_s=profile.iteration_s, start_s=profile.start_s, memory_mb=profile.memory_mb,
        measured=iso(record.at), source=record.source, measurements=record.measurements,
        data_deviation=round(data, 4), gpu_deviation=round(gpu, 4), net_deviation=round(net, 4),
    )  # fmt: skip
