"""Build the jobs of a submit request: defaults, arrays, dependencies."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import Final

from weft.core.admission import check_job
from weft.errors import InputError, NotFound
from weft.inputs.quantities import parse_array, parse_whole_or_none
from weft.jobspec.fields import Field
from weft.model import Job, JobId, Task
from weft.server.jobs.admission import AdmissionRules
from weft.server.jobs.edit import JobEditor, values_of
from weft.wire.convert import Pairs, pairs
from weft.wire.messages import JobSpec, SubmitRequest

MAX_JOBS: Final = 100_000
"""In one request, counting array tasks."""
MAX_LINKS: Final = 1_000_000
"""Dependencies in one request. An array counts as one job to depend on."""
MAX_JOB_BYTES: Final = 6 << 20
"""The limit for the command, params and environment of a job together. Linux starts no program with more."""
MAX_NAME_SOURCE_CHARS: Final = 4096
"""Characters at the end of a program's path that its default name is derived from."""
MAX_REFS: Final = 10_000
"""Different references in one request to jobs outside it."""
LINKS_HINT: Final = "name an array by its number: it counts as one; or put one job in between"
_NUMBERS: Final = re.compile(r"[0-9]+(-[0-9]+)?")
Resolve = Callable[[str], list[JobId]]
"""The jobs that a reference means."""


class JobBuilder:
    """Builds jobs from specs, and checks them."""

    def __init__(self, rules: AdmissionRules) -> None:
        self._rules, self._editor = rules, JobEditor(rules)
        self._env: Pairs = ()
        self._env_bytes = 0

    def jobs(self, request: SubmitRequest, first_id: int, resolve: Resolve, user: str) -> list[list[Job]]:
        """Return the jobs of each spec, for this user. Raise if any spec is invalid."""
        if not request.jobs:
            raise InputError("no job in the request")
        self._rules.begin()
        self._env = pairs(request.env)
        self._env_bytes = sum(each.ByteSize() for each in request.env)
        made: list[list[Job]] = []
        for at, spec in enumerate(request.jobs):
            try:
                made.append(self._expand(spec, request, str(first_id + at), user))
            except InputError as error:
                raise error.at(index=at) from None
        if sum(map(len, made)) > MAX_JOBS:
            raise InputError(f"more than {MAX_JOBS:,} jobs at once", hint="submit them in several requests")
        self._link(request, made, resolve)
        return made

    def _expand(self, spec: JobSpec, request: SubmitRequest, job_id: JobId, user: str) -> list[Job]:
        size = spec.ByteSize()
        _check_size(size)
        job = self._job(spec, request, job_id, user)
        if size + self._env_bytes > MAX_JOB_BYTES:  # no less than its exact size, which takes longer to count
            _check_size(_size(job))
        self._check(job)
        if not spec.array:
            return [job]
        indices, limit = parse_array(spec.array)
        task = job.task or Task()
        return [
            replace(job, id=f"{job_id}_{index}", batch=job_id, batch_limit=limit,
                    task=replace(task, array_index=index, array_size=len(indices)))
            for index in indices
        ]  # fmt: skip

    def check(self, job: Job) -> None:
        """Raise if the job cannot be accepted."""
        _check_size(_size(job))
        self._rules.begin()
        self._check(job)

    def _check(self, job: Job) -> None:
        check_job(job)
        if not job.command:
            raise InputError("no command", hint="add one: weft submit [flags] -- CMD ARGS..., or command: in the file")
        self._rules.check(job)

    def _job(self, spec: JobSpec, request: SubmitRequest, job_id: JobId, user: str) -> Job:
        values = values_of(spec)
        values["name"] = values.get("name") or _default_name(spec)
        values["chdir"] = values.get("chdir") or request.chdir
        values["env"] = tuple({**dict(self._env), **dict(values["env"])}.items()) if "env" in values else self._env
        return self._editor.create(job_id, user, request.key, values)

    def edit(self, job: Job, spec: JobSpec, fields: Sequence[Field], resolve: Resolve) -> Job:
        """Return the job with these fields as the spec has them; raise if it may not be so."""
        edited = self._editor.edit(job, values_of(spec, fields))
        if any(field.key == "after" for field in fields):
            search = _Search(resolve)
            after = [found for ref in dict.fromkeys(spec.after) for found in search.jobs(ref)]
            edited = replace(edited, after=tuple(dict.fromkeys(after)))
        self.check(edited)
        return edited

    def _link(self, request: SubmitRequest, made: list[list[Job]], resolve: Resolve) -> None:
        """Set the dependencies of each job. Raise if they form a cycle."""
        inside: dict[int, set[int]] = {}
        search = _Search(resolve)
        links = 0
        for at, spec in enumerate(request.jobs):
            after: dict[JobId, None] = {}
            for ref in dict.fromkeys(spec.after):
                if ref.startswith("#"):
                    other = _number(ref, len(made), at)
                    inside.setdefault(at, set()).add(other)
                    after.update(dict.fromkeys(job.batch or job.id for job in made[other]))
                else:
                    after.update(dict.fromkeys(search.jobs(ref, at)))
            links += len(after) * len(made[at])
            if links > MAX_LINKS:
                what = f"more than {MAX_LINKS:,} dependencies at once"
                raise InputError(what, hint=LINKS_HINT, key="after", index=at)
            if after:
                made[at] = [replace(job, after=tuple(after)) for job in made[at]]
        cycle = _find_cycle(inside)
        if cycle:
            names = " after ".join(request.jobs[at].name or f"#{at}" for at in cycle)
            hint = "remove one of them"
            raise InputError(f"cyclic dependencies: {names}", hint=hint, key="after", index=cycle[0])


