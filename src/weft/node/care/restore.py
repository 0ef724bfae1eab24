"""Restore the journal from its last backup, and recover what runs have done since from their own records.

Requests made after the backup that never ran are lost; submit them again.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from weft.access.endpoints.paths import Paths
from weft.errors import JournalError
from weft.history.journal import Store, open_journal, store_at
from weft.history.journal.codec import decode_line, encode_line
from weft.history.journal.marker import Marker, Restored
from weft.inputs.locks import locked
from weft.model import Cancelled, Exited, Fact, Job, JobId, NodeJoined, PerRank, Seconds, Slots, Start, Submitted, Task
from weft.node.engine.events import RunExited
from weft.node.engine.exit_rules import exit_event
from weft.node.engine.gpu.discovery import Machine, load_devices
from weft.node.engine.recovery.run_record import judge, read_evidence
from weft.node.engine.shim import run_files
from weft.node.engine.shim.process_id import boot_id, is_alive
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State

WEFT_VARIABLES: Final = ("WEFT_", "CUDA_VISIBLE_", "NVIDIA_VISIBLE_", "ROCR_VISIBLE_", "HIP_VISIBLE_")


@dataclass(frozen=True)
class FoundRun:
    """A run, as the files in its folder describe it."""

    job: JobId
    run: int
    spec: Mapping[str, Any]
    ended: RunExited | None
    started_at: Seconds = 0.0
    is_alive: bool = True
    """False if its shim is gone. A run without a shim and without an exit record is lost."""
    is_cancelled: bool = False
    """True if a user cancelled the job: it must not run again."""

    @property
    def is_open(self) -> bool:
        """True if the run continues."""
        return self.ended is None and self.is_alive

    @property
    def at(self) -> Seconds:
        return self.ended.at if self.ended else self.started_at

    @property
    def env(self) -> Mapping[str, str]:
        found = self.spec.get("env")
        return found if isinstance(found, dict) else {}


def restore(paths: Paths) -> tuple[Restored, int]:
    """Restore the journal. Return what was restored, and the number of facts added from the records of runs."""
    store = store_at(paths.journal_url)
    with locked(paths.lock, "a scheduler is running", "weft down ends it; jobs keep running", write_pid=False):
        restored = Marker(paths.state).restore(store)
        return restored, _append_missing_facts(paths, store)


def _append_missing_facts(paths: Paths, store: Store) -> int:
    state = State()
    with store.open() as journal:
        for fact in journal.read():
            state.apply(fact)
        numbers = {device.index: gpu for gpu, device in enumerate(load_devices(paths.state) or ())}
        facts = list(missing_facts(state, map(_read_run, sorted(paths.jobs.glob("*/[0-9]*"))), numbers))
        journal.append(*facts)
    return len(facts)


# ---- a journal that was lost or rolled back


@dataclass(frozen=True)
class Recovery:
    """Facts from the records of runs for a journal that was lost or rolled back."""

    facts: Sequence[Fact] = ()
    jobs: Sequence[JobId] = ()
    """Jobs that were recovered."""
    stranded: Sequence[JobId] = ()
    """Jobs that still run, on GPUs that are not known here."""
    loss: str = ""

    def describe(self) -> str:
        count = f"{len(self.jobs)} job{'' if len(self.jobs) == 1 else 's'}"
        text = f"{self.loss or 'the journal was lost or rolled back'}: recovered {count} from the records of runs"
        if self.stranded:
            text += f"; not recovered, still running on GPUs that are not known here: {', '.join(self.stranded)}"
        return f"{text}; jobs that had not run are lost"


def recover(state: State, jobs: Path, machine: Machine, loss: str = "") -> Recovery | None:
    """Return what the journal lacks; None if it lacks nothing. Changes the state. `loss`: as `Marker.loss` says."""
    folders = unjournalled_runs(state, jobs)
    runs = [run for folder in folders if (run := _read_run(folder)) is not None]
    if not runs:
        return Recovery(loss=loss) if loss else None
    facts: list[Fact] = []
    if not any(host.alive for host in state.resources.nodes):
        facts.append(NodeJoined(max(state.now, min(run.at for run in runs)), machine.node))
        state.apply(facts[0])
    numbers = {device.index: gpu for gpu, device in enumerate(machine.devices)}
    facts += missing_facts(state, runs, numbers)
    recovered = dict.fromkeys(run.job for run in runs if run.job in state.jobs)
    stranded = [run.job for run in runs if run.is_open and run.job not in state.active]
    return Recovery(facts, list(recovered), stranded, loss)


def unjournalled_runs(state: State, jobs: Path) -> list[Path]:
    """Return the folders of runs whose start is not in the journal, or whose cancellation is not. The journal has both
    before the folder does."""
    found = []
    for entry in sorted(jobs.iterdir()) if jobs.is_dir() else ():
        job, number = state.jobs.get(entry.name), folder_number(entry.name)
        was_purged = job is None and number <= state.highest_id
        if number and not was_purged and (job is None or job.ended_at is None):
            last = job.run if job is not None else 0
            if job is not None and job.active and not job.cancelling and _is_cancelled(entry / str(last)):
                last -= 1
            found += [run for run in sorted(entry.iterdir()) if run.name.isdecimal() and int(run.name) > last]
    return found


def folder_number(name: str) -> int:
    """Return the number in the name of a job's folder; 0 if it has none."""
    number = name.partition("_")[0]
    return int(number) if number.isascii() and number.isdecimal() else 0


