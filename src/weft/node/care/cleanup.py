"""Clean-up of this machine: processes that ended runs left behind, stale sockets, empty weave directories.

A process is an orphan only if its environment has the token of a run that has ended, by the run's record on this
machine. Every other process is a stranger, which nothing here touches."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from weft.node.care.runs_here import AgentFolder, agent_folders, recorded_runs
from weft.node.engine import weaves
from weft.node.engine.shim.process_id import Identity, boot_id, open_pidfd, read_stat
from weft.node.engine.shim.process_tree import list_processes
from weft.views.answers.steps import DONE, FAILED, OK, PLANNED, StepView

TOKEN: Final = b"WEFT_RUN_TOKEN="
SHARED_SERVERS: Final = frozenset({"tmux: server", "screen"})
"""Programs that serve sessions of others too: a job may have started one, but it does not belong to its run."""
KILL_TIMEOUT_S: Final = 10.0
POLL_S: Final = 0.02
STALE_AFTER_S: Final = 60.0
"""Sockets and directories that are younger may belong to a process that is starting."""


class Orphan(NamedTuple):
    process: Identity
    job: str
    run: int
    token: str


def clean(*, dry_run: bool, folders: Sequence[str] = ()) -> list[StepView]:
    """Remove what ended runs left behind; with `dry_run`, return what would be removed."""
    agents = agent_folders(folders)
    steps = [_clean_processes(agents, dry_run)]
    steps.append(_remove("sockets", "stale sockets", list(stale_sockets(agents)), os.unlink, dry_run))
    steps.append(_remove("weaves", "empty weave directories", list(empty_weaves(agents)), os.rmdir, dry_run))
    return steps


# ---- processes


def find_orphans(agents: Iterable[AgentFolder]) -> list[Orphan]:
    """Return the living processes of ended runs, without this one and its ancestors."""
    runs = [run for agent in agents for run in recorded_runs(agent) if run.token]
    living = {run.token for run in runs if not run.has_ended}
    ended = {run.token: run for run in runs if run.has_ended and run.token not in living}
    if not ended:
        return []
    processes = list_processes()
    parents = {process.pid: process.parent for process in processes}
    spared = set(_ancestors(os.getpid(), parents))
    found = []
    for process in processes:
        run = ended.get(read_token(process.pid)) if not process.dead and process.pid not in spared else None
        if run is not None and _name(process.pid) not in SHARED_SERVERS:
            found.append(Orphan(Identity(boot_id(), process.pid, process.start), run.job, run.run, run.token))
    return found


def read_token(pid: int) -> str:
    """Return the run token in the environment of a process; empty: it has none, or belongs to another user."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return ""
    return next((each[len(TOKEN) :].decode(errors="replace") for each in variables if each.startswith(TOKEN)), "")


def kill(orphan: Orphan) -> bool:
    """Kill exactly this process, if it still has the token; return False if it has gone."""
    handle = open_pidfd(orphan.process)
    if handle is None:
        return False
    try:
        # read again once the pidfd is open: from here on the pid cannot become another process
        if read_token(orphan.process.pid) != orphan.token:
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(handle)
    return True


def _clean_processes(agents: Sequence[AgentFolder], dry_run: bool) -> StepView:
    name, found = "processes", find_orphans(agents)
    if not found:
        return StepView(name, OK, "no processes of ended runs")
    if dry_run:
        return StepView(name, PLANNED, f"kill {_list_orphans(found)}")
    killed = [orphan for orphan in found if kill(orphan)]
    until = time.monotonic() + KILL_TIMEOUT_S
    while (left := [orphan for orphan in killed if _is_there(orphan.process)]) and time.monotonic() < until:
        time.sleep(POLL_S)
    if left:
        advice = "a process stuck in the driver ends with a reset: weft node reset --gpu N, or reboot"
        return StepView(name, FAILED, f"cannot kill {_list_orphans(left)}", advice)
    return StepView(name, DONE, f"killed {_list_orphans(killed)}") if killed else StepView(name, OK, "they have gone")


def _list_orphans(orphans: Sequence[Orphan]) -> str:
    return ", ".join(f"pid {orphan.process.pid} of job {orphan.job}, run {orphan.run}" for orphan in orphans)


def _is_there(process: Identity) -> bool:
    found = read_stat(process.pid)
    return found is not None and found.start == process.start and not found.dead


def _ancestors(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    while pid in parents:
        yield pid
        pid = parents[pid]


def _name(pid: int) -> str:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
        return file.read().strip()
    return ""


# ---- files


def stale_sockets(agents: Iterable[AgentFolder]) -> Iterator[Path]:
    """Yield sockets in the runtime folders of agents at which no process listens."""
    for agent in agents:
        for path in sorted(agent.runtime.glob("*.sock")):
            with contextlib.suppress(OSError):
                found = path.lstat()
                if stat.S_ISSOCK(found.st_mode) and _is_old(found) and not _is_served(path):
                    yield path


def empty_weaves(agents: Iterable[AgentFolder]) -> Iterator[Path]:
    for agent in agents:
        for path in sorted((agent.state / weaves.FOLDER).glob("*")):
            with contextlib.suppress(OSError):
                found = path.lstat()
                if stat.S_ISDIR(found.st_mode) and _is_old(found) and not any(path.iterdir()):
                    yield path


def _is_old(found: os.stat_result) -> bool:
    return time.time() - found.st_mtime > STALE_AFTER_S and found.st_uid == os.getuid()


def _is_served(path: Path) -> bool:
    """Return whether a process has the socket open. Only a refusal proves that none has."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:  # a stream socket in use refuses its type instead
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
    return True


def _remove(name: str, what: str, paths: Sequence[Path], remove: Callable[[Path], None], dry_run: bool) -> StepView:
    if not paths:
        return StepView(name, OK, f"no {what}")
    listed = ", ".join(map(str, paths))
    if dry_run:
        return StepView(name, PLANNED, f"remove {listed}")
    for path in paths:
        with contextlib.suppress(OSError):  # it is in use again, or gone
            remove(path)
    return StepView(name, DONE, f"removed {listed}")
