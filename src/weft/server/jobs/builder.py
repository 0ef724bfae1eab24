"""Build the jobs of a submit request: defaults, arrays, dependencies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from weft.access.auth.identity import Caller
from weft.access.jobspec.fields import Field
from weft.access.jobspec.job_names import default_name
from weft.access.sweeps.early_stop import parse_rule
from weft.access.wire.convert import Pairs, pairs
from weft.access.wire.messages import JobSpec, SubmitRequest
from weft.errors import InputError, NotFound
from weft.inputs import dependencies
from weft.inputs.quantities import parse_array, parse_whole_or_none
from weft.model import Job, JobId, Task
from weft.scheduling.core.admission import problem_of
from weft.scheduling.core.state.teams import Teams
from weft.server.jobs.admission import AdmissionRules, check_team
from weft.server.jobs.batch import Batch, JobTemplate
from weft.server.jobs.dependencies import sort_by_dependencies
from weft.server.jobs.edit import JobEditor, check_text, values_of
from weft.server.jobs.exec_limits import check_env, check_startable
from weft.server.process.slices import Steps, free

MAX_JOBS: Final = 100_000
"""In one request, counting array tasks."""
MAX_LINKS: Final = 1_000_000
"""Dependencies in one request, each as often as it is named. An array counts as one job to depend on."""
MAX_JOB_BYTES: Final = 6 << 20
"""The limit for the command, params and environment of a job together. Linux starts no program with more."""
MAX_TOTAL_BYTES: Final = 512 << 20
"""The limit for all jobs of a request together, about: each task of an array counts."""
MAX_REFS: Final = 10_000
"""Different references in one request to jobs outside it."""
LINKS_HINT: Final = "name an array by its number: it counts as one; or put one job in between"
_NUMBERS: Final = re.compile(r"[0-9]+(-[0-9]+)?")
Resolve = Callable[[str], list[JobId]]
"""The jobs that a reference means; `singleton:NAME` means the user's unfinished jobs of that name."""


CheckNotify = Callable[[str], None]
"""Raises if a job may not choose these events and targets of messages."""


def accept_all(_choice: str) -> None:
    """Accept any choice of messages."""


