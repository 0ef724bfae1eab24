"""The methods of the API, each a few lines: commands make events, the loop journals them, queries read the state."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from weft.errors import JournalError, NotPermitted
from weft.journal.codec import encode_line
from weft.model import Edited, Fact, JobSnapshot, Submitted
from weft.server.admin.operations import operate
from weft.server.api.histories import Histories
from weft.server.api.logs import read_log
from weft.server.api.queries import Queries
from weft.server.auth.identity import Caller, caller
from weft.server.controller import Controller
from weft.server.cpu_shares import metered, metered_stream, set_payer
from weft.server.slices import own_turn
from weft.wire import messages as m
from weft.wire.convert import pairs
from weft.wire.views.base import encode

OPEN_OPERATIONS: Final = ("doctor",)
"""Operations for every user, because they change nothing."""
FACTS_PER_PAGE: Final = 32
"""Facts read ahead for each watcher. They may be large, and a watcher may never read them."""


class Service:
    """The methods of the Scheduler service, for every transport."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._histories = Histories()
        self.last_call_at = 0.0
        """The time of the last call."""
        self.methods: dict[str, Callable[[Any], Any]] = {
            "Submit": self._timed(self._submit), "Change": self._timed(self._change),
            "Query": self._timed(self._query), "Explain": self._timed(self._explain),
            "Operate": self._timed(self._operate), "Logs": self._charged(self._logs),
            "Watch": self._charged(self._watch), "History": self._charged(self._history),
        }  # fmt: skip
        """By name. Each takes a message and returns a message or a stream of messages. They raise WeftErrors."""

    def _timed(self, method: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        """Charge each call to its caller, and record its time: a server in use does not end by itself."""

        async def call(request: Any) -> Any:
            self.last_call_at = self._controller.loop.clock.now()
            account = self._controller.shares.account(caller().user)
            set_payer(account)
            return await metered(account, method(request))

        return call

    def _charged(self, method: Callable[[Any], AsyncIterator[Any]]) -> Callable[[Any], AsyncIterator[Any]]:
        """Charge a stream to its caller."""
        return lambda request: metered_stream(self._controller.shares.account(caller().user), method(request))

    async def _submit(self, request: m.SubmitRequest) -> m.SubmitReply:
        controller = self._controller
        who = caller()
        controller.check_disk_space()
        return await controller.requests.submit(request, who)

    async def _change(self, request: m.ChangeRequest) -> m.ChangeReply:
        controller, who = self._controller, caller()
        reply = await controller.requests.change(request, who)
        if request.verb == "forget":
            controller.maintenance.remove_later(tuple(reply.ids))
        return reply

    async def _query(self, request: m.QueryRequest) -> m.JsonReply:
        async with own_turn():
            return m.JsonReply(json=encode(Queries(self._controller, caller().user).answer(request)))

    async def _explain(self, request: m.ExplainRequest) -> m.JsonReply:
        async with own_turn():
            return m.JsonReply(json=encode(Queries(self._controller, caller().user).explain_job(request.job)))

    async def _operate(self, request: m.OperateRequest) -> m.JsonReply:
        who = caller()
        if who.role != "admin" and request.verb not in OPEN_OPERATIONS:
            raise NotPermitted(
                f"{request.verb} is for admins\n  ask an admin, or for an admin token: weft auth token --role admin"
            )
        options = dict(pairs(request.options))
        return m.JsonReply(json=encode(await operate(self._controller, request.verb, options, who)))

    def _logs(self, request: m.LogsRequest) -> AsyncIterator[m.LogChunk]:
        return read_log(self._controller, request, caller())

    def _watch(self, request: m.WatchRequest) -> AsyncIterator[m.FactLine]:
        return self._facts(request.after, caller())

    def _history(self, _request: m.HistoryRequest) -> AsyncIterator[m.FactLines]:
        self.last_call_at = self._controller.loop.clock.now()
        return self._histories.stream(self._controller.journal.url)

    async def _facts(self, position: int, who: Caller) -> AsyncIterator[m.FactLine]:
        """Stream facts from a position on; from 0, those after the last snapshot.

        The stream ends if a snapshot has replaced the next facts. The client must query the state again then.
        """
        controller = self._controller
        position = position or controller.journal.base
        while position >= controller.journal.base:
            try:
                for fact in controller.journal.read(position, page=FACTS_PER_PAGE):
                    position += 1
                    yield m.FactLine(position=position, json=encode_line(redacted_for(who, fact)))
            except JournalError:
                if position >= controller.journal.base:
                    raise
                return
            async with controller.loop.changed:
                while len(controller.journal) <= position:
                    await controller.loop.changed.wait()


def redacted_for(who: Caller, fact: Fact) -> Fact:
    """Return the fact without the environment of a job that the caller does not own: it may hold secrets."""
    if not isinstance(fact, Submitted | Edited | JobSnapshot) or fact.job.task is None or who.owns(fact.job.user):
        return fact
    return replace(fact, job=replace(fact.job, task=replace(fact.job.task, env=(), key="")))
