"""Seconds of the trace in the seconds of a testbed: policy options and schedule intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from weft.model import Profile
from weft.scheduling.plugins import registry

MIN_INTERVAL_S: Final = 0.1
"""The shortest schedule interval of a scheduler."""
ITERATION_PART: Final = 0.25
"""An emulated iteration takes this part of the time of a real one. With much shorter ones, the delay of each turn
counts; with longer ones, a job that changes its weave waits long for its place in the cycle."""
SECONDS_OPTIONS: Final = ("thresholds", "quantum", "median", "mean", "patience")
"""Options of policies that are seconds or GPU-seconds and do not end in `_s`."""


def scale_policy(spec: str, speed: float, interval_s: float = 0.0) -> str:
    """Return the policy with its options in seconds divided by the speed, defaults included.

    Service that counts in ticks counts in whole intervals, unless the spec says otherwise: a testbed plans, and so
    demotes, at the ends of intervals. Shorter ticks would count the time that a start takes, which does not scale.
    """
    policy = registry.load_policy(spec)
    name, *given = registry.absolute_spec(registry.resolve_alias(spec)).split(":")
    if registry.is_file(name):
        name = f"{name}:{given.pop(0)}"
    options = {option.partition("=")[0]: option.partition("=")[2] for option in given}
    for field in registry.plugin_options(type(policy)):
        if not (field.name.endswith("_s") or field.name in SECONDS_OPTIONS):
            continue
        value = getattr(policy, field.name)
        if field.name == "tick_s" and "tick_s" not in options:
            value = max(value, interval_s)
        if value is not None:
            numbers = value if isinstance(value, tuple) else (value,)
            options[field.name] = "+".join(f"{number / speed:.10g}" for number in numbers)
    return ":".join([name, *(f"{key}={value}" for key, value in options.items())])


def scale_interval(interval_s: float, speed: float) -> float:
    """Return the seconds between two plans: at least what a scheduler can do. 0: at every event."""
    return max(interval_s / speed, MIN_INTERVAL_S) if interval_s else 0.0


def scale_profile(profile: Profile, speed: float) -> Profile:
    """Return the profile of an emulated job, whose iterations stand for many real ones."""
    names = ("iteration_s", "data_s", "gpu_s", "network_s")
    parts = {name: ITERATION_PART * getattr(profile, name) for name in names}
    return replace(profile, **parts, start_s=profile.start_s / speed)
