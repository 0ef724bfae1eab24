"""How far jobs are: what they report themselves, or what their logs show."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from weft.core.job import JobState
from weft.local import files
from weft.model import JobId, Progressed
from weft.server.bars import last_bar
from weft.server.reports import Report
from weft.wire.places import Places

if TYPE_CHECKING:
    from weft.server.running import Running

TAIL: Final = 8192
JOURNAL_S: Final = 10.0
"""How often progress becomes a fact: policies need no more."""
MOST_BYTES: Final = 65536


class Progress:
    def __init__(self, places: Places) -> None:
        self._places = places
        self._reports: dict[tuple[JobId, int], Report] = {}
        self._socket: socket.socket | None = None
        self._running: Running | None = None

    async def open(self, running: Running) -> None:
        self._running = running
        path = str(self._places.progress)
        with suppress(FileNotFoundError):
            os.unlink(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._socket.bind(path)
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._on_message)

    def close(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()

    # ---- what jobs report

    def _on_message(self) -> None:
        assert self._socket is not None
        for _ in range(1000):
            try:
                message = self._socket.recv(MOST_BYTES)
            except BlockingIOError:
                return
            with suppress(ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, OSError):
                self._take(json.loads(message))

    def _take(self, body: dict[str, Any]) -> None:
        assert self._running is not None
        job, run = str(body["job"]), int(body["run"])
        state = self._running.scheduler.state.running(job, run)
        if state is None:
            return
        now = self._running.loop.clock.now()
        known = self._reports.get((job, run))
        if known is None:
            known = self._reports[job, run] = Report(now)
        known.take(body, now)
        rest_s = known.rest_s(now)
        if rest_s is not None and now - known.told_at > JOURNAL_S:
            known.told_at = now
            self._running.loop.tell(lambda at: [Progressed(at, job, run, rest_s)])

    # ---- what can be said of a job

    def of(self, job: JobState) -> Mapping[str, Any] | None:
        assert self._running is not None
        now = self._running.loop.clock.now()
        report = self._reports.get((job.id, job.run))
        if report is not None:
            rest_s = report.rest_s(now) if job.active else None
            return {
                "step": report.step,
                "total": report.total,
                "eta_s": rest_s,
                "metrics": report.metrics,
                "checkpoint": report.checkpoint,
                "from": "job",
            }
        return self._of_log(job) if job.active else None

    def _of_log(self, job: JobState) -> Mapping[str, Any] | None:
        path = os.path.join(files.run_dir(str(self._places.jobs), job.id, job.run), files.LOG)
        try:
            with open(path, "rb") as file:
                file.seek(max(file.seek(0, os.SEEK_END) - TAIL, 0))
                bar = last_bar(file.read())
        except OSError:
            return None
        if bar is None:
            return None
        return {
            "step": bar.step,
            "total": bar.total,
            "eta_s": bar.left_s,
            "metrics": {},
            "checkpoint": None,
            "from": "log",
        }

    def prune(self, jobs: Mapping[JobId, JobState]) -> None:
        """Forgets runs that are not the last of their job, and jobs that are forgotten."""
        for job, run in [key for key in self._reports if key[0] not in jobs or jobs[key[0]].run != key[1]]:
            del self._reports[job, run]
