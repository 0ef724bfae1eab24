"""The scheduler of a cluster as a process, started by `weft server`: it locks its folder, listens and serves."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grpc.aio import ServerInterceptor

from weft.endpoints.addresses import Address, is_loopback
from weft.endpoints.blob_folder import PRUNE_S
from weft.endpoints.paths import Paths
from weft.engines.background import TaskSet
from weft.errors import InputError
from weft.inputs.locks import locked
from weft.pools.provider import Site
from weft.server.api.blobs import Blobs
from weft.server.api.service import Service
from weft.server.api.terminals import Terminals
from weft.server.auth.interceptor import AuthGateway
from weft.server.backends.agents import agent_backend, check_settings
from weft.server.controller import Controller
from weft.server.maintenance import used_blobs
from weft.server.process import event_loop
from weft.server.process.log_file import Format, log_to
from weft.server.rpc.handlers import scheduler_handler
from weft.server.services.router_process import RouterProcess
from weft.server.settings import Settings, load, save

if TYPE_CHECKING:
    from weft.server.http.app import Web

DEFAULT_POLICY: Final = "balanced"
GRACE_S: Final = 1.0
WILDCARDS: Final = ("0.0.0.0", "::", "")
CLUSTER_CHARS: Final = 12
"""Characters of the journal's name in the names of allocations."""
log = logging.getLogger("weft.server")


@dataclass(frozen=True)
class Plan:
    """The folder, address and settings of a server."""

    folder: Path
    host: str
    port: int
    settings: Settings
    journal_url: str = ""
    """Empty: a journal in the folder."""
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    log_format: Format = "text"
    log_to_stderr: bool = False
    router: Address | None = None
    """Where the router of services listens; port 0: 8080 or a free one. None: no router is started."""
    on_ready: Callable[[ServerStatus], None] = field(default=lambda _: None)
    """Called when the server listens."""


@dataclass(frozen=True)
class ServerStatus:
    """A server that has started to listen."""

    pid: int
    port: int
    secure: bool
    metrics_port: int | None
    journal_url: str
    nodes: int
    jobs: int
    """Jobs that have not ended."""


def saved_settings(folder: Path) -> Settings:
    """Return the settings of the last server in this folder, or the defaults."""
    return load(folder) if (folder / "settings.json").exists() else Settings(policy=DEFAULT_POLICY, idle_s=0.0)


def run(plan: Plan) -> None:
    """Serve until SIGTERM or a shutdown request. Jobs keep running."""
    check_settings(plan.settings)
    os.umask(0o077)
    here = Paths(plan.folder, plan.folder / "run", plan.journal_url)
    here.make()
    with _exclusive(here.lock, plan), _exclusive(_journal_lock(here), plan):
        log_to(here.server_log, plan.log_format, stderr=plan.log_to_stderr)
        save(here.state, plan.settings)
        event_loop.run(_serve(here, plan))


def _journal_lock(here: Paths) -> Path:
    """Return the lock file of the journal: schedulers must not share one. A journal that is no file locks itself."""
    path = here.journal_url.rpartition("://")[2]
    return Path(f"{path}.lock") if os.path.isabs(path) else here.state / "journal.lock"


@contextmanager
def _exclusive(path: Path, plan: Plan) -> Iterator[None]:
    """Hold a lock file; raise if another scheduler holds it."""
    what = f"a scheduler uses {path.parent} already"
    hint = f"weft operate shutdown --scheduler localhost:{plan.port} ends it; or use another --port and --db"
    with locked(path, what, hint) as lock:
        yield
        os.truncate(lock, 0)


