"""What can be read: the queue, a job, the history, GPUs, nodes. Never the whole state: a part of it at a time."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from weft.core.explain import explain
from weft.core.state.job import ENDED, JobState
from weft.errors import UnknownName
from weft.model import JobId, NodeId
from weft.server.api.job_refs import one, resolve
from weft.server.api.rows import SCHEMA, brief_reason, detail, first_in_line, gpu_rows, iso, node_rows, row, whereabouts
from weft.server.jobs.checkpoints import last_checkpoint
from weft.wire.messages import QueryRequest

if TYPE_CHECKING:
    from weft.server.controller import Running

USUAL_LIMIT: Final = 200
MOST: Final = 10_000
MISPLACED: Final = "MisplacedProcess"
"""A job that runs has a process where it was not meant to have one."""


class Queries:
    def __init__(self, running: Running, user: str) -> None:
        self._user = user
        self._running, self._scheduler = running, running.scheduler
        self._state, self._now = running.scheduler.state, running.loop.clock.now()
        self._numbers = running.inventory.numbers

    def answer(self, request: QueryRequest) -> dict[str, Any]:
        what = {
            "queue": self._queue, "job": self._jobs, "history": self._history, "gpus": self._gpus, "nodes": self._nodes,
        }  # fmt: skip
        if request.what not in what:
            raise UnknownName("query", request.what, what)
        return {
            "schema": SCHEMA,
            "now": iso(self._now),
            "position": len(self._running.journal),
            **self._numbers.shown(what[request.what](request)),
        }

    def why(self, ref: str) -> dict[str, Any]:
        """Why a job waits; of one that does not, where it is or how it ended."""
        job = self._state.jobs[one(self._state, ref, self._user)]
        found = explain(self._scheduler, job.id, at=self._now)
        in_s = found.unblock.in_s if found.unblock else None
        if job.status == "blocked" and job.begin_at is not None:
            in_s = max(job.begin_at - self._now, 0.0)
        body = found.as_json()
        if job.active or job.status in ENDED:
            body["reasons"] = [{"code": "None", "text": whereabouts(job, self._now)}]
            body["reasons"] += [{"code": MISPLACED, "text": text} for text in self._trespasses(job)]
        return {
            "schema": SCHEMA,
            "now": iso(self._now),
            "name": job.job.name,
            **self._numbers.shown(body),
            "at": iso(self._now),
            "expected_start": None if in_s is None else iso(self._now + in_s),
        }

    def _queue(self, request: QueryRequest) -> dict[str, Any]:
        """Those that run, then those that wait, best first, then the rest."""
        state, limit = self._state, _limit(request)
        order = list(islice(self._scheduler.in_order(), limit))
        first = first_in_line(self._scheduler)
        known = {job.id for job in order}
        # neither active nor waiting: held or behind a gate; few enough to look for, or not looked for at all
        others: Iterable[JobState] = (
            job for job in state.jobs.values() if job.status in ("blocked", "held") and job.id not in known
        )
        total = len(state.jobs) - len(state.ended)
        shown = list(islice((*state.active.values(), *order, *(others if total > len(state.waiting) else ())), limit))
        return {
            "jobs": [self._row(job, first) for job in shown],
            "running": len(state.active), "waiting": total - len(state.active), "more": total - len(shown),
            "paused": bool(state.paused), "paused_for": dict(state.paused), "policy": self._running.policy,
        }  # fmt: skip

    def _row(self, job: JobState, first: JobId | None) -> dict[str, Any]:
        return row(job, self._now, brief_reason(self._scheduler, job, first), self._running.progress_of(job))

    def _jobs(self, request: QueryRequest) -> dict[str, Any]:
        state = self._state
        named = resolve(state, request.jobs, self._user)
        if request.group:
            named += [job.id for job in state.jobs.values() if job.job.task and job.job.task.group == request.group]
        jobs = [state.jobs[job] for job in named[:MOST]]
        first = first_in_line(self._scheduler)
        found = [
            detail(job, self._now, brief_reason(self._scheduler, job, first), self._running.progress_of(job))
            for job in jobs
        ]
        for job, each in zip(jobs, found, strict=True):
            each["last_gpus"] = self._numbers.numbers(job.placed)
            each["misplaced"] = (
                [self._numbers.number(*where) for where in self._misplaced(job.id)] if job.active else []
            )
            reported = (each["progress"] or {}).get("checkpoint")
            each["checkpoint"] = reported or last_checkpoint(self._running.places.jobs, job.id)
        return {"jobs": found}

    def _misplaced(self, job: JobId) -> list[tuple[NodeId, int]]:
        """GPUs on which it has a process though it was not given them."""
        found = self._running.inventory.readings().items()
        return [where for where, reading in found if job in reading.get("misplaced", ())]

    def _trespasses(self, job: JobState) -> Iterable[str]:
        for node, gpu in self._misplaced(job.id) if job.active else ():
            yield f"it has a process on {node}[{gpu}], which it was not given: does it change CUDA_VISIBLE_DEVICES?"

    def _history(self, request: QueryRequest) -> dict[str, Any]:
        """Those that have ended, the last first."""
        ended = reversed(self._state.ended.values())
        recent = [job for job in ended if (job.ended_at or 0.0) >= request.since]
        shown = recent[: _limit(request)]
        return {"jobs": [self._row(job, None) for job in shown], "more": len(recent) - len(shown)}

    def _gpus(self, _request: QueryRequest) -> dict[str, Any]:
        return {"gpus": gpu_rows(self._state, self._running.inventory.readings())}

    def _nodes(self, _request: QueryRequest) -> dict[str, Any]:
        return {"nodes": node_rows(self._state, self._running.inventory.nodes())}


def _limit(request: QueryRequest) -> int:
    return min(request.limit or USUAL_LIMIT, MOST)