class JobBuilder:
    """Builds jobs from specs, and checks them."""

    def __init__(self, rules: AdmissionRules, teams: Teams, check_notify: CheckNotify = accept_all) -> None:
        self._rules, self._editor, self._teams, self._check_notify = rules, JobEditor(rules), teams, check_notify

    def build(self, request: SubmitRequest, first_id: int, resolve: Resolve, who: Caller) -> Steps[Batch]:
        """Return the jobs of a request of this user. Raise if any spec is invalid."""
        made: list[JobTemplate] = []
        try:
            return (yield from self._build(request, first_id, resolve, who, made))
        except InputError:
            yield from free(made)
            raise

    def _build(
        self, request: SubmitRequest, first_id: int, resolve: Resolve, who: Caller, made: list[JobTemplate]
    ) -> Steps[Batch]:
        user = who.user
        if not request.jobs:
            raise InputError("no job in the request")
        self._rules.begin()
        env = pairs(request.env)
        env_bytes = sum(each.ByteSize() for each in request.env)
        check_env(env)
        count = total = 0
        for at, spec in enumerate(request.jobs):
            try:
                if spec.team:
                    check_team(self._teams, spec.team, who.user, is_admin=who.role == "admin")
                made.append(self._template(spec, request, str(first_id + at), user, env, env_bytes))
            except InputError as error:
                raise error.at(index=at) from None
            count += made[-1].count
            total += made[-1].count * made[-1].size
            if count > MAX_JOBS:
                raise InputError(f"more than {MAX_JOBS:,} jobs at once", hint="submit them in several requests")
            check_total(total)
            yield
        order = yield from self._link(request, made, resolve)
        return Batch(user, request.key, made, order)

    def _template(
        self, spec: JobSpec, request: SubmitRequest, job_id: JobId, user: str, env: Pairs, env_bytes: int
    ) -> JobTemplate:
        size = spec.ByteSize()
        _check_size(size)
        job = self._job(spec, request, job_id, user, env)
        if size + env_bytes > MAX_JOB_BYTES:  # no less than its exact size, which takes longer to count
            _check_size(size_of(job))
        if spec.env:
            check_env(pairs(spec.env))
        self._check(job)
        if spec.snapshot and not request.dry_run and not self._rules.has_snapshot(spec.snapshot):
            what = f"there is no snapshot {spec.snapshot}"
            raise InputError(what, hint="submit the job again with --snapshot", key="snapshot")
        count = len(parse_array(spec.array)[0]) if spec.array else 1
        return JobTemplate(job, spec.array, spec.hold, count, size + env_bytes)

    def check(self, job: Job) -> None:
        """Raise if the job cannot be accepted."""
        _check_size(size_of(job))
        check_env(job.task.env if job.task is not None else ())
        self._rules.begin()
        self._check(job)

    def _check(self, job: Job) -> None:
        if problem := problem_of(job):  # the job has no number that its user knows
            raise InputError(problem)
        if not job.command:
            raise InputError("no command", hint="add one: weft submit [flags] -- CMD ARGS..., or command: in the file")
        check_text("group", job.group)  # the queue shows it to other users, 100 rows at a time
        if job.task is not None and job.task.early_stop:
            try:
                parse_rule(job.task.early_stop)
            except InputError as error:
                raise error.at(key="early_stop") from None
        check_container(job)
        if job.task is not None and job.task.notify:
            try:
                self._check_notify(job.task.notify)
            except InputError as error:
                raise error.at(key="notify") from None
        check_startable(job)
        self._rules.check(job)

    def _job(self, spec: JobSpec, request: SubmitRequest, job_id: JobId, user: str, env: Pairs) -> Job:
        values = values_of(spec)
        values["name"] = values.get("name") or default_name(spec.command)
        values["chdir"] = values.get("chdir") or request.chdir
        values["team"] = values.get("team") or self._teams.team_of(user)
        if spec.image:
            env = ()  # an image has its own variables: the submitter's paths mean nothing there
        values["env"] = tuple({**dict(env), **dict(values["env"])}.items()) if "env" in values else env
        return self._editor.create(job_id, user, request.key, values)

    def edit(self, job: Job, spec: JobSpec, fields: Sequence[Field], resolve: Resolve) -> Job:
        """Return the job with these fields as the spec has them; raise if it may not be so."""
        if any(field.key == "team" for field in fields) and spec.team not in ("", job.team):
            check_team(self._teams, spec.team, job.user)
        edited = self._editor.edit(job, values_of(spec, fields))
        if any(field.key == "after" for field in fields):
            edited = replace(edited, **_dependencies(spec, edited, resolve))
        self.check(edited)
        return edited

    def rebuild(self, job: Job, spec: JobSpec, resolve: Resolve) -> Job:
        """Return the job as if it had been submitted with this spec. It keeps its id and its place in an array, and
        the values that its user cannot see: environment, snapshot, standard input and terminal."""
        if spec.array or spec.hold:
            key = "array" if spec.array else "hold"
            raise InputError("a job that is queued cannot get one", hint=f"leave {key} out", key=key)
        old = job.task or Task()
        values = values_of(spec)
        values["name"] = values.get("name") or default_name(spec.command)
        values["chdir"] = values.get("chdir") or old.chdir
        if spec.team not in ("", old.team):
            check_team(self._teams, spec.team, job.user)
        values["team"] = spec.team or self._teams.team_of(job.user)
        values["env"] = tuple({**dict(old.env), **dict(values.get("env", ()))}.items())
        if not job.gpus and not job.cpus:  # --cpus 0, which the file does not show
            values.setdefault("cpus", 0)
        values |= {"snapshot": old.snapshot, "stdin": old.stdin, "terminal": old.terminal}
        made = self._editor.create(job.id, job.user, old.key, values)
        place = {name: getattr(old, name) for name in ("array_index", "array_size", "array_first", "array_last")}
        task = replace(made.task or Task(), **place)
        edited = replace(
            made, task=task, **_dependencies(spec, made, resolve), batch=job.batch, batch_limit=job.batch_limit,
            opportunistic=job.opportunistic, iterations=job.iterations,
        )  # fmt: skip
        self.check(edited)
        return edited

    def _link(self, request: SubmitRequest, made: list[JobTemplate], resolve: Resolve) -> Steps[Sequence[int]]:
        """Set the dependencies of each job, and return the order of the jobs. Raise if they form a cycle."""
        inside: dict[int, set[int]] = {}
        search = _Search(resolve)
        namesakes: dict[str, list[int]] = {}
        links = 0
        for at, spec in enumerate(request.jobs):
            after = _Links(made[at].job, at)
            for text in dict.fromkeys(spec.after):
                condition, ref = dependencies.split(text)
                if ref.startswith("#"):
                    other = _number(ref, len(made), at)
                    inside.setdefault(at, set()).add(other)
                    after.add(condition, [made[other].job.id])
                elif text == dependencies.SINGLETON:
                    here = namesakes.get(made[at].job.name, [])
                    inside.setdefault(at, set()).update(here)
                    others = [*(made[other].job.id for other in here), *search.namesakes(made[at].job.name, at)]
                    after.add("afterany", (other for other in others if other not in after.found))
                    made[at] = made[at].one_at_a_time()
                else:
                    after.add(condition, search.jobs(ref, at))
                yield
            namesakes.setdefault(made[at].job.name, []).append(at)
            links += len(after.found) * made[at].count
            _check_links(links, at)
            if after.found:
                made[at] = replace(made[at], job=replace(made[at].job, **after.attributes()))
            yield
        found = yield from sort_by_dependencies(inside, len(made))
        if found.cycle:
            names = " after ".join(request.jobs[at].name or f"#{at}" for at in found.cycle)
            hint = "remove one of them"
            raise InputError(f"cyclic dependencies: {names}", hint=hint, key="after", index=found.cycle[0])
        return found.order


