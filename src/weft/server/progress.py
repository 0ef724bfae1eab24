"""How far jobs are: what they report themselves, or what their logs show."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from weft.core.job import JobState
from weft.local import files
from weft.model import JobId, Progressed
from weft.wire.places import Places

if TYPE_CHECKING:
    from weft.server.running import Running

TAIL: Final = 8192
JOURNAL_S: Final = 10.0
"""How often progress becomes a fact: policies need no more."""
MOST_BYTES: Final = 65536
_BAR: Final = re.compile(rb"(\d{1,3})%\|[^|\r\n]{0,200}\|\s*(\d+)/(\d+)\s*\[([\d:]+)<([\d:?]+)")
"""As tqdm draws it: 45%|####     | 450/1000 [00:10<00:12, 44.5it/s]."""


@dataclass
class Report:
    step: int
    total: int | None
    at: float
    first_step: int
    first_at: float
    metrics: dict[str, float]
    told_at: float = 0.0

    def rest_s(self, now: float) -> float | None:
        """What is left, at the pace so far."""
        steps, seconds = self.step - self.first_step, self.at - self.first_at
        if not self.total or steps <= 0 or seconds <= 0:
            return None
        return max((self.total - self.step) * seconds / steps - (now - self.at), 0.0)


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
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                self._take(json.loads(message))

    def _take(self, body: dict[str, Any]) -> None:
        assert self._running is not None
        job, run, step = str(body["job"]), int(body["run"]), int(body["step"])
        state = self._running.scheduler.state.running(job, run)
        if state is None:
            return
        now = self._running.loop.clock.now()
        known = self._reports.get((job, run))
        if known is None:
            known = self._reports[job, run] = Report(step, None, now, step, now, {})
        known.step, known.at = step, now
        known.total = int(body["total"]) if body.get("total") else known.total
        known.metrics |= {str(k): float(v) for k, v in body.get("metrics", {}).items()}
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
                "from": "job",
            }
        return self._of_log(job) if job.active else None

    def _of_log(self, job: JobState) -> Mapping[str, Any] | None:
        path = os.path.join(files.run_dir(str(self._places.jobs), job.id, job.run), files.LOG)
        try:
            with open(path, "rb") as file:
                file.seek(max(file.seek(0, os.SEEK_END) - TAIL, 0))
                bars = _BAR.findall(file.read())
        except OSError:
            return None
        if not bars:
            return None
        _, step, total, _, left = bars[-1]
        return {"step": int(step), "total": int(total), "eta_s": _seconds(left.decode()), "metrics": {}, "from": "log"}

    def forget(self, job: JobId) -> None:
        for key in [key for key in self._reports if key[0] == job]:
            del self._reports[key]


def _seconds(text: str) -> float | None:
    parts = text.split(":")
    if "?" in text or not all(part.isdecimal() for part in parts):
        return None
    found = 0.0
    for part in parts:
        found = found * 60 + int(part)
    return found
