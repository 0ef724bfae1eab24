"""The scheduler of a cluster as a process, started by `weft server`: it locks its folder, listens and serves."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grpc.aio import Server, ServerInterceptor

from weft.access.auth.tokens import DATABASE_FILE
from weft.access.endpoints.addresses import Address, is_loopback
from weft.access.endpoints.blob_folder import PRUNE_S
from weft.access.endpoints.paths import Paths
from weft.access.server.plan import WILDCARDS, Plan, ServerStatus, own_address
from weft.access.server.settings import save, saved_settings
from weft.errors import InputError, JournalDamaged
from weft.history.journal import is_postgres, store_at
from weft.history.journal.marker import Marker, remedy
from weft.inputs.locks import locked
from weft.model import Paused
from weft.node.bringup.router_process import RouterProcess
from weft.node.engine.background import TaskSet
from weft.server.api.blobs import Blobs
from weft.server.api.service import Service
from weft.server.api.terminals import Terminals
from weft.server.backends.agents import agent_backend, check_settings
from weft.server.controller import Controller
from weft.server.http.page_process import CHECK_S, PageProcess
from weft.server.maintenance import used_blobs
from weft.server.pause_reasons import RECOVERING, RECOVERING_DETAIL
from weft.server.pools.provider import Site
from weft.server.process import event_loop
from weft.server.process.log_file import log_to
from weft.server.rpc.handlers import scheduler_handler
from weft.server.rpc.interceptor import AuthGateway

if TYPE_CHECKING:
    from weft.server.http.app import Web
    from weft.server.leadership.turns import Turn

GRACE_S: Final = 1.0
CLUSTER_CHARS: Final = 12
"""Characters of the journal's name in the names of allocations."""
log = logging.getLogger("weft.server")


def run(plan: Plan) -> None:
    """Serve until SIGTERM or a shutdown request. Jobs keep running."""
    check_settings(plan.settings)
    os.umask(0o077)
    here = Paths(plan.folder, plan.folder / "run", plan.journal_url, plan.blobs)
    here.make()
    if is_postgres(here.journal_url):
        _run_shared(here, plan)
        return
    (here.state / DATABASE_FILE).unlink(missing_ok=True)  # of a server that shared one
    with _exclusive(here.lock, plan), _exclusive(_journal_lock(here), plan):
        log_to(here.server_log, plan.log_format, stderr=plan.log_to_stderr)
        with _remedied(here):
            if plan.restore:
                _restore(here, plan)
            elif loss := Marker(here.state).loss(store_at(here.journal_url), here.jobs):
                raise JournalDamaged(loss)
            save(here.state, plan.settings)
            event_loop.run(serve(here, plan))


@contextmanager
def _remedied(here: Paths) -> Iterator[None]:
    """Say what to do about a damaged journal."""
    try:
        yield
    except JournalDamaged as error:
        log.error("%s", error)
        raise JournalDamaged(f"{error}\n  {remedy(store_at(here.journal_url), 'weft server --restore')}") from None


def _restore(here: Paths, plan: Plan) -> None:
    """Restore the journal. If facts are missing, start nothing until workers have said which runs they have."""
    paused = Paused(time.time(), RECOVERING, RECOVERING_DETAIL)
    restored = Marker(here.state).restore(store_at(here.journal_url), paused)
    for line in restored.describe():
        log.warning("%s", line)
        plan.on_message(line)


def _run_shared(here: Paths, plan: Plan) -> None:
    """Serve on a database that other servers may share: one of them leads."""
    from weft.server.leadership.turns import SharedServer

    with _exclusive(here.lock, plan):
        log_to(here.server_log, plan.log_format, stderr=plan.log_to_stderr)
        if plan.restore:
            _restore(here, plan)
        address = own_address(plan, plan.port)
        with _remedied(here):
            event_loop.run(SharedServer(here, plan, address, serve, lambda: saved_settings(here.state)).run())


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


