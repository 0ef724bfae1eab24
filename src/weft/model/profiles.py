"""Profiles: the key by which a job finds one, and what makes sense in one."""

from __future__ import annotations

from functools import lru_cache
from math import isfinite
from typing import Final

from weft.model.job import Job, Profile

MODEL_PARAM: Final = "model"
"""The param whose value is the key of jobs that name none."""
PROFILING_PREFIX: Final = "profiling-run:"
"""The profile keys of the jobs of `weft profile run` begin with this. No profile has such a key: they are not woven."""
MIN_STEP_S: Final = 1e-6
MAX_SECONDS: Final = 86_400.0
"""A day: no stage, iteration or start takes longer."""
MAX_MEMORY_MB: Final = 100_000_000
COMMAND_KEY: Final = "command:"
"""The prefix of keys that are the hash of a command and its params."""


def key_of(job: Job) -> str:
    """Return the key of a job's profile: its own, its model, or the hash of its command and params."""
    if job.profile_key:
        return job.profile_key
    for name, value in job.params:
        if name == MODEL_PARAM and value:
            return value
    return _command_key(job.command, job.params)


def is_profiling_run(job: Job) -> bool:
    return job.profile_key.startswith(PROFILING_PREFIX)


@lru_cache(maxsize=10_000)
def _command_key(command: tuple[str, ...], params: tuple[tuple[str, str], ...]) -> str:
    from hashlib import sha256

    words = [*command, "", *(f"{name}={value}" for name, value in sorted(params))]
    return COMMAND_KEY + sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def problem_of_profile(profile: Profile) -> str:
    """Return what is wrong with a profile, in words; empty: nothing."""
    data_s, gpu_s, network_s, iteration_s = profile.data_s, profile.gpu_s, profile.network_s, profile.iteration_s
    if (
        0 <= data_s <= MAX_SECONDS
        and 0 <= gpu_s <= MAX_SECONDS
        and 0 <= network_s <= MAX_SECONDS
        and data_s + gpu_s + network_s >= MIN_STEP_S
        and MIN_STEP_S <= iteration_s <= MAX_SECONDS
        and 0 <= profile.start_s <= MAX_SECONDS
        and 0 <= profile.memory_mb <= MAX_MEMORY_MB
    ):
        return ""
    named = {"data": data_s, "gpu": gpu_s, "net": network_s, "start": profile.start_s}
    for name, value in named.items():
        if not isfinite(value) or value < 0:
            return f"the profile's {name} is {value:g}, not a number from 0"
        if value > MAX_SECONDS:
            return f"the profile's {name} is {value:g} s, more than a day"
    if not 0 <= profile.memory_mb <= MAX_MEMORY_MB:
        return f"the profile's memory is {profile.memory_mb} MB, not from 0 to {MAX_MEMORY_MB} MB"
    if not data_s + gpu_s + network_s > 0:
        return "the profile has no stage: data, gpu and net are all 0; give the seconds of at least one"
    if data_s + gpu_s + network_s < MIN_STEP_S:
        return "the profile's stages take less than a microsecond together"
    return f"the profile's iteration is {iteration_s:g} s, not from a microsecond to a day"