def highest_folder(jobs: Path) -> int:
    """Return the highest id of a job that has a folder."""
    return max((folder_number(entry.name) for entry in os.scandir(jobs)), default=0) if jobs.is_dir() else 0


def count_unjournalled(paths: Paths) -> int:
    """Return how many jobs have runs that the journal lacks. No scheduler may run."""
    state = State()
    if paths.has_journal():
        with open_journal(paths.journal_url, readonly=True) as journal:
            for fact in journal.read():
                state.apply(fact)
    return len({folder.parent.name for folder in unjournalled_runs(state, paths.jobs)})


# ---- runs


def _read_run(folder: Path) -> FoundRun | None:
    """Return the run of a folder; None if its launch was never written there."""
    spec = run_files.read_object(str(folder / run_files.SPEC))
    if spec is None or not folder.name.isdecimal():
        return None
    evidence = read_evidence(str(folder), 0.0)
    fate = judge(evidence, boot_id(), is_alive)
    started_at = evidence.started.at if evidence.started else folder.stat().st_mtime
    return FoundRun(
        folder.parent.name, int(folder.name), spec, evidence.ended, started_at, fate == "alive", _is_cancelled(folder)
    )


def _is_cancelled(folder: Path) -> bool:
    stop = run_files.read_object(str(folder / run_files.STOP)) or {}
    return stop.get("why") == "cancelled"


def missing_facts(state: State, runs: Iterable[FoundRun | None], numbers: Mapping[int, int]) -> Iterator[Fact]:
    """Apply the facts that the state lacks, and yield them: runs that are over in the order of their ends, then others.

    `numbers` maps the index of a GPU to its position in the core.
    """
    found = [run for run in runs if run is not None]
    for run in sorted(found, key=lambda run: (run.is_open, run.at, run.job, run.run)):
        at = max(state.now, run.at)
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
    if run.is_cancelled and job.active and job.run == run.run:
        yield Cancelled(at, run.job)
    if job.active and job.run == run.run and not run.is_open:
        yield _exit(job, run.ended, at) if run.ended else Exited(at, run.job, run.run, "lost", why="lost")


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


def to_record(job: Job, start: Start) -> str:
    """Return the lines that a run keeps of its job and its start. Its environment is in the run's files already."""
    if job.task and job.task.env:
        job = replace(job, task=replace(job.task, env=()))
    return f"{encode_line(Submitted(start.at, job))}\n{encode_line(start)}"


def read_record(record: str, job: JobId) -> tuple[Job, Start] | None:
    """Return what `to_record` wrote of a run of this job; None if this Weft cannot read it."""
    try:
        submitted, start = map(decode_line, record.split("\n"))
    except (JournalError, ValueError):
        return None
    if not isinstance(submitted, Submitted) or not isinstance(start, Start):
        return None
    return (submitted.job, start) if submitted.job.id == start.job == job else None


def recovered_job(job: Job, env: Mapping[str, str]) -> Job:
    """Return a job from its record and the environment of its run."""
    task = replace(job.task or Task(), env=_submitted_env(env))
    # its run began, so its dependencies were met; the service of a replica starts others
    return replace(job, task=task, after=(), after_any=(), after_failed=(), replica=None)


def _from_record(run: FoundRun) -> Job | None:
    """Return the job that the record of a run describes; None if the run has no record that this Weft can read."""
    record = read_record(str(run.spec.get("record") or ""), run.job)
    return None if record is None else recovered_job(record[0], run.env)


def _submitted_env(env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in env.items() if not name.startswith(WEFT_VARIABLES))


def _job(run: FoundRun) -> Job:
    """Return a job that the backup does not have, from its record, or as far as the files of its run describe it."""
    if (job := _from_record(run)) is not None:
        return job
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
            env=_submitted_env(run.env),
            time_limit_s=spec.get("time_limit_s"),
        ),
    )