async def serve(here: Paths, plan: Plan, turn: Turn | None = None) -> None:
    """Serve until the end. A leader of several servers serves in turns, each until it is deposed or stopped."""
    settings, led, tokens = (turn.settings, turn.parts, turn.tokens) if turn else (plan.settings, None, None)
    controller = Controller(here, settings, agent_backend, led=led)
    endpoint = controller.ports.endpoint
    refusal = turn.refusal if turn else lambda: None
    gateway = AuthGateway(plan.folder, tokens, controller.shares, refusal)
    _check_router(plan, gateway)
    web, interceptors = _build_web(controller, plan, gateway) if plan.metrics_port is not None else (None, ())
    server, page = gateway.server(*interceptors), PageProcess(plan.folder, plan.page)
    service, blobs = Service(controller), Blobs(here.blobs, shared=led.blobs if led else None)
    _add_handlers(server, controller, service, blobs)
    try:
        page.bind(plan.port)
        port = gateway.listen(server, plan.host, plan.port)
        metrics_port = await web.open(plan.metrics_port) if web and plan.metrics_port is not None else None
        await controller.open()
    except BaseException:
        with suppress(Exception):
            await gateway.close()
            controller.journal.close()
        raise
    if turn is None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, controller.stop)
    else:
        turn.on_end(controller.stop)
    gateway.open()
    await server.start()
    controller.pools.open(
        _site(plan, port, controller.journal.name), gateway.tokens, gateway.material.ca if gateway.material else None
    )
    page.start(_own_address(plan, port))
    router = _router(plan, here, port)
    if router is not None:
        router.adopt()
        controller.services.on_first_service, controller.services.check_router = router.ensure, router.check
    log.info("serving at %s:%d with %s, pid %d", plan.host, port, settings.policy, os.getpid())
    plan.on_ready(_status(controller, gateway, port, metrics_port, page.port))
    if web:
        web.ready = True
    tasks = TaskSet()
    tasks.every(PRUNE_S, lambda: _prune_blobs(controller, blobs), "removing unused blobs")
    tasks.every(CHECK_S, page.ensure, "checking the web page")
    await controller.until_done(lambda: service.last_call_at)
    if web:
        web.ready = False
    await tasks.close()
    page.stop()
    if endpoint is not None:
        endpoint.disconnect()
    await server.stop(grace=GRACE_S if turn is None or turn.refusal() is None else None)
    if web:
        await web.close()
    await gateway.close()
    await controller.close()
    if router is not None and not controller.scheduler.state.services.by_name:
        router.stop()
    log.info("done")


def _add_handlers(server: Server, controller: Controller, service: Service, blobs: Blobs) -> None:
    terminals, endpoint = Terminals(controller), controller.ports.endpoint
    server.add_generic_rpc_handlers((scheduler_handler(service.methods), blobs.handler(), terminals.handler()))
    if endpoint is not None:
        server.add_generic_rpc_handlers((endpoint.handler(),))


def _status(
    controller: Controller, gateway: AuthGateway, port: int, metrics_port: int | None, page_port: int | None
) -> ServerStatus:
    state = controller.scheduler.state
    return ServerStatus(
        os.getpid(), port, gateway.material is not None, metrics_port, controller.paths.journal_url,
        sum(host.alive for host in state.resources.nodes), len(state.jobs) - len(state.ended), page_port=page_port,
    )  # fmt: skip


def _check_router(plan: Plan, gateway: AuthGateway) -> None:
    if plan.router is not None and gateway.material is None and not is_loopback(plan.router.host):
        raise InputError(
            f"--router: {plan.router.host} can be reached from other machines, and there is no certificate for TLS",
            hint=f"weft auth init --port {plan.port} --host NAME makes one; or --router 127.0.0.1",
        )


def _own_address(plan: Plan, port: int) -> Address:
    """Return the address at which processes of this machine reach the server."""
    return Address("localhost" if is_loopback(plan.host) or plan.host in WILDCARDS else plan.host, port)


def _router(plan: Plan, here: Paths, port: int) -> RouterProcess | None:
    """Return the router that starts with the first service: with TLS and tokens where other machines reach it."""
    if plan.router is None:
        return None
    where = ",".join(map(str, plan.peers)) or str(_own_address(plan, port))  # it outlives the lead of this server
    words = [sys.executable, "-m", "weft", "router", "--scheduler", where]
    words += ["--listen", plan.router.host, "--server-port", str(plan.port)]
    return RouterProcess(
        here.state, here.runtime, lambda number: (*words, "--supervised", f"{number}:{here.runtime}"),
        host=plan.router.host, port=plan.router.port, env={**os.environ, "WEFT_CREDENTIALS": str(plan.folder)},
    )  # fmt: skip


def _site(plan: Plan, port: int, journal_name: str) -> Site:
    """Return what the workers of pools must know to find this server."""
    where = plan.peers or (own_address(plan, port),)
    local = all(is_loopback(each.host) for each in where)
    return Site(
        journal_name[:CLUSTER_CHARS], ",".join(map(str, where)), local, (sys.executable, "-m", "weft"),
        is_shared=is_postgres(plan.journal_url),
    )  # fmt: skip


def _build_web(controller: Controller, plan: Plan, gateway: AuthGateway) -> tuple[Web, tuple[ServerInterceptor, ...]]:
    """Build the HTTP side. Imported only if a port for it is set: it costs 0.1 s and 10 MB."""
    from weft.server.http.app import Web, auth_for
    from weft.server.http.prometheus import Metrics

    auth = auth_for(plan.metrics_host, plan.port, plan.folder, gateway.tokens)
    metrics = Metrics(controller)
    controller.loop.on_step = metrics.record_step
    controller.loop.on_facts.append(metrics.record_facts)
    return Web(controller, metrics, host=plan.metrics_host, auth=auth), (metrics.interceptor(),)


async def _prune_blobs(controller: Controller, blobs: Blobs) -> None:
    """Remove the blobs that no job needs."""
    await asyncio.to_thread(blobs.prune, used_blobs(controller.scheduler.state))
