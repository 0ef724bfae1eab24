"""The application: routes, errors as JSON, and the files of the page."""

from __future__ import annotations

import hashlib
import logging
from importlib.resources import files
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from weft.access.http.access import HostCheck
from weft.errors import InputError, NotAuthenticated, NotFound, NotPermitted, Refused, Unreachable, WeftError
from weft.web.access.guards import OriginCheck, SecurityHeaders
from weft.web.access.login import Login
from weft.web.api.handlers import Handlers, answer

PAGES: Final = ("/", "/jobs", "/jobs/{job}", "/nodes", "/services", "/services/{name}", "/users", "/policies")
"""Addresses of the page. All of them get the same file, which draws what the address says."""
TYPES: Final = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}  # fmt: skip
STATUSES: Final[dict[type[WeftError], int]] = {
    InputError: 400, NotFound: 404, NotAuthenticated: 401, NotPermitted: 403, Refused: 409, Unreachable: 503,
}  # fmt: skip
log = logging.getLogger(__name__)


class StaticFile:
    """A file of the page, in memory."""

    def __init__(self, name: str, body: bytes) -> None:
        self.body, self.tag = body, f'"{hashlib.sha256(body).hexdigest()[:24]}"'
        self.type = TYPES["." + name.rpartition(".")[2]]

    def answer(self, request: Request) -> Response:
        headers = {"ETag": self.tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        return Response(self.body, headers={**headers, "Content-Type": self.type})


def static_files() -> dict[str, StaticFile]:
    """Return the files of the page by their paths."""
    found: dict[str, StaticFile] = {}
    root = files("weft.web") / "static"
    for folder, prefix in ((root, ""), (root / "pages", "pages/")):
        for entry in folder.iterdir():
            if entry.is_file() and "." + entry.name.rpartition(".")[2] in TYPES:
                found[prefix + entry.name] = StaticFile(entry.name, entry.read_bytes())
    return found


class Pages:
    """The page itself, and the page to log in."""

    def __init__(self, login: Login) -> None:
        self._login, self._files = login, static_files()

    async def page(self, request: Request) -> Response:
        try:
            self._login.session(request)
        except NotAuthenticated:
            return RedirectResponse("/login", 303)
        return self._files["index.html"].answer(request)

    async def login(self, request: Request) -> Response:
        if request.query_params.get("token"):
            return await self._login.by_link(request)
        name = "login-token.html" if self._login.with_tokens else "login-link.html"
        return self._files[name].answer(request)

    async def icon(self, request: Request) -> Response:
        """Browsers ask for it on their own where a page names no icon, such as on an answer in JSON."""
        return self._files["icon.svg"].answer(request)

    async def file(self, request: Request) -> Response:
        found = self._files.get(request.path_params["path"])
        if found is None or found.type == TYPES[".html"]:
            raise HTTPException(404)
        return found.answer(request)


def build_app(login: Login, handlers: Handlers, host: str, names: tuple[str, ...]) -> ASGIApp:
    """Return the application behind its checks."""
    pages = Pages(login)
    api = "/api/v1"
    routes = [
        *(Route(path, pages.page) for path in PAGES),
        Route("/static/{path:path}", pages.file),
        Route("/favicon.ico", pages.icon),
        Route("/login", pages.login),
        Route("/login", login.by_token, methods=["POST"]),
        Route("/logout", login.leave, methods=["POST"]),
        Route("/links", login.new_link, methods=["POST"]),
        Route("/healthz", _alive),
        Route(f"{api}/session", handlers.session),
        Route(f"{api}/overview", handlers.overview),
        Route(f"{api}/jobs", handlers.jobs),
        Route(f"{api}/filters", handlers.filters),
        Route(f"{api}/jobs/{{job}}", handlers.job),
        Route(f"{api}/jobs/{{job}}/forecast", handlers.forecast),
        Route(f"{api}/jobs/{{job}}/log", handlers.log),
        Route(f"{api}/jobs/{{job}}/log/search", handlers.log_search),
        Route(f"{api}/jobs/{{job}}/{{verb}}", handlers.change, methods=["POST"]),
        Route(f"{api}/services", handlers.services),
        Route(f"{api}/users", handlers.users),
        Route(f"{api}/teams", handlers.teams),
        Route(f"{api}/policies", handlers.policies),
        Route(f"{api}/whatif", handlers.what_if),
        Route(f"{api}/stream", handlers.stream),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={WeftError: _refuse, HTTPException: _http_error, Exception: _fail},
    )
    return SecurityHeaders(HostCheck(OriginCheck(app), host, names))


async def _alive(_: Request) -> Response:
    return PlainTextResponse("alive\n")


async def _refuse(_: Request, error: Any) -> Response:
    """Answer with what is wrong and what to do."""
    what, _newline, hint = str(error).partition("\n")
    status = next((code for kind, code in STATUSES.items() if type(error) is kind), None)
    status = status or next((code for kind, code in STATUSES.items() if isinstance(error, kind)), 502)
    return answer({"error": {"what": what, "hint": hint.strip()}}, status)


async def _http_error(_: Request, error: Any) -> Response:
    texts = {404: "there is no such page", 405: "this page does not take that method"}
    what = texts.get(error.status_code, error.detail)
    return answer({"error": {"what": what, "hint": ""}}, error.status_code)


async def _fail(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return answer({"error": {"what": "the page failed; its log says more", "hint": ""}}, 500)
