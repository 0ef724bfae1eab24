"""Restore the journal from its last backup, and add what runs have done since, from their own records.

Requests made after the backup that never ran are lost; submit them again.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from weft.core.state.job import JobState
from weft.core.state.state import State
from weft.endpoints.paths import Paths
from weft.engines.process.events import RunExited, read_exited
from weft.engines.process.exit_rules import exit_event
from weft.engines.process.gpu.discovery import load_devices
from weft.engines.process.shim import run_files
from weft.errors import NotFound
from weft.inputs.locks import locked
from weft.journal import Store, store_at
from weft.model import Exited, Fact, Job, JobId, PerRank, Seconds, Slots, Start, Submitted, Task

WEFT_VARIABLES: Final = ("WEFT_", "CUDA_VISIBLE_", "NVIDIA_VISIBLE_", "ROCR_VISIBLE_", "HIP_VISIBLE_")


@dataclass(frozen=True)
class FoundRun:
    """A run, as the files in its folder describe it."""

    job: JobId
    run: int
    spec: Mapping[str, Any]
    ended: RunExited | None

    @property
    def env(self) -> Mapping[str, str]:
        found = self.spec.get("env")
        return found if isinstance(found, dict) else {}


def restore(paths: Paths) -> int:
    """Replace the journal by its backup, keep the old one, and return the number of facts added."""
    store = store_at(paths.journal_url)
    if store.backup_at() is None:
        raise NotFound(f"there is no backup at {store.backup_location}")
    with locked(paths.lock, "a scheduler is running", "weft down ends it; jobs keep running", write_pid=False):
        store.restore()
        return _append_missing_facts(paths, store)


def _append_missing_facts(paths: Paths, store: Store) -> int:
    state = State()
    with store.open() as journal:
        for fact in journal.read():
            state.apply(fact)
        numbers = {device.index: gpu for gpu, device in enumerate(load_devices(paths.state) or ())}
        facts = list(missing_facts(state, _find_runs(paths.jobs), numbers))
        journal.append(*facts)
    return len(facts)


def _find_runs(jobs: Path) -> Iterator[FoundRun]:
    for folder in sorted(jobs.glob("*/[0-9]*")):
        spec = run_files.read_object(str(folder / run_files.SPEC))
        if spec is not None and folder.name.isdecimal():
            record = run_files.read_object(str(folder / run_files.EXIT))
            yield FoundRun(folder.parent.name, int(folder.name), spec, read_exited(record) if record else None)


def missing_facts(state: State, runs: Iterable[FoundRun], numbers: Mapping[int, int]) -> Iterator[Fact]:
    """Apply the facts that the state lacks, and yield them: ended runs in the order of their ends, then the others.

    `numbers` maps the index of a GPU to its position in the core.
    """
    found = list(runs)
    ended = sorted((run for run in found if run.ended), key=lambda run: run.ended.at if run.ended else 0.0)
    open_ended = sorted((run for run in found if not run.ended), key=lambda run: (run.job, run.run))
    for run in (*ended, *open_ended):
        at = max(state.now, run.ended.at if run.ended else 0.0)
        for fact in _facts_of(state, run, numbers, at):
            if not state.apply(fact):
                break
            yield fact


def _facts_of(state: State, run: FoundRun, numbers: Mapping[int, int], at: Seconds) -> Iterator[Fact]:
    slots = _slots(state, run, numbers)
    if slots is None:
        return
    if run.job not in state.jobs:
        yield Submitted(at, _job(run))
    job = state.jobs[run.job]
    while job.run < run.run and job.waits:
        yield Start(at, run.job, job.run + 1, slots, job.wanted_share)
        if job.run < run.run:  # its folder is gone: only its end is known
            yield Exited(at, run.job, job.run, "lost")
    if run.ended is not None and job.active and job.run == run.run:
        yield _exit(job, run.ended, at)


def _exit(job: JobState, report: RunExited, at: Seconds) -> Exited:
    requeue_exits = job.job.task.requeue_exits if job.job.task else ()
    return replace(exit_event(report, requeue_exits=requeue_exits, tries=job.delays), at=at, delay_s=0.0)


def _slots(state: State, run: FoundRun, numbers: Mapping[int, int]) -> Slots | None:
    """Return the GPUs of the run; None if they are not known."""
    node = next((host.node for host in state.resources.nodes if host.alive), None)
    given = [int(word) for word in run.env.get("WEFT_GPU_IDS", "").split(",") if word.isdecimal()]
    if node is None or any(numbers.get(index, len(node.gpus)) >= len(node.gpus) for index in given):
        return None
    return ((node.id, tuple(numbers[index] for index in given)),)


def _job(run: FoundRun) -> Job:
    """Return a job that the backup does not have, as far as its run describes it."""
    env, spec = run.env, run.spec
    memory = env.get("WEFT_GPU_MEM_LIMIT_MB", "")
    gpus = len([word for word in env.get("WEFT_GPU_IDS", "").split(",") if word])
    return Job(
        run.job,
        gpus,
        name=env.get("WEFT_JOB_NAME", ""),
        user=getpass.getuser(),
        memory_mb=PerRank(int(memory) if memory.isdecimal() and gpus else 0),
        cpus=0 if gpus else 1,
        command=tuple(map(str, spec.get("argv", ()))),
        params=tuple((str(name), str(value)) for name, value in dict(spec.get("params") or {}).items()),
        task=Task(
            chdir=str(spec.get("chdir", "")),
            env=tuple((name, value) for name, value in env.items() if not name.startswith(WEFT_VARIABLES)),
            time_limit_s=spec.get("time_limit_s"),
        ),
    )
