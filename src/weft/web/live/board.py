"""The rows of the page as the last changes left them, and what browsers are sent of each change.

All methods run in the event loop; the table of jobs is written before, by the thread that follows the scheduler.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any, Final

from weft.views.answers.base import View, extend_view, members
from weft.views.answers.changes import ChangesView, EventView
from weft.views.answers.live_rows import LiveRows
from weft.views.answers.nodes import GpuView
from weft.web.live.job_table import JobRowView, JobTable
from weft.web.live.samples import PERIOD_S, Sample, Samples, ServiceHistory, ServiceSample, Usage

MAX_EVENTS: Final = 200
MAX_SERVICES: Final = 500
MAX_STREAMED_JOBS: Final = 200
"""Rows of jobs in one message; with more changes, the page asks for its rows again."""
TOPICS: Final = ("counts", "gpus", "jobs", "nodes", "services", "events")
Latencies = dict[str, tuple[float | None, float | None]]
"""The median and the 95 % quantile of the latency of each service, in seconds."""


class Board(LiveRows):
    def __init__(self, table: JobTable) -> None:
        super().__init__()
        self.table = table
        self.error = ""
        """Why the scheduler cannot be reached; empty: it can."""
        self.events: deque[EventView] = deque(maxlen=MAX_EVENTS)
        self.samples, self.usage = Samples(), Usage()
        self.service_history: dict[str, ServiceHistory] = {}
        self.latencies: Latencies = {}

    def apply(self, changes: ChangesView) -> dict[str, bytes]:
        """Take the changes, and return the messages for browsers by topic."""
        self.take(changes)
        self.error = ""
        del self.services[MAX_SERVICES:]
        self.events.extend(changes.events or ())
        self._sample()
        return self._messages(changes)

    def fail(self, error: str) -> dict[str, bytes]:
        """Record that the scheduler cannot be reached."""
        self.error = error
        return {"counts": to_json(self.counts_message())}

    def counts_message(self) -> dict[str, Any]:
        return {
            "now": self.now,
            "counts": self.counts,
            "error": self.error,
            "busy": self.busy(),
            "gpus": len(self.gpus),
        }

    # ---- parts of a message

    def _messages(self, changes: ChangesView) -> dict[str, bytes]:
        found = {"counts": to_json(self.counts_message())}
        if changes.reset or changes.left:
            found["gpus"] = found["nodes"] = b'{"reset":true}'
        else:
            if changed := self._changed_gpus(changes):
                found["gpus"] = to_json({"gpus": changed})
            if changes.nodes:
                found["nodes"] = to_json({"nodes": changes.nodes})
        if changes.reset or changes.jobs or changes.purged:
            found["jobs"] = self._jobs_message(changes)
        if changes.services is not None:
            found["services"] = to_json({"services": self.services})
        if changes.events:
            found["events"] = to_json({"events": changes.events})
        return found

    def _changed_gpus(self, changes: ChangesView) -> list[GpuView]:
        keys = {(gpu.node, gpu.gpu) for gpu in changes.gpus or ()}
        keys |= {(node, row[0]) for node, rows in (changes.readings or {}).items() for row in rows}
        return [self.gpus[key] for key in keys if key in self.gpus]

    def _jobs_message(self, changes: ChangesView) -> bytes:
        jobs = changes.jobs or ()
        if changes.reset or len(jobs) > MAX_STREAMED_JOBS:
            return b'{"reset":true}'
        rows = [extend_view(JobRowView, job, {"at": changes.now}) for job in jobs]
        return to_json({"jobs": rows, "purged": changes.purged or []})

    # ---- samples

    def _sample(self) -> None:
        latencies = self.latencies
        known = {service.name for service in self.services}
        for gone in self.service_history.keys() - known:
            del self.service_history[gone]
        for service in self.services:
            p50_s, p95_s = latencies.get(service.name, (None, None))
            figures = service.rate, service.in_flight, service.queued, service.ready, service.wanted
            history = self.service_history.setdefault(service.name, ServiceHistory())
            history.add(ServiceSample(self.now, *figures, p50_s, p95_s), service.why)
        if not self.samples.is_due(self.now):
            return
        counts = self.counts
        self.samples.add(
            Sample(self.now, self.busy(), len(self.gpus), self.utilisation(), counts.running, counts.waiting)
        )
        for user, status, _, gpus in self.table.by_user():
            if status in ("running", "starting", "stopping"):
                self.usage.add(user, self.now, gpus * PERIOD_S)


def to_json(value: Any) -> bytes:
    """Encode views, and plain values that contain views."""
    return json.dumps(value, default=_plain, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    return members(value) if isinstance(value, View) else list(value)
