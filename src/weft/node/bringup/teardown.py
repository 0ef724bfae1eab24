"""Ends what `weft cluster` started, and nothing else. Processes are matched by identity, never by pid alone."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.access.endpoints.addresses import Address, parse_address
from weft.access.endpoints.paths import server_folder
from weft.errors import WeftError
from weft.model.slots import parse_slots
from weft.node.bringup.background import LEAVE_GRACE_S, end_process
from weft.node.bringup.record import Process, Record
from weft.node.engine.shim.process_id import is_alive, send_signal

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.views.answers.jobs import JobView

END_TIMEOUT_S: Final = 20.0
"""Limit for the scheduler, and for the runs that a worker left, to end."""
WORKER_TIMEOUT_S: Final = END_TIMEOUT_S + LEAVE_GRACE_S
"""Limit for each worker to end: it may let its runs save their work first."""
MAX_ENDING: Final = 16
"""Workers that are ended at the same time."""
MAX_LISTED_JOBS: Final = 10_000


def running_processes(record: Record) -> list[str]:
    """Return the names of the recorded processes that run on this machine."""
    return [each.name for each in record.processes if is_alive(each.who)]


def connect(record: Record) -> Client | None:
    """Return a client of the recorded scheduler; None if the scheduler does not answer."""
    from weft.access.client import Client

    try:
        client = Client(parse_address(record.scheduler))
        client.queue(limit=1)
    except WeftError:
        return None
    return client


def running_jobs(client: Client, record: Record) -> list[JobView]:
    """Return the running jobs that a teardown stops: all, if it ends the scheduler too, else those on its workers."""
    jobs = [job for job in client.queue(limit=MAX_LISTED_JOBS).jobs if job.place]
    if record.server is not None:
        return jobs
    names = {each.name for each in record.workers} | {each.name for each in record.remotes}
    return [job for job in jobs if any(node in names for node, _ in parse_slots(job.place))]


def shut_down_scheduler(client: Client) -> None:
    """Ask the scheduler to stop its jobs and end. Wait until its process has ended, at most `END_TIMEOUT_S`."""
    from weft.views.answers.operations import SHUTDOWN

    pid = client.operate(SHUTDOWN, jobs="stop").pid
    until = time.monotonic() + END_TIMEOUT_S
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.05)


def end_processes(record: Record, progress: Callable[[int, int], None] = lambda *_: None) -> None:
    """End the workers with their runs, several at a time, then the scheduler.

    `progress` is called with the number of workers that have ended, and the number of all workers.
    """
    from weft.node.agent.shutdown import kill_runs
    from weft.node.agent.state_dir import agent_dir

    def end(each: Process) -> None:
        end_process(each.who, WORKER_TIMEOUT_S)
        kill_runs(agent_dir(each.name, Path(each.folder)), END_TIMEOUT_S)

    for each in record.workers:
        send_signal(each.who, signal.SIGTERM)  # all at once: each takes a moment to end
    with ThreadPoolExecutor(MAX_ENDING) as pool:
        ending = [pool.submit(end, each) for each in record.workers]
        for count, done in enumerate(as_completed(ending), 1):
            done.result()
            progress(count, len(ending))
    if record.server is not None:
        end_process(record.server.who, END_TIMEOUT_S)
        _end_router(server_folder(parse_address(record.scheduler).port))


def _end_router(folder: Path) -> None:
    """End the router of a scheduler that died before it could."""
    from weft.node.bringup.router_process import RouterProcess

    RouterProcess(folder, folder / "run").stop()


def remove_files(where: Address) -> None:
    """Remove the scheduler's files: jobs, logs and tokens."""
    shutil.rmtree(server_folder(where.port), ignore_errors=True)
