"""Authentication and authorization of all calls on a port.

Every call carries a token. The token decides who the caller is (`identity.caller`) and which methods are allowed. A
call is refused before a message is read, with a hint on what to do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
import grpc.aio

from weft.access.auth import tls
from weft.access.auth.identity import Caller, Role, caller, owner, set_caller
from weft.access.auth.rate_limit import FailureLimiter, host_of
from weft.access.auth.token_admin import manage
from weft.access.auth.tokens import Tokens
from weft.access.endpoints.addresses import is_loopback
from weft.access.endpoints.open_files import allow_open_files
from weft.access.endpoints.private_files import write_private
from weft.access.wire import messages as m
from weft.access.wire.convert import pairs
from weft.access.wire.service import PREFIX, SERVER, SERVICES
from weft.errors import InputError, NotAuthenticated, NotPermitted, WeftError
from weft.node.engine.background import TaskSet
from weft.server.process.cpu_shares import MAX_POOL_STREAMS, MAX_STREAMS, CpuShares, set_payer
from weft.server.rpc.cut_off import cut_off
from weft.server.rpc.errors import abort
from weft.server.rpc.handlers import handler
from weft.server.rpc.joins import Joins
from weft.server.rpc.protocol_version import check_protocol
from weft.views.answers.base import encode

SERVER_OPTIONS: Final = (
    *SERVER,
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.max_concurrent_streams", 1024),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
)
"""Disconnect peers that are slow to connect or have vanished."""
IDLE_MS: Final = 60_000
"""The server closes a connection without calls after this time. Clients open another one for their next call."""
MAX_CONNECTIONS: Final = 8000
SPARE_FILES: Final = 5000
"""Open files apart from these connections: pages, journals, logs."""
TOKEN_CHECK_S: Final = 2.0
"""The seconds between two checks of the tokens of open calls."""
MAY_CHANGE: Final[frozenset[Role]] = frozenset({"admin", "user"})
MAY_SERVE: Final[frozenset[Role]] = frozenset({"admin", "worker"})
ADMIN_ONLY: Final[frozenset[Role]] = frozenset({"admin"})
JOIN_METHOD: Final = f"/{PREFIX}Auth/Join"
ATTACH_METHOD: Final = f"/{PREFIX}Agents/Attach"
ROLES_BY_METHOD: Final[dict[str, frozenset[Role]]] = {
    ATTACH_METHOD: MAY_SERVE,
    f"/{PREFIX}Blobs/Get": MAY_SERVE,
    f"/{PREFIX}Blobs/Put": MAY_CHANGE,
    f"/{PREFIX}Terminals/ServeTerminal": MAY_SERVE,
    f"/{PREFIX}Auth/Manage": ADMIN_ONLY,
}
"""The roles that may call a method. All others are open to MAY_CHANGE."""
UNARY_METHODS: Final = frozenset(
    f"/{PREFIX}{service}/{name}"
    for service, methods in SERVICES.items()
    for name, method in methods.items()
    if method.kind == "unary"
)
HINTS: Final[dict[Role, str]] = {
    "admin": "it is for workers alone",
    "user": "ask an admin to do it, or for a token of another role: weft auth token --role admin",
    "worker": "it is for weft worker alone; ask for your own token: weft auth token --user NAME",
}
WORKER_HINT: Final = "a worker needs a token of its kind; ask an admin for one: weft auth token --role worker"
T = TypeVar("T")
log = logging.getLogger(__name__)


class AuthGateway:
    """Authenticates the calls to one server. `folder` holds its tokens and certificates. `refusal` returns the error
    for all calls while the server does not lead."""

    def __init__(
        self,
        folder: Path,
        tokens: Tokens | None = None,
        shares: CpuShares | None = None,
        refusal: Callable[[], WeftError | None] = lambda: None,
    ) -> None:
        self.folder, self.tokens = folder, tokens or Tokens(folder)
        self._refusal = refusal
        self._shares = shares or CpuShares(0.0)
        self.material = tls.load(folder)
        self._limiter, self.joins = FailureLimiter(), Joins()
        self._calls: dict[asyncio.Task[Any], str] = {}
        self._tasks = TaskSet()

    # ---- opening and closing

    def server(self, *inside: grpc.aio.ServerInterceptor) -> grpc.aio.Server:
        """Return a server whose calls all pass through this gateway. Interceptors `inside` see the accepted ones."""
        most = min(MAX_CONNECTIONS, allow_open_files(MAX_CONNECTIONS + SPARE_FILES) // 2)
        limits = (("grpc.max_connection_idle_ms", IDLE_MS), ("grpc.max_allowed_incoming_connections", most))
        server = grpc.aio.server(options=(*SERVER_OPTIONS, *limits), interceptors=(Interceptor(self), *inside))
        server.add_generic_rpc_handlers((handler(self._methods().__getitem__, "Auth"),))
        return server

    def listen(self, server: grpc.aio.Server, host: str, port: int) -> int:
        """Listen at this address, and return the port. Without a certificate only loopback addresses are allowed."""
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if self.material is None and not is_loopback(host):
            raise InputError(
                f"{host} can be reached from other machines, and there is no certificate for TLS",
                hint=f"weft auth init --port {port} --host NAME makes one; or listen on 127.0.0.1",
            )
        self._publish()  # before the first call
        try:
            bound = (
                server.add_insecure_port(where)
                if self.material is None
                else server.add_secure_port(where, self.material.credentials())
            )
        except RuntimeError:
            raise WeftError(
                f"cannot listen on {where}\n  check that the port is free and the address is one of this machine"
            ) from None
        return bound

    def _publish(self) -> None:
        """Write a token and the CA certificate for clients of the same user on this machine."""
        self.tokens.write_owner_token(self.folder / "token", owner().user)
        if self.material is None:
            (self.folder / "ca.pem").unlink(missing_ok=True)
        else:
            write_private(self.folder / "ca.pem", self.material.ca)

    def open(self) -> None:
        """Start ending the calls of revoked tokens."""
        self._tasks.every(TOKEN_CHECK_S, self._check_tokens, "checking tokens")

    async def close(self) -> None:
        await self._tasks.close()
        self.tokens.close()

    async def _check_tokens(self) -> None:
        await self._off_loop(self.tokens.refresh)
        self.end_revoked_calls()

    async def _off_loop(self, work: Callable[..., T], *args: Any) -> T:
        """Call a method of the tokens, in a thread if it waits for a network."""
        return await asyncio.to_thread(work, *args) if self.tokens.is_remote else work(*args)

    def end_revoked_calls(self) -> None:
        """End the calls whose token is not valid any more."""
        try:
            invalid = {key for key in set(self._calls.values()) if not self.tokens.is_valid(key)}
        except WeftError as error:
            log.warning("%s", error)
            return
        for task, key in list(self._calls.items()):
            if key in invalid:
                log.info("token %s is not valid any more: its calls are ended", key)
                cut_off(task, NotAuthenticated("the token of this call is not valid any more"))

    # ---- calls

    def authenticate(self, method: str, metadata: Mapping[str, str]) -> Caller | None:
        """Return the caller; None for the one method that needs no token. Raise if the call is not allowed."""
        if (refusal := self._refusal()) is not None:
            raise refusal
        check_protocol(metadata)
        if method == JOIN_METHOD:
            return None
        scheme, _, token = metadata.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise NotAuthenticated("the call has no token\n  weft auth join HOST:PORT TOKEN gets one")
        try:
            who = self.tokens.verify(token.strip())
        except NotPermitted as error:
            raise NotAuthenticated(str(error)) from None
        if who.role not in ROLES_BY_METHOD.get(method, MAY_CHANGE):
            hint = WORKER_HINT if who.role == "user" and method == ATTACH_METHOD else HINTS[who.role]
            raise NotPermitted(f"a token of role {who.role} may not call {method.rpartition('.')[2]}\n  {hint}")
        return who

    async def find_caller(self, method: str, metadata: Mapping[str, str]) -> Caller | None:
        """Authenticate a call. If its token is not known, look again: another process may have made it just now."""
        try:
            return self.authenticate(method, metadata)
        except NotAuthenticated:
            if not self.tokens.is_remote:
                raise
        await asyncio.to_thread(self.tokens.refresh)
        return self.authenticate(method, metadata)

    def track(self, who: Caller) -> None:
        """Remember the call while it lasts, so that it can be ended."""
        task = asyncio.current_task()
        if task is not None:
            self._calls[task] = who.key
            task.add_done_callback(lambda done: self._calls.pop(done, None))

    async def await_turn(self, method: str, who: Caller) -> None:
        """Wait until the user's share of the server's CPU allows another call. Workers do not wait. Raise if the
        caller has too many streams."""
        task = asyncio.current_task()
        if who.role == "worker":
            limit = MAX_POOL_STREAMS if who.node.endswith("-*") else MAX_STREAMS
            if task is not None:
                self._shares.account(f"token {who.key}").begin_stream(task, limit)
            return
        account = self._shares.account(who.user)
        set_payer(account)
        if task is not None and method not in UNARY_METHODS and ROLES_BY_METHOD.get(method) is not MAY_SERVE:
            account.begin_stream(task)
        await account.enter()
        if method in UNARY_METHODS and task is not None:
            task.add_done_callback(lambda _: account.leave())
        else:
            account.leave()  # a stream may last for ever

    def refusal(self, error: WeftError) -> grpc.RpcMethodHandler[Any, Any]:
        """Return a handler that refuses without reading the request. To gRPC it is a stream, whatever the method is."""

        async def answer(_requests: Any, context: Any) -> None:
            if isinstance(error, NotAuthenticated):
                await self._check_failures(context, error)
            await abort(context, error)

        return grpc.stream_stream_rpc_method_handler(answer)

    async def _check_failures(self, context: Any, error: WeftError | None = None) -> None:
        """Count a failure. Refuse a host with too many of them without saying more."""
        peer = host_of(context.peer())
        if wait_s := self._limiter.blocked_s(peer):
            too_many = NotPermitted(f"too many wrong tokens from {peer}\n  try again in {wait_s:.0f} s")
            await abort(context, too_many, grpc.StatusCode.RESOURCE_EXHAUSTED)
        if error is not None:
            self._limiter.count(peer)
            log.warning("refused %s: %s", peer, str(error).partition("\n")[0])

    # ---- methods of the Auth service

    def _methods(self) -> dict[str, Callable[..., Any]]:
        return {"Join": self._join, "Manage": self._manage}

    async def _join(self, request: m.JoinRequest, context: Any) -> m.JoinReply:
        await self._check_failures(context)
        try:
            if self.tokens.is_remote:  # another process may have made it just now
                await asyncio.to_thread(self.tokens.refresh)
            token, who = await self._off_loop(self.tokens.join, request.token, request.node)
        except WeftError as error:
            if isinstance(error, NotPermitted):
                await self._check_failures(context, error)
            await abort(context, error)
        log.info("%s joined as %s %s", host_of(context.peer()), who.role, who.node or who.user)
        return m.JoinReply(token=token, role=who.role, user=who.user)

    async def _manage(self, request: m.OperateRequest, context: Any) -> m.JsonReply:
        options = dict(pairs(request.options))
        try:
            user = caller().user
            found = await self._off_loop(manage, self.tokens, self.material, user, request.verb, options)
        except WeftError as error:
            await abort(context, error)
        log.info("%s: %s", caller().user, request.verb)
        if request.verb == "revoke":
            self.end_revoked_calls()
        return m.JsonReply(json=encode(found))


class Interceptor(grpc.aio.ServerInterceptor):
    """Authenticates each call before its handler runs."""

    def __init__(self, gateway: AuthGateway) -> None:
        self._gateway = gateway

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        metadata = {key: value for key, value in details.invocation_metadata or () if isinstance(value, str)}
        try:
            who = await self._gateway.find_caller(details.method, metadata)
            if who is None:
                await self._gateway.joins.enter()
            else:
                self._gateway.track(who)
                set_caller(who)
                await self._gateway.await_turn(details.method, who)
        except WeftError as error:
            return self._gateway.refusal(error)
        return await continuation(details)