class _Search:
    """Finds jobs by reference, each reference once: a search may look at every job."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._found: dict[str, list[JobId]] = {}

    def jobs(self, ref: str, at: int | None = None) -> list[JobId]:
        """Return what job number `at` depends on by this reference."""
        if ref not in self._found:
            if len(self._found) >= MAX_REFS:
                what = f"more than {MAX_REFS:,} different jobs in one request"
                raise InputError(what, hint=LINKS_HINT, key="after", index=at)
            try:
                self._found[ref] = _by_batch(ref, self._resolve(ref))
            except NotFound:
                what = f"there is no job {ref[:80]!r}"
                raise InputError(what, hint="weft queue -a lists them", key="after", index=at) from None
        return self._found[ref]


def _by_batch(ref: str, found: list[JobId]) -> list[str]:
    """Replace the tasks of an array by the array, if the reference is its number."""
    if not _NUMBERS.fullmatch(ref) or ("-" not in ref and not found[0].startswith(f"{ref}_")):
        return found
    return list(dict.fromkeys(job.partition("_")[0] for job in found))


def _number(ref: str, count: int, at: int) -> int:
    found = parse_whole_or_none(ref[1:], 0, count - 1)
    if found is None:
        hint = f"#0 to #{count - 1}"
        raise InputError(f"{ref!r} is not one of this request", hint=hint, key="after", index=at)
    return found


def _find_cycle(after: dict[int, set[int]]) -> list[int]:
    """Return the jobs of a cycle, from the first of them on, each after the next; empty where there is none."""
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        cycle: list[int] = error.args[1][:0:-1]  # graphlib names predecessors first, and the first job twice
        first = cycle.index(min(cycle))
        return [*cycle[first:], *cycle[: first + 1]]
    return []


def _check_size(size: int) -> None:
    if size > MAX_JOB_BYTES:
        raise InputError(
            f"command, params and environment come to {size >> 20} MB, more than any program can be started with",
            hint="put large values into a file, and pass its name",
        )


def _size(job: Job) -> int:
    """Return the size in bytes. A character has up to four, so small texts are not encoded to count them."""
    env = job.task.env if job.task is not None else ()
    texts = [*job.command, *chain.from_iterable(job.params), *chain.from_iterable(env)]
    characters = sum(map(len, texts))
    return characters if 4 * characters <= MAX_JOB_BYTES else sum(len(text.encode()) for text in texts)


def _default_name(spec: JobSpec) -> str:
    """Return the file name of the program, without special characters. Only the end of a long path is read."""
    word = next((word for word in spec.command if not word.startswith("-")), "")
    plain = "".join(c for c in os.path.basename(word[-MAX_NAME_SOURCE_CHARS:]) if c.isalnum() or c in "._-+ ")
    return plain.strip()[:60] or "job"
