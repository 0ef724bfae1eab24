"""Seconds of the trace in the seconds of a testbed: policy options and schedule intervals."""

from __future__ import annotations

from typing import Final

from weft.plugins import registry

MIN_INTERVAL_S: Final = 0.1
"""The shortest schedule interval of a scheduler."""
SECONDS_OPTIONS: Final = ("thresholds", "quantum", "median", "mean", "patience")
"""Options of policies that are seconds or GPU-seconds and do not end in `_s`."""


def scale_policy(spec: str, speed: float) -> str:
    """Return the policy with its options in seconds divided by the speed, defaults included."""
    policy = registry.load_policy(spec)
    name, *given = registry.resolve_alias(spec).split(":")
    options = {option.partition("=")[0]: option.partition("=")[2] for option in given}
    for field in registry.plugin_options(type(policy)):
        if not (field.name.endswith("_s") or field.name in SECONDS_OPTIONS):
            continue
        value = getattr(policy, field.name)
        if value is not None:
            numbers = value if isinstance(value, tuple) else (value,)
            options[field.name] = "+".join(f"{number / speed:.10g}" for number in numbers)
    return ":".join([name, *(f"{key}={value}" for key, value in options.items())])


def scale_interval(interval_s: float, speed: float) -> float:
    """Return the seconds between two plans: at least what a scheduler can do. 0: at every event."""
    return max(interval_s / speed, MIN_INTERVAL_S) if interval_s else 0.0
