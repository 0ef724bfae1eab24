"""The client of a scheduler: of this user's scheduler, which it starts on demand, or of a cluster's."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack, cast

from weft.access.client.local import RESTART_TIMEOUT_S, LocalTransport
from weft.access.client.transport import Transport
from weft.access.endpoints.addresses import Address, parse_scheduler
from weft.access.endpoints.paths import Paths, user_paths
from weft.access.wire import messages as m
from weft.access.wire.convert import variables
from weft.errors import Refused, Unanswered, Unreachable, WeftError

if TYPE_CHECKING:
    from weft.access.client.filters import Filters
    from weft.access.endpoints.credentials import Credentials
    from weft.model import Fact
    from weft.views.answers.base import Answer
    from weft.views.answers.changes import ChangesView
    from weft.views.answers.doctor import SchedulerView
    from weft.views.answers.explain import ExplainView
    from weft.views.answers.groups import GroupsView
    from weft.views.answers.jobs import HistoryView, JobDetailView, JobsView, JobView, QueueView
    from weft.views.answers.nodes import GpusView, NodesView
    from weft.views.answers.operations import Operation
    from weft.views.answers.pools import PoolsView
    from weft.views.answers.services import DeployedView, ServicesView
    from weft.views.answers.sweeps import SweepsView
    from weft.views.answers.weaves import WeavesView

V = TypeVar("V", bound="Answer")
SIGTERM_EXIT_CODE: Final = 143
UPLOAD_TIMEOUT_S: Final = 600.0
"""Enough for a large blob over a slow connection."""
MAX_CANCELLED_JOBS: Final = 10_000
"""Jobs in one request to cancel."""
CALL_TIMEOUT_S: Final = 60.0
"""Timeout of calls that change something, and of calls in a loop that waits."""
HISTORY_TIMEOUT_S: Final = 600.0
"""Timeout of reading a whole journal and of forecasts, which the scheduler does at a low priority."""
READ_TIMEOUT_S: Final = 10.0
"""Timeout of calls that only read: a person is waiting for the answer."""


class Client:
    """A client of the scheduler at an address, or of a user's scheduler by its paths. Close it, or use it in `with`."""

    def __init__(
        self, where: Paths | Address | None = None, *, scheduler: str = "", start: bool = True,
        credentials: Credentials | None = None,
    ) -> None:  # fmt: skip
        self.where = parse_scheduler(scheduler) if scheduler else where or user_paths()
        self._transport = _transport(self.where, credentials, start=start)
        self.note: Callable[[str], None] = lambda _: None
        """Receives remarks of the scheduler about a log or facts that are not part of them."""
        self.submit_notes: list[str] = []
        """Remarks of the scheduler about submitted jobs, for the user."""
        self._has_answered = False
        self._transport.open()

    @property
    def paths(self) -> Paths:
        """The paths of a scheduler on this machine; other schedulers have none here."""
        if isinstance(self.where, Paths):
            return self.where
        raise Refused(
            f"this works only with the scheduler of this machine, not with {self.where}\n  add --scheduler local"
        )

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- calls

    def submit(self, request: m.SubmitRequest) -> list[str]:
        """Submit jobs and return their ids.

        If the scheduler dies meanwhile, start it again and send the request again: its key prevents duplicates.
        """
        from weft.access.client import batches  # commands that only read do not need it

        request.key = request.key or os.urandom(16).hex()
        timeout_s = CALL_TIMEOUT_S + batches.extra_time_s(request)
        try:
            return batches.submit(request, lambda part: self._submit(part, timeout_s), self._cancel)
        except Unanswered as error:
            again = f"the same with --key {request.key} submits what is missing, and nothing twice"
            raise Unanswered(f"{error}\n  {again}") from None

    def _submit(self, request: m.SubmitRequest, timeout_s: float) -> list[str]:
        reply = self._call("Submit", request, retry=True, timeout_s=timeout_s)
        self.submit_notes += [note for note in reply.notes if note not in self.submit_notes]
        return list(reply.ids)

    def _cancel(self, jobs: Sequence[str]) -> None:
        """Cancel jobs whose batch could not be submitted in full."""
        for at in range(0, len(jobs), MAX_CANCELLED_JOBS):
            self.change("cancel", jobs[at : at + MAX_CANCELLED_JOBS])

    def change(
        self, verb: str, jobs: Sequence[str] = (), *, settings: Mapping[str, str] | None = None,
        statuses: Sequence[str] = (), group: str = "", spec: m.JobSpec | None = None,
    ) -> m.ChangeReply:  # fmt: skip
        pairs = variables((settings or {}).items())
        request = m.ChangeRequest(verb=verb, jobs=jobs, settings=pairs, statuses=statuses, group=group, spec=spec)
        return cast("m.ChangeReply", self._call("Change", request))

    def queue(
        self, *, limit: int = 0, arrays: bool = False, forecast: bool = False, **only: Unpack[Filters]
    ) -> QueueView:
        """Return the jobs that run and wait. With `arrays`, each array is one line."""
        from weft.views.answers.jobs import QueueView

        request = m.QueryRequest(what="queue", limit=limit, arrays=arrays, forecast=forecast, **only)
        return self._query(QueueView, request)

    def jobs(
        self, jobs: Sequence[str] = (), *, group: str = "", arrays: bool = False, timeout_s: float = READ_TIMEOUT_S
    ) -> JobsView:
        """Return the details of these jobs and of the jobs of a group. With `arrays`, an array is one entry."""
        from weft.views.answers.jobs import JobsView

        return self._query(JobsView, m.QueryRequest(what="job", jobs=jobs, group=group, arrays=arrays), timeout_s)

    def job(self, job: str) -> JobDetailView:
        """Return the first job that the reference names."""
        return self.jobs([job]).jobs[0]

    def history(self, *, limit: int = 0, since: float = 0.0, **only: Unpack[Filters]) -> HistoryView:
        """Return the jobs that have ended, latest first."""
        from weft.views.answers.jobs import HistoryView

        return self._query(HistoryView, m.QueryRequest(what="history", limit=limit, since=since, **only))

    def gpus(self) -> GpusView:
        from weft.views.answers.nodes import GpusView

        return self._query(GpusView, m.QueryRequest(what="gpus"))

    def nodes(self) -> NodesView:
        from weft.views.answers.nodes import NodesView

        return self._query(NodesView, m.QueryRequest(what="nodes"))

    def sweeps(self, name: str = "") -> SweepsView:
        from weft.views.answers.sweeps import SweepsView

        return self._query(SweepsView, m.QueryRequest(what="sweeps", name=name))

    def weaves(self) -> WeavesView:
        from weft.views.answers.weaves import WeavesView

        return self._query(WeavesView, m.QueryRequest(what="weaves"))

    def services(self, name: str = "") -> ServicesView:
        """Return all services, or one with its history."""
        from weft.views.answers.services import ServicesView

        return self._query(ServicesView, m.QueryRequest(what="services", name=name))

    def deploy(self, request: m.DeployRequest) -> DeployedView:
        """Deploy a service, or change one."""
        from weft.views.answers.services import DeployedView

        return self._ask(DeployedView, "Deploy", request, CALL_TIMEOUT_S)

    def change_service(self, request: m.ServiceChange) -> DeployedView:
        """Undeploy, scale or roll back a service."""
        from weft.views.answers.services import DeployedView

        return self._ask(DeployedView, "ChangeService", request, CALL_TIMEOUT_S, retry=False)

    def routes(self, address: str, router: str) -> Iterator[m.RouteTable]:
        """Follow the table of services and replicas, for the router at this address that reports under this id."""
        return self._transport.stream("Routes", m.RoutesRequest(address=address, router=router))

    def report_loads(self, report: m.LoadReport) -> None:
        self._call("ReportLoads", report)

    def groups(self) -> GroupsView:
        from weft.views.answers.groups import GroupsView

        return self._query(GroupsView, m.QueryRequest(what="groups"))

    def list_all(self, view: type[V], what: str) -> V:
        """Return all things of a kind that needs no filter, such as profiles and teams."""
        return self._query(view, m.QueryRequest(what=what))

    def pools(self) -> PoolsView:
        from weft.views.answers.pools import PoolsView

        return self._query(PoolsView, m.QueryRequest(what="pools"))

    def explain(self, job: str, *, forecast: bool = False) -> ExplainView:
        """Return why a job waits; with `forecast`, also when it will start and end."""
        from weft.views.answers.explain import ExplainView

        return self._ask(ExplainView, "Explain", m.ExplainRequest(job=job, forecast=forecast), READ_TIMEOUT_S)

    def operate(self, operation: Operation[V], **options: str) -> V:
        """Perform one of the operations of `weft.views.answers.operations` on the scheduler."""
        return self._ask(operation.answer, "Operate", _request(operation, options), CALL_TIMEOUT_S, retry=False)

    def doctor(self) -> SchedulerView:
        from weft.views.answers.doctor import DOCTOR

        return self._ask(DOCTOR.answer, "Operate", _request(DOCTOR, {}), READ_TIMEOUT_S, retry=False)

    def logs(
        self, job: str, *, run: int = 0, follow: bool = False, lines: int = 0, rank: int = 0, stderr: bool = False
    ) -> Iterator[bytes]:
        request = m.LogsRequest(job=job, run=run, follow=follow, lines=lines, rank=rank, stderr=stderr)
        return (chunk.text for chunk in self._log_chunks(request))

    def log_parts(self, request: m.LogsRequest) -> Iterator[m.LogChunk]:
        """Yield parts of a log with their offsets, and notes about it."""
        return self._transport.stream("Logs", request)

    def _log_chunks(self, request: m.LogsRequest) -> Iterator[m.LogChunk]:
        for chunk in self.log_parts(request):
            if chunk.note:
                self.note(chunk.note)
            if chunk.text:
                yield chunk

    def follow(self, job: str, *, lines: int = 0, rank: int = 0, stderr: bool = False) -> Iterator[bytes]:
        """Yield the output of the job, run after run, until it has ended. A scheduler may die and return meanwhile."""
        (only,) = self.jobs([job], timeout_s=CALL_TIMEOUT_S).jobs
        job, run = only.id, max(only.run, 1)
        while True:
            yield from self._follow_run(job, run, lines, rank, stderr)
            (only,) = self.jobs([job], timeout_s=CALL_TIMEOUT_S).jobs
            if only.ended and only.run <= run:
                return
            run, lines = run + 1, 0

    def _follow_run(self, job: str, run: int, lines: int, rank: int, stderr: bool) -> Iterator[bytes]:
        request = m.LogsRequest(job=job, run=run, follow=True, lines=lines, rank=rank, stderr=stderr)
        while True:
            try:
                for chunk in self._log_chunks(request):
                    request.offset, request.lines = chunk.offset + len(chunk.text), 0
                    yield chunk.text
            except Unreachable:
                self._reconnect()
            else:
                return

    def watch(self, after: int, *, timeout_s: float | None = None) -> Iterator[dict[str, Any]]:
        """Yield the facts after a position as they happen. End if a snapshot has replaced the next facts."""
        return (fact for _, fact in self.facts(after, timeout_s=timeout_s))

    def facts(self, after: int, *, timeout_s: float | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the same facts as `watch`, each with its position."""
        for line in self._transport.stream("Watch", m.WatchRequest(after=after), timeout_s):
            if line.note:
                self.note(line.note)
            else:
                yield line.position, json.loads(line.json)

    def changes(self) -> Iterator[ChangesView]:
        """Yield the rows of a screen: all of them at first, then those that change, about twice a second."""
        from weft.views.answers.base import decode
        from weft.views.answers.changes import ChangesView

        for line in self._transport.stream("Watch", m.WatchRequest(views=True)):
            yield decode(ChangesView, line.json)

    def journal(self) -> Iterator[Fact]:
        """Yield facts that add up to the scheduler's history: every job with its figures."""
        from weft.history.journal.codec import decode_line

        for page in self._transport.stream("History", m.HistoryRequest(), HISTORY_TIMEOUT_S):
            yield from map(decode_line, page.json)

    def wait(self, job: str) -> JobDetailView:
        """Return the job once it has ended."""
        while True:
            found = self.jobs([job], timeout_s=CALL_TIMEOUT_S)
            only = found.jobs[0]
            if only.ended:
                return only
            job = only.id  # a name may refer to another job later
            self._await_end(found.position, [only])

    def wait_for(self, jobs: Sequence[str]) -> list[JobDetailView]:
        """Return all these jobs once they have ended."""
        return [job if job.ended else self.wait(job.id) for job in self.jobs(jobs, timeout_s=CALL_TIMEOUT_S).jobs]

    def wait_for_any(self, jobs: Sequence[str]) -> JobDetailView:
        """Return the first of these jobs that ends."""
        while True:
            found = self.jobs(jobs, timeout_s=CALL_TIMEOUT_S)
            if ended := [job for job in found.jobs if job.ended]:
                return min(ended, key=lambda job: job.ended or "")
            jobs = [job.id for job in found.jobs]
            self._await_end(found.position, found.jobs)

    def _await_end(self, position: int, jobs: Sequence[JobView]) -> None:
        """Return when one of the jobs may have ended, directly or because a job that it depends on ended."""
        names = {job.id for job in jobs}
        any_end = any(job.status == "blocked" for job in jobs)
        try:
            for fact in self.watch(position):
                kind = fact["fact"]
                if kind == "Purged" or (kind in ("Exited", "Cancelled") and (any_end or fact["job"] in names)):
                    return
        except Unreachable:
            self._reconnect()

    def manage(self, operation: Operation[V], **options: str) -> V:
        """Perform one of the operations of `weft.views.answers.auth` on tokens."""
        return self._ask(operation.answer, "Manage", _request(operation, options), CALL_TIMEOUT_S, retry=False)

    def put(self, blob: bytes) -> str:
        """Store a blob and return its name. A blob that the scheduler has already is not sent."""
        from hashlib import sha256

        from weft.access.client.blob_parts import blob_parts

        name = sha256(blob).hexdigest()
        reply = self._transport.upload("Put", blob_parts(blob, name), UPLOAD_TIMEOUT_S)
        if reply.sha256 != name:
            raise WeftError(f"the scheduler stored {reply.sha256[:80]!r} instead of {name}\n  {self._transport.advice}")
        return name

    def open_terminal(self, requests: Iterator[m.TerminalPart]) -> Iterator[m.TerminalPart]:
        """Exchange bytes with the terminal of a run. The first part names the job and the run."""
        return self._transport.converse("OpenTerminal", requests)

    # ---- transport

    def _reconnect(self) -> None:
        """Connect again once a scheduler answers. Raise if the scheduler was stopped on purpose."""
        self._transport.await_scheduler()
        self._transport.open()

    def _call(self, name: str, request: Any, *, retry: bool = False, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        """Send a request and return the answer. With `retry`, repeat it for a while: a scheduler may be starting."""
        until = time.monotonic() + min(RESTART_TIMEOUT_S, timeout_s / 2)  # do not ask again if the scheduler hangs
        while True:
            try:
                answer = self._transport.call(name, request, timeout_s)
            except Unreachable:
                hopeless = self._transport.is_hopeless(has_answered=self._has_answered)
                if not retry or hopeless or time.monotonic() > until:
                    raise
            else:
                self._has_answered = True
                return answer
            time.sleep(0.02)
            self._transport.open()

    def _query(self, answer: type[V], request: m.QueryRequest, timeout_s: float = READ_TIMEOUT_S) -> V:
        return self._ask(answer, "Query", request, timeout_s)

    def _ask(self, answer: type[V], name: str, request: Any, timeout_s: float, *, retry: bool = True) -> V:
        from weft.views.answers.base import decode

        return decode(answer, self._call(name, request, retry=retry, timeout_s=timeout_s).json)


def _request(operation: Operation[Any], options: Mapping[str, str]) -> m.OperateRequest:
    pairs = variables(options.items())
    return m.OperateRequest(verb=operation.verb, options=pairs)


def _transport(where: Paths | Address, credentials: Credentials | None, *, start: bool) -> Transport:
    if isinstance(where, Paths):
        return LocalTransport(where, start=start)
    if where.others:
        from weft.access.client.failover import FailoverTransport

        return FailoverTransport(where, credentials)
    from weft.access.client.remote import RemoteTransport  # local clients do not need it

    return RemoteTransport(where, credentials)


def exit_code(job: JobView) -> int:
    """Return the exit code of a job that has ended, or 128 plus the signal. It is 0 only if the job is done."""
    if job.status == "done":
        return 0
    if job.exit_code is None and job.status == "cancelled":
        return SIGTERM_EXIT_CODE
    return job.exit_code or 1