def _check_links(links: int, at: int | None) -> None:
    if links > MAX_LINKS:
        raise InputError(f"more than {MAX_LINKS:,} dependencies at once", hint=LINKS_HINT, key="after", index=at)


class _Links:
    """The dependencies of one job, each with its condition."""

    def __init__(self, job: Job, at: int | None = None) -> None:
        self._job, self._at = job, at
        self.found: dict[JobId, str] = {}

    def add(self, condition: str, jobs: Iterable[JobId]) -> None:
        for job in jobs:
            if self.found.setdefault(job, condition) != condition:
                what = f"job {job} must end as {self.found[job]} and as {condition}"
                raise InputError(what, hint="name it with one condition", key="after", index=self._at)

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of the job that hold them."""
        return {
            attribute: tuple(job for job, condition in self.found.items() if condition == word)
            for word, attribute in dependencies.CONDITIONS.items()
        }


class _Search:
    """Finds jobs by reference, each reference once: a search may look at every job."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._found: dict[str, list[JobId]] = {}
        self._links = 0

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
                if ":" in ref:
                    what += f", and {ref.partition(':')[0][:40]!r} is no condition: use afterok, afterany or afternotok"
                raise InputError(what, hint="weft queue -a lists them", key="after", index=at) from None
            self._links += len(self._found[ref])
            _check_links(self._links, at)
        return self._found[ref]

    def namesakes(self, name: str, at: int | None = None) -> list[JobId]:
        """Return the unfinished jobs of that name."""
        return self.jobs(f"{dependencies.SINGLETON}:{name}", at)


def _dependencies(spec: JobSpec, job: Job, resolve: Resolve) -> dict[str, Any]:
    """Return what an edited job depends on, as the attributes that hold it."""
    search, after = _Search(resolve), _Links(job)
    for text in dict.fromkeys(spec.after):
        condition, ref = dependencies.split(text)
        if text == dependencies.SINGLETON:
            others = search.namesakes(job.name)
            after.add("afterany", (other for other in others if other != job.id and other not in after.found))
        else:
            after.add(condition, search.jobs(ref))
    return after.attributes()


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


def check_container(job: Job) -> None:
    """Raise if a job has settings of a container, but no image."""
    task = job.task or Task()
    key = "" if task.image else "mount" if task.mounts else "runtime" if task.runtime else ""
    if key:
        raise InputError("the job runs in no container", hint="name its image: --image IMAGE", key=key)


def _check_size(size: int) -> None:
    if size > MAX_JOB_BYTES:
        raise InputError(
            f"command, params and environment come to {size >> 20} MB, more than any program can be started with",
            hint="put large values into a file, and pass its name",
        )


def check_total(size: int) -> None:
    """Raise if the jobs of a request come to too many bytes: the journal holds each of them in full."""
    if size > MAX_TOTAL_BYTES:
        raise InputError(
            f"the jobs come to {size >> 20:,} MB in all; at most {MAX_TOTAL_BYTES >> 20:,} MB are accepted at once",
            hint="put large values into a file, pass fewer variables, or submit fewer jobs at once",
        )


def size_of(job: Job) -> int:
    """Return the size in bytes. A character has up to four, so small texts are not encoded to count them."""
    env = job.task.env if job.task is not None else ()
    texts = [*job.command, *chain.from_iterable(job.params), *chain.from_iterable(env)]
    characters = sum(map(len, texts))
    return characters if 4 * characters <= MAX_JOB_BYTES else sum(len(text.encode()) for text in texts)
