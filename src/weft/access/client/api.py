"""The Python API: submit jobs, wait for them, read their logs."""

from __future__ import annotations

import codecs
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, Literal, Unpack, overload

from weft.access.client import CALL_TIMEOUT_S, Client, exit_code
from weft.access.endpoints import config
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.paths import Paths, user_paths
from weft.access.jobspec.environment import capture
from weft.access.jobspec.fields import Keys, Words, spec_of
from weft.access.jobspec.python import as_text
from weft.access.jobspec.this_machine import check_outputs
from weft.access.jobspec.workloads import add_command
from weft.access.wire.messages import JobSpec, SubmitRequest
from weft.errors import InputError, Unreachable
from weft.model.status import LEAST_FINAL, Reason
from weft.views.answers.base import plain
from weft.views.answers.jobs import JobDetailView

MAX_QUERIED_JOBS: Final = 10_000
"""Jobs in one query."""


def submit(
    command: str | Sequence[Words] | None = None, *, wait: bool = False, env_all: bool = False,
    scheduler: str | None = None, snapshot: bool = False, **keys: Unpack[Keys],
) -> JobHandle:  # fmt: skip
    """Queue a job.

    A list is a program and its arguments. Text is a line for the shell. Without a command, the job runs the workload
    that is registered for `params["model"]`.

    `scheduler` is host:port of a cluster, or local. The default is WEFT_SCHEDULER, then the config file, then this
    user's scheduler, which the first call starts. With `snapshot`, a cluster runs the job in a copy of the files that
    git tracks here. With `wait`, return once the job has ended.
    """
    (job,) = submit_many([{"command": command, **keys}], env_all=env_all, scheduler=scheduler, snapshot=snapshot)
    if wait:
        job.wait()
    return job


def run(
    command: str | Sequence[Words] | None = None, *, env_all: bool = False, scheduler: str | None = None,
    snapshot: bool = False, **keys: Unpack[Keys],
) -> int:  # fmt: skip
    """Submit a job, write its output to stdout as it comes, and return its exit code. An interrupt cancels the job."""
    job = submit(command, env_all=env_all, scheduler=scheduler, snapshot=snapshot, **keys)
    try:
        for text in job.logs(follow=True):
            sys.stdout.write(text)
            sys.stdout.flush()
        return job.wait()
    except KeyboardInterrupt:
        job.cancel()
        raise


def submit_many(
    jobs: Iterable[Mapping[str, Any]], *, env_all: bool = False, scheduler: str | None = None, snapshot: bool = False
) -> list[JobHandle]:
    """Queue many jobs at once, all or none. Each is a mapping with `command` and the keys of `submit`.

    `"after": "#0"` refers to the first of them.
    """
    listed = list(jobs)
    where, here = config.scheduler_address(scheduler), os.getcwd()
    labels = (f"job #{number}" if len(listed) > 1 else "" for number in range(len(listed)))
    specs = [_spec(job, label, here=where is None) for job, label in zip(listed, labels, strict=True)]
    if not specs:
        return []
    if where is None:
        check_outputs(specs, here)
    client = connection(where)
    if snapshot:
        _upload_source(client, specs, here)
    env = capture(os.environ, everything=env_all, elsewhere=where is not None)
    ids = client.submit(SubmitRequest(jobs=specs, env=env, chdir=here))
    numbers = groupby(ids, key=lambda job: job.partition("_")[0])
    return [JobHandle(number, tuple(tasks), client.where) for number, tasks in numbers]


def _upload_source(client: Client, specs: Sequence[JobSpec], here: str) -> None:
    from weft.access.jobspec.source import take_snapshots

    if isinstance(client.where, Paths):
        raise InputError(
            "snapshot needs the scheduler of a cluster", hint="on this machine, the job runs in the folder itself"
        )
    for each in take_snapshots(specs, here):
        client.put(each.packed)


def _spec(job: Mapping[str, Any], label: str, *, here: bool) -> JobSpec:
    try:
        spec = spec_of(as_text(job))
        add_command(spec, here=here)
    except InputError as error:
        if not label:
            raise
        raise error.at(where=label) from None
    if spec.chdir:
        spec.chdir = os.path.abspath(spec.chdir)
    return spec


