"""Batches of jobs as requests: a batch over the size limit is sent in parts, all of them or none."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final

from weft.access.wire.messages import JobSpec, SubmitRequest
from weft.access.wire.service import MAX_REQUEST_BYTES
from weft.errors import InputError, Unreachable, WeftError
from weft.inputs import dependencies
from weft.inputs.quantities import parse_array, parse_whole_or_none

STEP_BYTES: Final = 1 << 20
"""The size of the shared part is rounded up to this step: a batch that is sent again must split the same way."""
SLACK_BYTES: Final = 4096
FRAME_BYTES: Final = 8
"""Largest overhead of a job in a request, in addition to its bytes."""
S_PER_TASK: Final = 0.003
"""Time for a task of a large request: the scheduler takes it up in slices, and answers when all of it is on disk."""
IMPORTING: Final = "WEFT_IMPORTING"
"""The function whose module a job imports at the moment: `weft.train.call` sets it."""
Submit = Callable[[SubmitRequest], list[str]]
Cancel = Callable[[Sequence[str]], None]


def submit(request: SubmitRequest, send: Submit, cancel: Cancel) -> list[str]:
    """Return the ids of the jobs, in the order of the request. An error names its job."""
    refuse_while_importing()
    try:
        parts = split(request)
        return send(request) if len(parts) == 1 else _Batch(request, parts, send, cancel).submit()
    except InputError as error:
        raise labelled(error, request) from None


def refuse_while_importing() -> None:
    """Raise InputError while a job imports the module of its function: each job would submit further ones."""
    if target := os.environ.get(IMPORTING):
        raise InputError(
            f"a job imports {target.rpartition(':')[0]} to call its function, and the module submits jobs as it is "
            "imported",
            hint='put the lines that submit below: if __name__ == "__main__":',
        )


def extra_time_s(request: SubmitRequest) -> float:
    """Return how much longer than other calls a submission may take."""
    return S_PER_TASK * sum(_count_tasks(job.array) if job.array else 1 for job in request.jobs)


def _count_tasks(array: str) -> int:
    try:
        return len(parse_array(array)[0])
    except InputError:  # the scheduler says what is wrong
        return 1


def labelled(error: InputError, request: SubmitRequest) -> InputError:
    """Return the error with the number and name of its job if there are several."""
    if error.index is None or len(request.jobs) < 2:
        return error
    name = request.jobs[error.index].name
    return error.at(where=f"job #{error.index} ({name})" if name else f"job #{error.index}")


def split(request: SubmitRequest) -> list[list[int]]:
    """Return the numbers of the jobs of each part. With several parts, no job comes before one that it depends on."""
    budget = MAX_REQUEST_BYTES - _shared_bytes(request)
    sizes = [job.ByteSize() + FRAME_BYTES for job in request.jobs]
    if sum(sizes) <= budget:
        return [list(range(len(sizes)))]
    largest = max(range(len(sizes)), key=sizes.__getitem__)
    if sizes[largest] > budget:
        what = f"the job has {sizes[largest] / 1e6:.1f} MB, more than the {budget / 1e6:.1f} MB of a request"
        raise InputError(what, hint="put large values into files", index=largest)
    parts: list[list[int]] = [[]]
    left = budget
    for number in _in_order(request):
        if sizes[number] > left:
            parts.append([])
            left = budget
        parts[-1].append(number)
        left -= sizes[number]
    return parts


def _shared_bytes(request: SubmitRequest) -> int:
    """Return the size of the values that every part carries, rounded up to whole steps."""
    shared = SubmitRequest(env=request.env, chdir=request.chdir, key=request.key).ByteSize() + SLACK_BYTES
    if shared > MAX_REQUEST_BYTES - STEP_BYTES:
        raise InputError(f"the environment has {shared / 1e6:.1f} MB", hint="leave out --env-all, or unset variables")
    return -(-shared // STEP_BYTES) * STEP_BYTES


def _in_order(request: SubmitRequest) -> Sequence[int]:
    """Return the numbers of the jobs, in their order unless a job depends on a later one."""
    after = {number: _dependencies_inside(request, number) for number in range(len(request.jobs))}
    if all(other < number for number, others in after.items() for other in others):
        return range(len(request.jobs))
    from graphlib import CycleError, TopologicalSorter  # most batches do not need it

    try:
        return list(TopologicalSorter(after).static_order())
    except CycleError as error:
        cycle: list[int] = error.args[1][::-1]
        names = " after ".join(request.jobs[number].name or f"#{number}" for number in cycle)
        raise InputError(
            f"cyclic dependencies: {names}", hint="remove one of them", key="after", index=cycle[0]
        ) from None


def _dependencies_inside(request: SubmitRequest, number: int) -> list[int]:
    """Return the jobs of the request that this one depends on."""
    found = []
    for text in request.jobs[number].after:
        _, ref = dependencies.split(text)
        if ref.startswith("#"):
            other = parse_whole_or_none(ref[1:], 0, len(request.jobs) - 1)
            if other is None:
                hint = f"#0 to #{len(request.jobs) - 1}"
                raise InputError(f"{ref!r} is not one of this request", hint=hint, key="after", index=number)
            found.append(other)
    return found


class _Batch:
    """The parts of one batch. A dry run checks every part before the first is submitted."""

    def __init__(self, request: SubmitRequest, parts: list[list[int]], send: Submit, cancel: Cancel) -> None:
        self.request, self.parts, self.send, self.cancel = request, parts, send, cancel
        self.counts = [len(parse_array(job.array)[0]) if job.array else 1 for job in self.request.jobs]
        self.total = sum(self.counts)

    def submit(self) -> list[str]:
        for at, part in enumerate(self.parts):
            self._send(at, {}, dry_run=True, others=self.total - self._count(part))
        if self.request.dry_run:
            return []
        ids: dict[int, list[str]] = {}
        for at, part in enumerate(self.parts):
            left = self.total - sum(map(len, ids.values())) - self._count(part)
            try:
                found = iter(self._send(at, ids, dry_run=False, others=max(left, 0)))
            except Unreachable as error:
                done = sum(map(len, ids.values()))
                raise Unreachable(
                    f"{error}\n  {done:,} of {self.total:,} jobs are submitted; --key {self.request.key} continues"
                ) from None
            except WeftError:
                self.cancel([job for each in ids.values() for job in each])
                raise
            for number in part:
                ids[number] = list(islice(found, self.counts[number]))
        return [job for number in range(len(self.request.jobs)) for job in ids[number]]

    def _count(self, part: Sequence[int]) -> int:
        return sum(self.counts[number] for number in part)

    def _send(self, at: int, ids: Mapping[int, Sequence[str]], *, dry_run: bool, others: int) -> list[str]:
        part, whole = self.parts[at], self.request
        request = SubmitRequest(
            jobs=_linked(whole, part, ids), key=f"{whole.key}/{at}", env=whole.env, chdir=whole.chdir, dry_run=dry_run,
            other_jobs=others, group_jobs=whole.group_jobs,
        )  # fmt: skip
        try:
            return self.send(request)
        except InputError as error:
            raise error if error.index is None else _renumbered(error, part[error.index]) from None


def _renumbered(error: InputError, index: int) -> InputError:
    return InputError(error.what, where=error.where, hint=error.hint, key=error.key, index=index)


def _linked(request: SubmitRequest, part: Sequence[int], ids: Mapping[int, Sequence[str]]) -> list[JobSpec]:
    """Return the jobs of a part. References to earlier parts become ids; an array is named by its number.

    A dry run has no ids yet and omits such references: `split` has checked them.
    """
    here = {number: at for at, number in enumerate(part)}
    found = []
    for number in part:
        job = request.jobs[number]
        if any("#" in text for text in job.after):
            job, texts = _copy(job), job.after
            del job.after[:]
            for text in texts:
                condition, ref = dependencies.split(text)
                other = int(ref[1:]) if ref.startswith("#") else None
                if other is None:
                    job.after.append(text)
                elif other in here:
                    job.after.append(dependencies.join(condition, f"#{here[other]}"))
                elif ids.get(other):
                    job.after.append(dependencies.join(condition, ids[other][0].partition("_")[0]))
        found.append(job)
    return found


def _copy(job: JobSpec) -> JobSpec:
    copy = JobSpec()
    copy.CopyFrom(job)
    return copy
