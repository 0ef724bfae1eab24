"""Notes about submitted jobs: what their submitter should know at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from weft.access.wire.messages import SubmitRequest
from weft.model import Seconds
from weft.scheduling.core.deadlines import deadline_note, expected_end
from weft.scheduling.core.reasons import infeasibility
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.job import JobState
from weft.server.jobs.batch import Batch
from weft.server.process.slices import Steps

MAX_NOTES: Final = 10
"""The most notes in the answer to one request."""
NO_GPUS: Final = "no GPU is known here, so the job asks for none; --gpus N asks for N"


def submit_notes(
    scheduler: Callable[[], Scheduler], request: SubmitRequest, batch: Batch, now: Seconds
) -> Steps[list[str]]:
    """Return notes about jobs that got no GPU by default, that no node could hold now, or that have missed their
    deadline, each once. A dry run also says which jobs may miss it; of submitted jobs, their forecast does.

    The scheduler may be replaced between two steps."""
    found: dict[str, int] = {}
    """Each note, with the number of jobs that it is about."""
    for spec, template in zip(request.jobs, batch.templates, strict=True):
        notes = []
        if not template.job.gpus and not spec.HasField("gpus"):
            notes.append(NO_GPUS)
        job = JobState(template.job, 0, 0.0)
        if scheduler().impossible(job):
            text = infeasibility(scheduler(), job).text
            text = f"no node could hold the job now: it {text}" if text.startswith("needs") else text
            notes.append(f"{text}; it waits for a node that can hold it")
        if template.job.deadline_at is not None:
            end = expected_end(template.job, scheduler().state.durations, now) if request.dry_run else None
            note = deadline_note(template.job.deadline_at, end, now)
            notes += [note] if note is not None else []
        for note in notes:
            found[note] = found.get(note, 0) + template.count
        if len(found) >= MAX_NOTES:
            break
        yield
    return [note if count == 1 else f"{count:,} jobs: {note}" for note, count in found.items()]
