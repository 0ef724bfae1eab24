"""Starts a cluster on loopback: a scheduler, then a worker for each node, until all have joined."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.access.endpoints.addresses import Address
from weft.access.endpoints.discovery import find_listeners
from weft.access.endpoints.paths import make_private, server_folder
from weft.errors import InputError, Refused, Unreachable, WeftError
from weft.model import Node
from weft.node.bringup import record, teardown
from weft.node.bringup.record import Process, Record
from weft.node.bringup.worker_args import worker_args
from weft.node.engine.shim.process_id import identify

if TYPE_CHECKING:
    from weft.access.client import Client

MAX_NODES: Final = 256
MAX_STARTING_WORKERS: Final = 8
"""Workers that start at the same time: each takes about a second of a core."""
POLL_S: Final = 0.1
START_TIMEOUT_S: Final = 120.0
"""Limit for the scheduler to listen. Then the limit between one worker that joins and the next."""
CONSOLE_FILE: Final = "console.log"
MAX_CONSOLE_CHARS: Final = 1000
"""An error quotes this much of the end of a console file."""


def bring_up(where: Address, nodes: Sequence[Node], options: Sequence[str]) -> Record:
    """Start a scheduler with these options, and a worker for each node. If one fails, end all of them."""
    _check_nodes(nodes)
    with record.locked(where):
        _check_free(where)
        starter = _ClusterStarter(where, Record(str(where)))
        try:
            starter.start_scheduler(options)
            starter.start_workers(nodes)
        except BaseException:
            teardown.end_processes(starter.record)
            record.save(Record(str(where)))
            raise
        return starter.record


def _check_nodes(nodes: Sequence[Node]) -> None:
    """Raise if this machine cannot run a worker for each of these nodes."""
    if not 0 < len(nodes) <= MAX_NODES:
        what = f"{len(nodes):,} nodes on one machine"
        raise InputError(what, hint=f"use 1 to {MAX_NODES} nodes: each is a process")
    for node in nodes:
        worker_args(node)


def _check_free(where: Address) -> None:
    """Raise if a cluster, or another program, uses the address."""
    before = record.load(where)
    if before is not None and teardown.running_processes(before):
        raise Refused(f"a cluster already runs at {where}\n  weft cluster down --port {where.port} ends it")
    if before is not None and before.remotes:
        raise Refused(
            f"{where} already has workers started over ssh\n  weft cluster down --port {where.port} ends them"
        )
    if find_listeners(where.port):
        raise Refused(f"another program already listens at {where}\n  use another port")


class _ClusterStarter:
    """Starts the processes of a cluster one by one. It records each before it starts the next."""

    def __init__(self, where: Address, empty: Record) -> None:
        self.where, self.record = where, empty
        self._folder = server_folder(where.port)
        self._started: list[tuple[str, subprocess.Popen[bytes], Path]] = []
        """Name, process and console file."""

    def start_scheduler(self, options: Sequence[str]) -> None:
        """Start the scheduler and wait until it listens."""
        self._start("server", self._folder, ["server", "--port", str(self.where.port), *options], is_server=True)
        since = time.monotonic()
        while not find_listeners(self.where.port):
            self._check_progress(since, "the scheduler does not listen")
            time.sleep(POLL_S)

    def start_workers(self, nodes: Sequence[Node]) -> None:
        """Start a worker for each node, a few at a time, and wait until all have joined."""
        from weft.access.client import Client

        waiting, starting = list(nodes), set[str]()
        with Client(self.where) as client:
            since = time.monotonic()
            while waiting or starting:
                joined = starting & _connected_nodes(client)
                since = time.monotonic() if joined else since
                starting -= joined
                while waiting and len(starting) < MAX_STARTING_WORKERS:
                    starting.add(self._start_worker(waiting.pop(0)))
                self._check_progress(since, f"{', '.join(sorted(starting))} did not join")
                time.sleep(POLL_S)

    def _start_worker(self, node: Node) -> str:
        folder = self._folder / "workers" / node.id
        words = ["worker", "--scheduler", str(self.where), *worker_args(node), "--folder", str(folder)]
        words += ["--run-as", "worker"]  # this user's own cluster
        self._start(node.id, folder, words)
        return node.id

    def _start(self, name: str, folder: Path, words: Sequence[str], *, is_server: bool = False) -> None:
        """Start a background process, and record it before anything else happens."""
        make_private(folder)
        console = os.open(folder / CONSOLE_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        process = subprocess.Popen(
            [sys.executable, "-m", "weft", *words], cwd="/", stdin=subprocess.DEVNULL, stdout=console, stderr=console,
            start_new_session=True,
        )  # fmt: skip
        os.close(console)
        identity = identify(process.pid)
        assert identity is not None  # the process is not reaped: a zombie at worst
        self._started.append((name, process, folder / CONSOLE_FILE))
        self.record = self.record.with_process(Process(name, identity, str(folder), is_server))
        record.save(self.record)

    def _check_progress(self, since: float, problem: str) -> None:
        """Raise if a process has ended, or if the time since the last success is too long."""
        for name, process, console in self._started:
            if process.poll() is not None:
                raise WeftError(f"{name} did not start: {_read_console(console)}")
        if time.monotonic() > since + START_TIMEOUT_S:
            raise Unreachable(f"{problem} within {START_TIMEOUT_S:.0f} s\n  see {self._folder}")


def _connected_nodes(client: Client) -> set[str]:
    return {node.node for node in client.nodes().nodes if node.state == "connected"}


def _read_console(console: Path) -> str:
    text = console.read_text(errors="replace").strip().removeprefix("weft: error: ")
    return text[-MAX_CONSOLE_CHARS:] or f"{console} is empty"
