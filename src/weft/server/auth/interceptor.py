"""The gateway of a scheduler that listens on a port: who comes in, and what for.

Every call shows a token. Which one it is decides who asks (`callers.caller`) and which methods are open. What is
refused is refused before a message is read, with words that say what to do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from weft.endpoints.addresses import is_loopback
from weft.endpoints.private_files import write_private
from weft.engines.background import TaskSet
from weft.errors import InputError, NotPermitted, WeftError
from weft.server.auth import tls
from weft.server.auth.identity import Caller, Role, caller, let_in, owner
from weft.server.auth.rate_limit import FailureLimiter, host_of
from weft.server.auth.token_admin import manage
from weft.server.auth.tokens import Tokens
from weft.server.rpc.errors import abort
from weft.server.rpc.handlers import handler
from weft.server.rpc.protocol_version import check_protocol
from weft.wire import messages as m
from weft.wire.convert import pairs
from weft.wire.service import PREFIX, SERVER
from weft.wire.views.base import encode

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
"""A peer that dawdles or has vanished holds up nobody, and is let go."""
LOOK_S: Final = 2.0
"""How often it is looked whether those who are inside may stay."""
CHANGE: Final[frozenset[Role]] = frozenset({"admin", "user"})
SERVE: Final[frozenset[Role]] = frozenset({"admin", "worker"})
ADMIN: Final[frozenset[Role]] = frozenset({"admin"})
OPEN: Final = f"/{PREFIX}Auth/Join"
MAY: Final[dict[str, frozenset[Role]]] = {
    f"/{PREFIX}Agents/Attach": SERVE,
    f"/{PREFIX}Blobs/Get": SERVE,
    f"/{PREFIX}Blobs/Put": CHANGE,
    f"/{PREFIX}Auth/Manage": ADMIN,
}
"""Who may call what, where it is not everybody who may submit."""
HINTS: Final[dict[Role, str]] = {
    "admin": "it is for workers alone",
    "user": "ask an admin to do it, or for a token of another role: weft auth token --role admin",
    "worker": "it is for weft worker alone; ask for a token of your own: weft auth token --user NAME",
}
log = logging.getLogger(__name__)


class AuthGateway:
    """Of the scheduler that keeps its things in this folder."""

    def __init__(self, folder: Path, tokens: Tokens | None = None) -> None:
        self.folder, self.tokens = folder, tokens or Tokens(folder)
        self.material = tls.load(folder)
        self._limiter = FailureLimiter()
        self._inside: dict[asyncio.Task[Any], str] = {}
        self._tasks = TaskSet()

    # ---- opening and closing

    def server(self, *inside: grpc.aio.ServerInterceptor) -> grpc.aio.Server:
        """One that nobody gets into but through this gateway; what is `inside` sees those who did."""
        server = grpc.aio.server(options=SERVER_OPTIONS, interceptors=(Interceptor(self), *inside))
        server.add_generic_rpc_handlers((handler(self._methods().__getitem__, "Auth"),))
        return server

    def listen(self, server: grpc.aio.Server, host: str, port: int) -> int:
        """At this address: with TLS where there is a certificate, without it only where nothing leaves the machine."""
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if self.material is None and not is_loopback(host):
            raise InputError(
                f"{host} can be reached from other machines, and there is no certificate for TLS",
                hint=f"weft auth init --port {port} --host NAME makes one; or listen on 127.0.0.1",
            )
        self._publish()  # before anybody can come
        try:
            bound = (
                server.add_insecure_port(where)
                if self.material is None
                else server.add_secure_port(where, self.material.credentials())
            )
        except RuntimeError:
            raise WeftError(f"{where} cannot be listened on\n  is it taken, or not of this machine?") from None
        return bound

    def _publish(self) -> None:
        """For clients of the same user on this machine: a token, and whom to trust."""
        self.tokens.own(self.folder / "token", owner().user)
        if self.material is None:
            (self.folder / "ca.pem").unlink(missing_ok=True)
        else:
            write_private(self.folder / "ca.pem", self.material.ca)

    def open(self) -> None:
        """From now on, those whose token is revoked are shown out."""
        self._tasks.every(LOOK_S, self.show_out, "checking tokens")

    async def close(self) -> None:
        await self._tasks.close()
        self.tokens.close()

    def show_out(self) -> None:
        """Ends the calls of those whose token no longer stands."""
        try:
            gone = {key for key in set(self._inside.values()) if not self.tokens.stands(key)}
        except WeftError as error:
            log.warning("%s", error)
            return
        for task, key in list(self._inside.items()):
            if key in gone:
                log.info("token %s no longer stands: its calls are ended", key)
                task.cancel()

    # ---- coming in

    def admit(self, method: str, metadata: Mapping[str, str]) -> Caller | None:
        """Who it is; None: nobody yet, for the one method that is open to all."""
        check_protocol(metadata)
        if method == OPEN:
            return None
        scheme, _, token = metadata.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise TokenRejected(NotPermitted("no token was shown\n  weft auth join HOST:PORT TOKEN gets one"))
        try:
            who = self.tokens.verify(token.strip())
        except NotPermitted as error:
            raise TokenRejected(error) from None
        if who.role not in MAY.get(method, CHANGE):
            raise NotPermitted(
                f"a token of role {who.role} does not open {method.rpartition('.')[2]}\n  {HINTS[who.role]}"
            )
        return who

    def entered(self, who: Caller) -> None:
        """Remembers the call for as long as it lasts."""
        task = asyncio.current_task()
        if task is not None:
            self._inside[task] = who.key
            task.add_done_callback(lambda done: self._inside.pop(done, None))

    def refusal(self, error: WeftError, code: grpc.StatusCode | None) -> grpc.RpcMethodHandler[Any, Any]:
        """Answers without reading what was sent: a stream to gRPC, whatever the method is."""

        async def answer(_requests: Any, context: Any) -> None:
            if code is not None:
                await self._check(context, error)
            await abort(context, error, code)

        return grpc.stream_stream_rpc_method_handler(answer)

    async def _check(self, context: Any, error: WeftError | None = None) -> None:
        """Counts what went wrong; whoever was wrong too often is told no more than that."""
        peer = host_of(context.peer())
        if wait_s := self._limiter.blocked_s(peer):
            too_many = NotPermitted(f"too many wrong tokens from {peer}\n  try again in {wait_s:.0f} s")
            await abort(context, too_many, grpc.StatusCode.RESOURCE_EXHAUSTED)
        if error is not None:
            self._limiter.count(peer)
            log.warning("refused %s: %s", peer, str(error).partition("\n")[0])

    # ---- its own methods

    def _methods(self) -> dict[str, Callable[..., Any]]:
        return {"Join": self._join, "Manage": self._manage}

    async def _join(self, request: m.JoinRequest, context: Any) -> m.JoinReply:
        await self._check(context)
        try:
            token, who = self.tokens.join(request.token, request.node)
        except WeftError as error:
            if isinstance(error, NotPermitted):
                await self._check(context, error)
            await abort(context, error)
        log.info("%s joined as %s %s", host_of(context.peer()), who.role, who.node or who.user)
        return m.JoinReply(token=token, role=who.role, user=who.user)

    async def _manage(self, request: m.OperateRequest, context: Any) -> m.JsonReply:
        options = dict(pairs(request.options))
        try:
            found = manage(self.tokens, self.material, caller().user, request.verb, options)
        except WeftError as error:
            await abort(context, error)
        log.info("%s: %s", caller().user, request.verb)
        if request.verb == "revoke":
            self.show_out()
        return m.JsonReply(json=encode(found))


class TokenRejected(Exception):
    """No or a wrong token."""

    def __init__(self, error: NotPermitted) -> None:
        super().__init__(str(error))
        self.error = error


class Interceptor(grpc.aio.ServerInterceptor):
    def __init__(self, gateway: AuthGateway) -> None:
        self._gateway = gateway

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        metadata = {key: value for key, value in details.invocation_metadata or () if isinstance(value, str)}
        try:
            who = self._gateway.admit(details.method, metadata)
        except TokenRejected as turned:
            return self._gateway.refusal(turned.error, grpc.StatusCode.UNAUTHENTICATED)
        except WeftError as error:
            return self._gateway.refusal(error, None)
        if who is not None:
            self._gateway.entered(who)
            let_in(who)
        return await continuation(details)
