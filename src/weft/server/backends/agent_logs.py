"""Logs of runs on agents: read from the agent, or from the last part that the server keeps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from weft.access.wire import messages as m
from weft.access.wire.runs import MAX_JOBS_PER_MESSAGE
from weft.errors import InputError
from weft.model import JobId, NodeId, Start
from weft.model.slots import nodes_of
from weft.node.engine.launch_spec import is_valid_job_id
from weft.node.engine.output.logs import MISSING, RUNS_KEPT, LogPart
from weft.scheduling.core.state.job import JobState
from weft.server.backends.base import Host
from weft.server.nodes.log_requests import LogRequests
from weft.server.nodes.log_tails import LogTails
from weft.server.nodes.registry import NodeRegistry
from weft.server.nodes.streams import Streams

log = logging.getLogger(__name__)


class AgentLogs:
    """The logs of all runs of a cluster."""

    def __init__(self, host: Host, registry: Callable[[], NodeRegistry], streams: Streams) -> None:
        self._host, self._registry, self._streams = host, registry, streams
        self._tails, self._requests = LogTails(host.paths.jobs, host.files.changed), LogRequests()
        self._nodes_by_run: dict[JobId, dict[int, tuple[NodeId, ...]]] = {}
        """The nodes of the latest runs of each job, by job and run."""

    # ---- reading

    async def read(
        self, job: JobState, run: int, rank: int, offset: int, lines: int, *, stderr: bool = False
    ) -> LogPart | None:
        node = self._node(job, run, rank)
        if node is None:
            return MISSING
        conn = self._registry().conn_of(node)
        if conn is None:
            return None
        send = self._streams.send
        request = m.ReadLog(job=job.id, run=run, offset=offset, lines=lines, stderr=stderr)
        return await self._requests.read(conn, lambda read: send(conn, read), request)

    def kept(self, job: JobState, run: int, rank: int, lines: int) -> LogPart:
        node = self._node(job, run, rank)
        return MISSING if node is None else self._tails.read(node, job.id, run, lines=lines)

    def tail(self, job: JobId, run: int) -> bytes:
        known = self._host.state().jobs.get(job)
        node = self._node(known, run, 0) if known is not None else None
        return self._tails.read(node, job, run).text if node is not None else b""

    def _node(self, job: JobState, run: int, rank: int) -> NodeId | None:
        """Return the node on which a rank runs or ran; None if it is not known any more."""
        nodes = self._nodes(job, run) or self._tails.nodes(job.id, run)
        return nodes[rank] if rank < len(nodes) else None

    def _nodes(self, job: JobState, run: int) -> Sequence[NodeId]:
        """Return the nodes of a run, as far as they are known since the server started."""
        return nodes_of(job.placed) if run == job.run else self._nodes_by_run.get(job.id, {}).get(run, ())

    def forget(self, jobs: Iterable[JobId]) -> None:
        ids = sorted(set(jobs))
        for job in ids:
            self._nodes_by_run.pop(job, None)
        for start in range(0, len(ids), MAX_JOBS_PER_MESSAGE):
            message = m.SchedulerMessage(forget=m.Forget(jobs=ids[start : start + MAX_JOBS_PER_MESSAGE]))
            for member in self._registry().members():
                if member.conn is not None:
                    self._streams.send(member.conn, message)

    # ---- events

    def started(self, start: Start) -> None:
        nodes_by_run = self._nodes_by_run.setdefault(start.job, {})
        nodes_by_run[start.run] = nodes_of(start.slots)
        nodes_by_run.pop(start.run - RUNS_KEPT, None)

    def answered(self, conn: int, part: m.LogPart) -> None:
        self._requests.receive(conn, part)

    def disconnected(self, conn: int) -> None:
        self._requests.disconnect(conn)

    async def keep(self, conn: int, tail: m.LogTail) -> None:
        """Save the last part of a log, for when its node cannot be reached."""
        member, job = self._registry().member_at(conn), self._host.state().jobs.get(tail.job)
        if member is None or job is None or member.id not in self._nodes(job, tail.run):
            return
        try:
            await asyncio.to_thread(self._tails.keep, member.id, tail.job, tail.run, tail.offset, tail.text)
        except OSError as error:
            log.warning("could not save the end of the log of job %s: %s", tail.job, error)

    def forget_unknown(self, conn: int, kept: m.Kept) -> None:
        """Send an agent the jobs that it still keeps, but that were purged while it was disconnected."""
        if len(kept.jobs) > MAX_JOBS_PER_MESSAGE:
            raise InputError(f"{len(kept.jobs):,} jobs in one message", hint=f"send at most {MAX_JOBS_PER_MESSAGE:,}")
        known = self._host.state().jobs
        gone = [job for job in kept.jobs if job not in known and is_valid_job_id(job)]
        if gone and self._registry().member_at(conn) is not None:
            self._streams.send(conn, m.SchedulerMessage(forget=m.Forget(jobs=gone)))
