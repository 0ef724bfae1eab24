"""The traces of Muri's evaluation: four, each also with all jobs submitted at once, and one with fewer kinds of jobs.

A variant without a file is derived from its base trace. Without a file of the base trace, there is no variant.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from weft.errors import InputError
from weft.sim.traces.profiles import CONTENTION, profile
from weft.sim.traces.trace import Trace, TraceJob, read_trace

TRACES: Final = ("trace1", "trace2", "trace3", "trace4")
MIXED: Final = "trace3"
"""The trace whose kinds of jobs are varied."""
MIXES: Final = {
    1: ("bert", "gpt2"),
    2: ("bert", "gpt2", "vgg16", "vgg19"),
    3: ("bert", "gpt2", "vgg16", "vgg19", "resnet18", "shufflenet_v2_x1_0"),
}
"""Models by the number of resources that are a bottleneck: GPU; also network; also storage. The trace adds CPU."""


@dataclass(frozen=True)
class Variant:
    name: str
    jobs: Sequence[TraceJob]
    made: str = ""
    """The derivation of the variant; empty: read from a file."""


@dataclass(frozen=True)
class Variants:
    traces: Sequence[Variant]
    mixes: Sequence[Variant]
    missing: Sequence[str]
    """Traces without a file."""


def find_variants(folder: Path, seed: int = 0) -> Variants:
    if not folder.is_dir():
        raise InputError("no such folder", where=str(folder), hint="expected one with Muri's trace1.csv to trace4.csv")
    found = {name: trace for name in TRACES if (trace := _read(folder, name)) is not None}
    if not found:
        hint = f"expected some of {', '.join(f'{name}.csv' for name in TRACES)}"
        raise InputError("none of Muri's traces is in this folder", where=str(folder), hint=hint)
    plain = [Variant(name, trace.jobs) for name, trace in found.items()]
    at_once = [_at_once(folder, name, trace) for name, trace in found.items()]
    mixes = list(_mixes(folder, found.get(MIXED), seed))
    return Variants([*plain, *at_once], mixes, [name for name in TRACES if name not in found])


def _read(folder: Path, name: str) -> Trace | None:
    for path in (folder / f"{name}.csv", folder / f"{name}.csv.gz"):
        if path.is_file():
            return read_trace(path, format="muri")
    return None


def _at_once(folder: Path, name: str, trace: Trace) -> Variant:
    found = _read(folder, f"{name}_pr")
    if found is not None:
        return Variant(f"{name}_pr", found.jobs)
    return Variant(f"{name}_pr", [replace(each, submit_s=0.0) for each in trace.jobs], f"{name} submitted at 0")


def _mixes(folder: Path, trace: Trace | None, seed: int) -> Iterator[Variant]:
    for number in (1, 2, 3, 4):
        name = f"job_type_{number}"
        found = _read(folder, name)
        if found is not None:
            yield Variant(name, found.jobs)
        elif trace is not None and number in MIXES:
            draws = random.Random(seed)
            jobs = [_redraw(each, draws.choice(MIXES[number])) for each in trace.jobs]
            yield Variant(name, jobs, f"{MIXED} with models drawn by seed {seed}")
        elif trace is not None:
            yield Variant(name, trace.jobs, f"{MIXED} itself")


def _redraw(each: TraceJob, model: str) -> TraceJob:
    """Return the job with another model and the same length, in whole iterations of that model, at least one."""
    job, measured = each.job, profile(model, each.job.gpus)
    declared_s = each.work_s if job.declared_s is None else job.declared_s
    iterations = max(int(declared_s / (measured.iteration_s / CONTENTION)), 1)
    drawn = replace(job, profile=measured, iterations=iterations, params=())
    return TraceJob(each.submit_s, drawn, iterations * measured.iteration_s)
