"""The pages' JSON: what each shows, drawn from the rows here or asked of the scheduler in the user's name."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, Protocol

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from weft.access.client.forecasts import what_if
from weft.access.wire import messages as m
from weft.errors import InputError, NotFound, NotPermitted, UnknownName
from weft.model.status import ENDED
from weft.scheduling.plugins.registry import registered_plugins
from weft.version import VERSION
from weft.views.answers.teams import TeamsView
from weft.web.access.sessions import Session, same_secret
from weft.web.api import logs
from weft.web.api.calls import Calls
from weft.web.api.params import Params
from weft.web.api.streams import Streams
from weft.web.live.board import TOPICS, Board, to_json
from weft.web.live.job_table import MAX_PER_PAGE, SORT_COLUMNS, STATES, JobSearch
from weft.web.live.samples import ServiceHistory

VERBS: Final = {"cancel": "cancel", "hold": "hold", "release": "release", "restart": "restart"}
MAX_PAGE: Final = 1_000_000
MAX_OFFSET: Final = 1 << 50
MAX_LINES: Final = 5000
MAX_ADDED_GPUS: Final = 1024
USAGE_DAYS: Final = 14
DAY_S: Final = 86400.0


class Access(Protocol):
    def session(self, request: Request) -> Session:
        """Return the session of a request. Raise if it has none."""

    def is_valid(self, session: Session) -> bool: ...


class Handlers:
    def __init__(
        self, access: Access, board: Board, streams: Streams, calls: Calls, scheduler: str, *, read_only: bool
    ) -> None:
        self._access, self._board, self._streams, self._calls = access, board, streams, calls
        self._scheduler, self._read_only = scheduler, read_only

    async def session(self, request: Request) -> Response:
        who = self._access.session(request)
        return answer(
            {
                "user": who.user, "role": who.role, "csrf": who.csrf, "read_only": self._read_only,
                "scheduler": self._scheduler, "version": VERSION,
            }
        )  # fmt: skip

    # ---- rows that are here

    async def overview(self, request: Request) -> Response:
        self._access.session(request)
        Params(request).done()
        board = self._board
        return answer(
            {
                **board.counts_message(), "utilisation": board.utilisation(), "gpu_rows": list(board.gpus.values()),
                "nodes": list(board.nodes.values()), "samples": board.samples.recent(board.now),
                "events": list(board.events), "weaves": board.weaves, "services": len(board.services),
            }
        )  # fmt: skip

    async def jobs(self, request: Request) -> Response:
        self._access.session(request)
        given = Params(request)
        sort = given.text("sort", "-id")
        wanted = JobSearch(
            given.choices("state", STATES), given.text("user"), given.text("group"), given.text("q").strip(),
            sort.removeprefix("-"), sort.startswith("-"), given.whole("page", 1, 1, MAX_PAGE),
            given.whole("per_page", 50, 1, MAX_PER_PAGE),
        )  # fmt: skip
        if wanted.sort not in SORT_COLUMNS:
            raise UnknownName("sort", sort[:40], SORT_COLUMNS)
        given.done()
        page = await self._calls.shared(wanted, lambda: self._calls.run(lambda: self._board.table.search(wanted)))
        head = to_json({"now": self._board.now, "total": page.total, "page": wanted.page, "per_page": wanted.per_page})
        body = head[:-1] + b',"jobs":[' + ",".join(page.rows).encode() + b"]}"
        return Response(body, media_type="application/json")

    async def filters(self, request: Request) -> Response:
        self._access.session(request)
        Params(request).done()
        table = self._board.table
        users, groups = await self._calls.shared("filters", lambda: self._calls.run(table.users_and_groups))
        return answer({"users": users, "groups": groups, "states": list(STATES)})

    async def services(self, request: Request) -> Response:
        self._access.session(request)
        Params(request).done()
        board = self._board
        history = {
            service.name: {"samples": list(found.samples), "scalings": list(found.scalings)}
            for service in board.services
            if (found := board.service_history.get(service.name, ServiceHistory()))
        }
        return answer({"now": board.now, "services": board.services, "history": history})

    async def users(self, request: Request) -> Response:
        self._access.session(request)
        Params(request).done()
        board = self._board
        rows = await self._calls.shared("users", lambda: self._calls.run(board.table.by_user))
        found: dict[str, dict[str, Any]] = {}
        for user, status, jobs, gpus in rows:
            entry = found.setdefault(user, _no_use())
            active = status in ("starting", "running", "stopping")
            entry["running" if active else "waiting"] += jobs
            entry["gpus" if active else "gpus_wanted"] += gpus
        for user in board.usage.users():
            entry = found.setdefault(user, _no_use())
            for name, days in (("day_s", 1), ("week_s", 7), ("month_s", 30)):
                entry[name] = round(board.usage.within(user, board.now, days * DAY_S), 1)
            entry["days"] = [round(each, 1) for each in board.usage.by_day(user, board.now, USAGE_DAYS)]
        users = [{"user": user, **entry} for user, entry in found.items()]
        return answer({"now": board.now, "gpus": len(board.gpus), "busy": board.busy(), "users": users})

    async def stream(self, request: Request) -> Response:
        who = self._access.session(request)
        given = Params(request)
        topics = given.choices("topics", TOPICS) or TOPICS
        given.done()
        self._streams.check()
        first = b"retry: 2000\nevent: counts\ndata: %s\n\n" % to_json(self._board.counts_message())
        frames = self._streams.frames(topics, first, lambda: self._access.is_valid(who))
        return StreamingResponse(frames, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    # ---- asked of the scheduler

    async def job(self, request: Request) -> Response:
        who, job = self._access.session(request), _job_id(request)
        Params(request).done()
        client = who.client

        def ask() -> bytes:
            found = client.job(job)
            explained = None if found.status in ENDED else client.explain(found.id)
            return to_json({"now": self._board.now, "job": found, "explain": explained})

        body = await self._calls.shared(("job", who.user, job), lambda: self._calls.run(ask))
        return Response(body, media_type="application/json")

    async def forecast(self, request: Request) -> Response:
        """Answer when a job starts and ends: apart from the job, because a new forecast takes seconds."""
        who, job = self._access.session(request), _job_id(request)
        Params(request).done()
        client = who.client

        def ask() -> bytes:
            return to_json({"forecast": client.explain(job, forecast=True).forecast})

        body = await self._calls.shared(("forecast", who.user, job), lambda: self._calls.run(ask))
        return Response(body, media_type="application/json")

    async def teams(self, request: Request) -> Response:
        who = self._access.session(request)
        Params(request).done()
        work = partial(who.client.list_all, TeamsView, "teams")
        found = await self._calls.shared(("teams", who.user), lambda: self._calls.run(work))
        return answer({"teams": found.teams})

    async def policies(self, request: Request) -> Response:
        self._access.session(request)
        Params(request).done()
        return answer({"policies": sorted(registered_plugins("weft.policies"))})

    async def what_if(self, request: Request) -> Response:
        """Answer what another policy, or a further node, would change for the waiting jobs. Nothing changes."""
        who, given = self._access.session(request), Params(request)
        policy, gpus = given.text("policy"), given.whole("add_node", 0, 0, MAX_ADDED_GPUS)
        given.done()
        if not policy and not gpus:
            raise InputError("nothing changes", hint="choose a policy, or add a node")
        wanted = m.WhatIfRequest(policy=policy, add_nodes=[gpus] if gpus else [])
        work = partial(what_if, who.client, wanted)
        return answer(await self._calls.shared(("what if", who.user, policy, gpus), lambda: self._calls.run(work)))

    async def log(self, request: Request) -> Response:
        who, given = self._access.session(request), Params(request)
        wanted = m.LogsRequest(
            job=_job_id(request), run=given.whole("run", 0, 0, 1 << 31), rank=given.whole("rank", 0, 0, 1 << 20),
            offset=given.whole("offset", 0, 0, MAX_OFFSET), lines=given.whole("lines", 0, 0, MAX_LINES),
        )  # fmt: skip
        until = given.whole("until", MAX_OFFSET, wanted.offset, MAX_OFFSET)
        given.done()
        return answer(await self._calls.run(lambda: logs.read_part(who.client, wanted, until)))

    async def log_search(self, request: Request) -> Response:
        who, given = self._access.session(request), Params(request)
        text = given.text("q")
        wanted = m.LogsRequest(
            job=_job_id(request), run=given.whole("run", 0, 0, 1 << 31), rank=given.whole("rank", 0, 0, 1 << 20)
        )
        given.done()
        if not text:
            raise InputError("nothing to search for", key="q", hint="give a text")
        return answer(await self._calls.run(lambda: logs.search(who.client, wanted, text)))

    async def change(self, request: Request) -> Response:
        """Cancel, hold, release or restart a job."""
        who, job, verb = self._access.session(request), _job_id(request), request.path_params["verb"]
        if not same_secret(who.csrf, request.headers.get("x-csrf-token")):
            raise NotPermitted("the request has no valid CSRF token\n  reload the page")
        if self._read_only:
            raise NotPermitted("this page is read-only\n  use the weft command")
        if verb not in VERBS:
            raise UnknownName("action", verb[:40], VERBS)
        Params(request).done()
        reply = await self._calls.run(lambda: who.client.change(VERBS[verb], [job]))
        self._calls.forget()
        notes = [f"job {each.name}: {each.value}" for each in reply.refused]
        if notes and not reply.ids:
            raise InputError(notes[0])
        return answer({"ids": list(reply.ids), "notes": notes})


def answer(value: Any, status: int = 200) -> Response:
    return Response(to_json(value), status, media_type="application/json")


def _job_id(request: Request) -> str:
    """Return the id of the path. Only ids: a name could refer to another job later, and links are to be stable."""
    job: str = request.path_params["job"]
    if not (1 <= len(job) <= 40 and job.isascii() and job.replace("_", "").replace("-", "").isalnum()):
        raise NotFound(f"no job {job[:40]!r}")
    return job


def _no_use() -> dict[str, Any]:
    return {
        "running": 0, "waiting": 0, "gpus": 0, "gpus_wanted": 0, "day_s": 0.0, "week_s": 0.0, "month_s": 0.0,
        "days": [0.0] * USAGE_DAYS,
    }  # fmt: skip
