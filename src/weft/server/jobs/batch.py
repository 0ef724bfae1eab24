"""The jobs of one submit request, as templates: the tasks of an array differ only in their index.

While a large batch is journalled in slices, a file holds it, so that a server that was killed meanwhile completes it.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

from weft.errors import JournalError
from weft.history.journal.codec import decode_line, encode_line
from weft.inputs.quantities import parse_array
from weft.model import Job, JobId, Submitted, Task
from weft.server.process.slices import Steps

SLICE_JOBS: Final = 100
"""The most jobs that one request submits or changes in one turn of the loop."""
SLICE_BYTES: Final = 4 << 20
"""The most bytes of jobs, about, that one request has journalled in one turn of the loop. One job may have more."""


@dataclass(frozen=True, slots=True)
class JobTemplate:
    """A job, or all tasks of an array."""

    job: Job
    array: str = ""
    hold: bool = False
    count: int = 1
    size: int = field(default=0, compare=False)
    """The bytes of each of its jobs in the journal, about."""

    def jobs(self) -> Iterator[Job]:
        if not self.array:
            yield self.job
            return
        indices, limit = parse_array(self.array)
        job, task = self.job, self.job.task or Task()
        task = replace(task, array_size=len(indices), array_first=min(indices), array_last=max(indices))
        for index in indices:
            yield replace(
                job, id=f"{job.id}_{index}", batch=job.id, batch_limit=limit, task=replace(task, array_index=index)
            )

    def one_at_a_time(self) -> JobTemplate:
        """Return the template with at most one task of its array at a time."""
        return replace(self, array=f"{self.array.partition('%')[0]}%1") if self.array else self

    def ids(self) -> Iterator[JobId]:
        if not self.array:
            return iter((self.job.id,))
        return (f"{self.job.id}_{index}" for index in parse_array(self.array)[0])


@dataclass(frozen=True)
class Batch:
    """The templates of a request, and the order in which each follows those that it depends on."""

    user: str
    key: str
    templates: list[JobTemplate]
    order: Sequence[int]

    @property
    def count(self) -> int:
        return sum(each.count for each in self.templates)

    def ids(self) -> list[JobId]:
        """Return the ids in the order of the request."""
        return list(chain.from_iterable(each.ids() for each in self.templates))

    def jobs(self) -> Iterator[tuple[Job, bool]]:
        """Yield each job in the order of the journal, and whether it is held."""
        for at in self.order:
            template = self.templates[at]
            for job in template.jobs():
                yield job, template.hold

    # ---- the file

    def encode(self) -> Steps[bytes]:
        """Return the content of the file: a head, then one line for each template. All share one environment."""
        first = self.templates[0].job.task or Task()
        head = {"weft": "batch", "user": self.user, "key": self.key, "env": first.env, "order": list(self.order)}
        lines = [json.dumps(head)]
        for template in self.templates:
            job, task = template.job, template.job.task
            shared = task is not None and task.env == first.env
            if task is not None and shared:
                job = replace(job, task=replace(task, env=()))
            lines.append(json.dumps([template.array, template.hold, shared, encode_line(Submitted(0.0, job))]))
            yield
        return "\n".join(lines).encode()


class OpenBatch:
    """A batch that is being journalled."""

    def __init__(self, batch: Batch, path: Path) -> None:
        self.batch, self.path = batch, path
        self.left = batch.count
        """Jobs that are still to be journalled."""
        self._numbers = {template.job.id for template in batch.templates}
        largest = max(template.size for template in batch.templates)
        self._step = max(1, min(SLICE_JOBS, SLICE_BYTES // max(1, largest)))
        self._rest = batch.jobs()
        self._slice: list[tuple[Job, bool]] = []

    def __contains__(self, job: JobId) -> bool:
        return job.partition("_")[0] in self._numbers

    def skip(self, known: Container[JobId]) -> None:
        """Skip the jobs up to the last one that is known: the journal has them in this order."""
        done = max((at for at, (job, _) in enumerate(self.batch.jobs(), start=1) if job.id in known), default=0)
        self.left = self.batch.count - done
        self._rest = islice(self.batch.jobs(), done, None)

    def next_slice(self) -> list[tuple[Job, bool]]:
        """Return the next jobs, which are not `left` any more."""
        self._slice = self._slice or list(islice(self._rest, self._step))
        self.left -= len(self._slice)
        return self._slice

    def put_back(self) -> None:
        """Make the last slice the next one again: it could not be journalled."""
        self.left += len(self._slice)

    def advance(self) -> None:
        """Go on to the following slice: the last one is on disk."""
        self._slice = []


def decode_batch(content: bytes) -> Batch:
    """Return the batch that `Batch.encode` wrote. Raise JournalError if the content is something else."""
    try:
        head, *lines = content.decode().splitlines()
        found = json.loads(head)
        env = tuple((name, value) for name, value in found["env"])
        env_bytes = len(json.dumps(found["env"]))
        templates = [_template(json.loads(line), env, env_bytes) for line in lines]
        return Batch(found["user"], found["key"], templates, found["order"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise JournalError(f"not a batch of jobs: {error}") from None


def _template(line: Any, env: tuple[tuple[str, str], ...], env_bytes: int) -> JobTemplate:
    array, hold, shared, text = line
    fact = decode_line(text)
    if not isinstance(fact, Submitted):
        raise JournalError(f"not a batch of jobs: it has a {type(fact).__name__}")
    job = fact.job
    if shared:
        job = replace(job, task=replace(job.task or Task(), env=env))
    size = len(text) + (env_bytes if shared else 0)
    return JobTemplate(job, array, hold, len(parse_array(array)[0]) if array else 1, size)
