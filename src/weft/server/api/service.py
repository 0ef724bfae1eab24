"""The methods of the API, each a few lines: commands make events, the loop journals them, queries read the state."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from weft.access.auth.identity import caller
from weft.access.wire import messages as m
from weft.access.wire.convert import pairs
from weft.errors import NotPermitted
from weft.server.admin import deploy
from weft.server.admin.operations import operate
from weft.server.api.changes import ChangeFeed
from weft.server.api.forecasts import latest_table, what_if, with_forecast
from weft.server.api.histories import Histories
from weft.server.api.logs import read_log
from weft.server.api.queries import Queries
from weft.server.api.watch import watch_facts
from weft.server.controller import Controller
from weft.server.process.cpu_shares import metered, metered_stream, set_payer
from weft.server.process.slices import own_turn
from weft.server.rpc.answers import to_json
from weft.views.answers.base import encode
from weft.views.answers.services import DeployedView

OPEN_OPERATIONS: Final = ("doctor", "profile", "group", "notify-list", "notify-test")
"""Operations for every user: they change nothing, or concern the user's own jobs."""


class Service:
    """The methods of the Scheduler service, for every transport."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._histories, self._feed = Histories(), ChangeFeed(controller)
        self.last_call_at = 0.0
        """The time of the last call."""
        self.methods: dict[str, Callable[[Any], Any]] = {
            "Submit": self._timed(self._submit), "Change": self._timed(self._change),
            "Query": self._timed(self._query), "Explain": self._timed(self._explain),
            "WhatIf": self._timed(self._what_if),
            "Operate": self._timed(self._operate), "Logs": self._charged(self._logs),
            "Watch": self._charged(self._watch), "History": self._charged(self._history),
            "Deploy": self._timed(self._deploy), "ChangeService": self._timed(self._change_service),
            "Routes": self._charged(self._routes), "ReportLoads": self._timed(self._report_loads),
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

        def call(request: Any) -> AsyncIterator[Any]:
            account = self._controller.shares.account(caller().user)
            set_payer(account)
            return metered_stream(account, method(request))

        return call

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
        who = caller()
        table = await latest_table(self._controller) if request.forecast else None
        async with own_turn("query"):
            answer = Queries(self._controller, who, table).answer(request)
        return m.JsonReply(json=await to_json(answer))

    async def _explain(self, request: m.ExplainRequest) -> m.JsonReply:
        async with own_turn("query"):
            found = Queries(self._controller, caller()).explain_job(request.job)
        return m.JsonReply(json=encode(await with_forecast(self._controller, found) if request.forecast else found))

    async def _what_if(self, request: m.WhatIfRequest) -> m.JsonReply:
        return m.JsonReply(json=encode(await what_if(self._controller, request, caller())))

    async def _operate(self, request: m.OperateRequest) -> m.JsonReply:
        who = caller()
        if who.role != "admin" and request.verb not in OPEN_OPERATIONS:
            raise NotPermitted(
                f"{request.verb} is for admins\n  ask an admin, or for an admin token: weft auth token --role admin"
            )
        options = dict(pairs(request.options))
        return m.JsonReply(json=await to_json(await operate(self._controller, request.verb, options, who)))

    async def _deploy(self, request: m.DeployRequest) -> m.JsonReply:
        controller, who = self._controller, caller()
        controller.check_disk_space()
        found: DeployedView = await controller.loop.call(lambda now: deploy.deploy(controller, request, now, who))
        return m.JsonReply(json=encode(found))

    async def _change_service(self, request: m.ServiceChange) -> m.JsonReply:
        controller, who = self._controller, caller()
        found: DeployedView = await controller.loop.call(lambda now: deploy.change(controller, request, now, who))
        return m.JsonReply(json=encode(found))

    def _routes(self, request: m.RoutesRequest) -> AsyncIterator[m.RouteTable]:
        _check_router()
        return self._controller.services.tables(request.address[:200], request.router[:64])

    async def _report_loads(self, request: m.LoadReport) -> m.LoadReply:
        _check_router()
        self._controller.services.receive(request)
        return m.LoadReply()

    def _logs(self, request: m.LogsRequest) -> AsyncIterator[m.LogChunk]:
        return read_log(self._controller, request, caller())

    def _watch(self, request: m.WatchRequest) -> AsyncIterator[m.FactLine]:
        controller = self._controller
        if request.views:
            return self._feed.watch(self._record_use)
        return watch_facts(
            controller.journal, controller.loop.changed, request.after, caller(), lambda: controller.trouble
        )

    def _record_use(self) -> None:
        self.last_call_at = self._controller.loop.clock.now()

    def _history(self, _request: m.HistoryRequest) -> AsyncIterator[m.FactLines]:
        self._record_use()
        return self._histories.stream(self._controller.journal.url)


def _check_router() -> None:
    """Raise unless the caller may serve requests: it learns the addresses of all replicas, and moves the scaling."""
    if caller().role != "admin":
        raise NotPermitted("a router needs an admin token\n  weft auth token --role admin makes one")