async def _serve(here: Paths, plan: Plan) -> None:
    controller = Controller(here, plan.settings, agent_backend)
    endpoint = controller.ports.endpoint
    gateway = AuthGateway(plan.folder, shares=controller.shares)
    _check_router(plan, gateway)
    web, interceptors = _build_web(controller, plan, gateway) if plan.metrics_port is not None else (None, ())
    server = gateway.server(*interceptors)
    service, blobs = Service(controller), Blobs(here.blobs)
    server.add_generic_rpc_handlers(
        (scheduler_handler(service.methods), blobs.handler(), Terminals(controller).handler())
    )
    if endpoint is not None:
        server.add_generic_rpc_handlers((endpoint.handler(),))
    try:
        port = gateway.listen(server, plan.host, plan.port)
        metrics_port = await web.open(plan.metrics_port) if web and plan.metrics_port is not None else None
        await controller.open()
    except BaseException:
        with suppress(Exception):
            await gateway.close()
            controller.journal.close()
        raise
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, controller.stop)
    gateway.open()
    await server.start()
    controller.pools.open(
        _site(plan, port, controller.journal.name), gateway.tokens, gateway.material.ca if gateway.material else None
    )
    state = controller.scheduler.state
    waiting = len(state.jobs) - len(state.ended)
    status = ServerStatus(
        os.getpid(), port, gateway.material is not None, metrics_port, here.journal_url,
        sum(host.alive for host in state.resources.nodes), waiting,
    )  # fmt: skip
    router = _router(plan, here, port)
    if router is not None:
        controller.services.on_first_service = router.ensure
    log.info("serving at %s:%d with %s, pid %d", plan.host, port, plan.settings.policy, os.getpid())
    plan.on_ready(status)
    if web:
        web.ready = True
    tasks = TaskSet()
    tasks.every(PRUNE_S, lambda: _prune_blobs(controller, blobs), "removing unused blobs")
    await controller.until_done(lambda: service.last_call_at)
    if web:
        web.ready = False
    await tasks.close()
    if endpoint is not None:
        endpoint.disconnect()
    await server.stop(grace=GRACE_S)
    if web:
        await web.close()
    await gateway.close()
    await controller.close()
    if router is not None and not controller.scheduler.state.services.by_name:
        router.stop()
    log.info("done")


def _check_router(plan: Plan, gateway: AuthGateway) -> None:
    if plan.router is not None and gateway.material is None and not is_loopback(plan.router.host):
        raise InputError(
            f"--router: {plan.router.host} can be reached from other machines, and there is no certificate for TLS",
            hint=f"weft auth init --port {plan.port} --host NAME makes one; or --router 127.0.0.1",
        )


def _router(plan: Plan, here: Paths, port: int) -> RouterProcess | None:
    """Return the router that starts with the first service: with TLS and tokens where other machines reach it."""
    if plan.router is None:
        return None
    host = "localhost" if is_loopback(plan.host) or plan.host in WILDCARDS else plan.host
    words = [sys.executable, "-m", "weft", "router", "--scheduler", str(Address(host, port))]
    words += ["--listen", plan.router.host, "--server-port", str(plan.port)]
    return RouterProcess(
        here.state, here.runtime, lambda number: (*words, "--supervised", f"{number}:{here.runtime}"),
        host=plan.router.host, port=plan.router.port, env={**os.environ, "WEFT_CREDENTIALS": str(plan.folder)},
    )  # fmt: skip


def _site(plan: Plan, port: int, journal_name: str) -> Site:
    """Return what the workers of pools must know to find this server."""
    host = platform.node() if plan.host in WILDCARDS else plan.host
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Site(journal_name[:CLUSTER_CHARS], where, is_loopback(host), (sys.executable, "-m", "weft"))


def _build_web(controller: Controller, plan: Plan, gateway: AuthGateway) -> tuple[Web, tuple[ServerInterceptor, ...]]:
    """Build the HTTP side. Imported only if a port for it is set: it costs 0.1 s and 10 MB."""
    from weft.server.http.app import Web, auth_for
    from weft.server.http.prometheus import Metrics

    auth = auth_for(plan.metrics_host, plan.port, plan.folder, gateway.tokens)
    metrics = Metrics(controller)
    controller.loop.on_step, controller.loop.on_facts = metrics.record_step, metrics.record_facts
    return Web(controller, metrics, host=plan.metrics_host, auth=auth), (metrics.interceptor(),)


async def _prune_blobs(controller: Controller, blobs: Blobs) -> None:
    """Remove the blobs that no job needs."""
    await asyncio.to_thread(blobs.prune, used_blobs(controller.scheduler.state))
