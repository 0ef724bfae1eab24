"""The scheduler of one machine and one user, as a process. Commands start it, and it ends when it is idle."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from weft.access.endpoints.blob_folder import PRUNE_S, prune_blobs
from weft.access.endpoints.config import effective_setting, shared_folder
from weft.access.endpoints.paths import Paths, recorded_paths, user_paths
from weft.access.server.settings import FILE, Settings, changed, load
from weft.errors import JournalDamaged, WeftError
from weft.history.journal import store_at
from weft.history.journal.marker import Marker, remedy
from weft.inputs.locks import try_lock, write_holder
from weft.node.bringup.router_process import RouterProcess
from weft.node.care.restore import recover
from weft.node.engine.background import TaskSet
from weft.node.engine.gpu.this_machine import discover_this_machine
from weft.server.api.service import Service
from weft.server.api.unix_socket import UnixSocketServer
from weft.server.backends.local import local_backend
from weft.server.controller import Controller
from weft.server.maintenance import used_blobs
from weft.server.process import event_loop
from weft.server.process.log_file import log_to

LOCK_TIMEOUT_S: Final = 10.0
GRACE_S: Final = 1.0
log = logging.getLogger("weft.server")


def main(args: Sequence[str]) -> int:
    """Serve until idle or stopped. `args` are the folders of state and sockets, or empty."""
    os.umask(0o077)
    here = Paths(Path(args[0]), Path(args[1])) if len(args) == 2 else user_paths()
    here.make()
    lock = os.open(here.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _acquire(lock, here):
        return 0  # another process was faster, and serves
    write_holder(lock)
    here.record_runtime()
    log_to(here.server_log, "text", stderr=False)
    try:
        lock_content = event_loop.run(_serve(here))
    except JournalDamaged as error:
        log.error("%s; %s", error, remedy(store_at(here.journal_url), "weft up --restore"))
        return 1
    except WeftError as error:
        log.error("%s", error)
        return 1
    except Exception:
        log.exception("the scheduler failed")
        raise
    os.truncate(lock, 0)
    os.pwrite(lock, lock_content, 0)
    return 0


def _acquire(lock: int, here: Paths) -> bool:
    """Lock the file. Wait a moment: a killed scheduler may still hold the lock. Return False if another one answers."""
    until = time.monotonic() + LOCK_TIMEOUT_S
    while time.monotonic() < until:
        if try_lock(lock):
            return True
        if here.answers() or ((other := recorded_paths(here.state)) and other.answers()):
            return False
        time.sleep(0.01)
    return False


def load_or_configured(state: Path) -> Settings:
    """Return the saved settings; of a scheduler that starts for the first time, the defaults with the policy of the
    user's config."""
    settings = load(state)
    if not (state / FILE).exists() and (policy := effective_setting("policy", in_project=False).value):
        settings = changed(settings, policy=policy)
    return settings


async def _serve(here: Paths) -> bytes:
    """Serve until the end. Return what to leave in the lock file; a scheduler that dies leaves its pid there."""
    settings = load_or_configured(here.state)
    shared = shared_folder(settings.shared)
    machine, nvml = discover_this_machine(settings.gpus, settings.models, settings.memories)
    loss = Marker(here.state).loss(store_at(here.journal_url), here.jobs)
    controller = Controller(
        here, settings, local_backend(machine, nvml, shared), lambda state: recover(state, here.jobs, machine, loss)
    )
    service = Service(controller)
    router = RouterProcess(here.state, here.runtime)
    router.adopt()
    controller.services.on_first_service, controller.services.check_router = router.ensure, router.check
    server = UnixSocketServer(service.methods)
    with suppress(FileNotFoundError):
        here.socket.unlink()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, controller.stop)
    await controller.open()
    await server.open(here.socket)
    log.info("serving at %s with %s, pid %d", here.socket, settings.policy, os.getpid())
    tasks = TaskSet()
    await _prune_blobs(controller)
    tasks.every(PRUNE_S, lambda: _prune_blobs(controller), "removing unused blobs")
    await controller.until_done(lambda: service.last_call_at)
    with suppress(FileNotFoundError):
        here.socket.unlink()
    await tasks.close()
    await server.close(GRACE_S)
    await controller.close()
    if not controller.scheduler.state.services.by_name:
        router.stop()
    log.info("done")
    return b"" if controller.is_idle() else b"stopped"


async def _prune_blobs(controller: Controller) -> None:
    """Remove the standard input of jobs that have ended."""
    with suppress(FileNotFoundError):
        await asyncio.to_thread(prune_blobs, controller.paths.blobs, used_blobs(controller.scheduler.state))