class JobHandle:
    """A submitted job, or one known by its id. The handle of an array has several `tasks`."""

    def __init__(
        self, id: str | int, ids: Sequence[str] = (), where: Paths | Address | None = None, *,
        scheduler: str | None = None,
    ) -> None:  # fmt: skip
        self.id = str(id)
        self._ids, self._where = tuple(ids) or (self.id,), where or config.scheduler_address(scheduler) or user_paths()
        self._ended: list[JobDetailView] | None = None
        self._position = 0

    def __repr__(self) -> str:
        return f"JobHandle({self.id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobHandle) and (self._ids, self._where) == (other._ids, other._where)

    def __hash__(self) -> int:
        return hash((self.id, self._where))

    @property
    def tasks(self) -> list[JobHandle]:
        """One handle for each task of an array; for any other job, the handle itself."""
        ids = self._ids if len(self._ids) > 1 else [job.id for job in self._query()]
        return [self] if list(ids) == [self.id] else [JobHandle(task, (task,), self._where) for task in ids]

    # ---- state

    @property
    def status(self) -> str:
        """Such as waiting, running, done, failed or cancelled; for an array, the least final status of its tasks."""
        found = {job.status for job in self._query()}
        return next(status for status in LEAST_FINAL if status in found)

    @property
    def progress(self) -> dict[str, Any] | None:
        """Step, total, eta_s, metrics and checkpoint, if known; for an array, how many tasks have ended."""
        jobs = self._query()
        if len(jobs) > 1:
            return {"step": sum(bool(job.ended) for job in jobs), "total": len(jobs)}
        found = jobs[0].progress
        return plain(found) if found is not None else None

    @property
    def exit_code(self) -> int | None:
        """The exit code, or 128 plus the signal; None before the end. For an array, the first one that is not 0."""
        jobs = self._query()
        return next(filter(None, map(exit_code, jobs)), 0) if jobs is self._ended else None

    def show(self) -> dict[str, Any]:
        """Return the details of the job, as `weft show --json` prints them; for an array, of its first task."""
        return plain(self._query()[0])

    def _query(self) -> list[JobDetailView]:
        """Return the present state of the jobs; once all have ended, the state at that time."""
        if self._ended:
            return self._ended
        client, found = connection(self._where), list[JobDetailView]()
        for at in range(0, len(self._ids), MAX_QUERIED_JOBS):
            answer = client.jobs(self._ids[at : at + MAX_QUERIED_JOBS], timeout_s=CALL_TIMEOUT_S)
            self._position = self._position if at else answer.position
            found += answer.jobs
        if all(job.ended for job in found):
            self._ended = found
        return found

    # ---- actions

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code. Raise TimeoutError after `timeout` seconds.

        The scheduler may restart meanwhile.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while (jobs := self._query()) is not self._ended:
            left_s = None if until is None else until - time.monotonic()
            if left_s is not None and left_s <= 0:
                raise TimeoutError(f"job {self.id} has not ended after {timeout:g} s")
            self._await_change(jobs, left_s)
        return self.exit_code or 0

    def _await_change(self, jobs: Sequence[JobDetailView], timeout_s: float | None) -> None:
        """Return when all of the jobs may have ended, or when the scheduler stops answering."""
        left = {job.id for job in jobs if not job.ended}
        depends = any(
            job.reason == Reason.DEPENDENCY for job in jobs
        )  # a job is cancelled if one that it depends on fails
        try:
            for fact in connection(self._where).watch(self._position, timeout_s=timeout_s):
                kind = fact["fact"]
                if kind in ("Exited", "Cancelled"):
                    left.discard(fact["job"])
                if not left or kind == "Purged" or (depends and kind in ("Exited", "Cancelled")):
                    return
        except Unreachable:
            return  # the next query finds the scheduler again, or raises

    @overload
    def logs(self, *, run: int = 0, follow: Literal[False] = False, lines: int = 0) -> str: ...
    @overload
    def logs(self, *, run: int = 0, follow: Literal[True], lines: int = 0) -> Iterator[str]: ...
    def logs(self, *, run: int = 0, follow: bool = False, lines: int = 0) -> str | Iterator[str]:
        """Return the output of the latest run, or of this run. With `follow`, yield it until the job has ended."""
        pieces = self._pieces(run, follow, lines)
        return pieces if follow else "".join(pieces)

    def _pieces(self, run: int, follow: bool, lines: int) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for piece in connection(self._where).logs(self.id, run=run, follow=follow, lines=lines):
            if text := decoder.decode(piece):
                yield text
        if rest := decoder.decode(b"", final=True):
            yield rest

    def cancel(self) -> bool:
        """Cancel the job. Return False if it had ended already."""
        return bool(connection(self._where).change("cancel", self._ids).ids)


# ---- connections are reused: opening a channel costs more than a call

_clients: dict[tuple[Paths | Address, int], Client] = {}
_clients_lock = threading.Lock()


def connection(where: Paths | Address | None = None) -> Client:
    """Return the client of this process for a scheduler. Start this user's scheduler if it does not run."""
    key = (where or user_paths(), os.getpid())
    with _clients_lock:
        if key not in _clients:
            _clients[key] = Client(key[0])
        return _clients[key]


def disconnect(where: Paths | Address | None = None) -> None:
    """Close the connection to a scheduler. The next call opens a new one."""
    with _clients_lock:
        if (client := _clients.pop((where or user_paths(), os.getpid()), None)) is not None:
            client.close()
