"""Muri's trace3 on 64 GPUs by Muri's rules (the original takes 2 s for the simple policies, 47 s for Muri)."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.figure import Figure, least
from benchmarks.workloads import muri_trace, run

GOALS = {"srtf": 0.6, "srsf": 0.6, "tiresias": 0.6, "antman": 1.0, "themis": 3.0, "muri-s": 1.5, "muri-l": 1.5}


def figures() -> Iterator[Figure]:
    trace = muri_trace("trace3")
    for policy, goal in GOALS.items():
        cpu_s = least(lambda policy=policy: run(trace.jobs, "8x8", policy, "muri").cpu_s)  # type: ignore[misc]
        yield Figure(f"{trace.name}, {len(trace.jobs)} jobs, {policy}", cpu_s, "CPU s", goal)
