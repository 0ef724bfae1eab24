"""Brings a cluster up on loopback: the scheduler, then a worker for each node, until all have joined."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.bringup import record, teardown
from weft.bringup.record import Process, Record
from weft.bringup.worker_args import worker_words
from weft.endpoints.addresses import Address
from weft.endpoints.discovery import find_listeners
from weft.endpoints.paths import make_private, server_folder
from weft.engines.process.shim.process_id import identify
from weft.errors import InputError, Refused, Unreachable, WeftError
from weft.model import Node

if TYPE_CHECKING:
    from weft.client import Client

MOST_NODES: Final = 256
AT_ONCE: Final = 8
"""So many workers are being started at a time: each takes a second or so of a core."""
LOOK_S: Final = 0.1
START_S: Final = 120.0
"""How long one after the other may take to come."""
CONSOLE: Final = "console.log"


def bring_up(where: Address, nodes: Sequence[Node], options: Sequence[str]) -> Record:
    """All of it, or nothing; `options` are for the scheduler."""
    check(nodes)
    with record.alone(where):
        _refuse_second(where)
        rising = _Rising(where, Record(str(where)))
        try:
            rising.serve(options)
            rising.join(nodes)
        except BaseException:
            teardown.end_processes(rising.record)
            record.save(Record(str(where)))
            raise
        return rising.record


def check(nodes: Sequence[Node]) -> None:
    if not 0 < len(nodes) <= MOST_NODES:
        raise InputError(f"{len(nodes):,} nodes on one machine", hint=f"from 1 to {MOST_NODES}: each is a process")
    for node in nodes:
        worker_words(node)


def _refuse_second(where: Address) -> None:
    before = record.load(where)
    if before is not None and teardown.alive(before):
        raise Refused(f"a cluster is up at {where} already\n  weft cluster down --port {where.port} ends it")
    if before is not None and before.remotes:
        raise Refused(f"workers over ssh are with {where} already\n  weft cluster down --port {where.port} ends them")
    if find_listeners(where.port):
        raise Refused(f"something listens at {where} already\n  use another --port")


class _Rising:
    def __init__(self, where: Address, empty: Record) -> None:
        self.where, self.record = where, empty
        self._folder = server_folder(where.port)
        self._started: list[tuple[str, subprocess.Popen[bytes], Path]] = []

    def serve(self, options: Sequence[str]) -> None:
        self._start("server", self._folder, ["server", "--port", str(self.where.port), *options], is_server=True)
        self._until(lambda: bool(find_listeners(self.where.port)), "the scheduler does not listen")

    def join(self, nodes: Sequence[Node]) -> None:
        from weft.client import Client

        waiting, coming = list(nodes), set[str]()
        with Client(self.where) as client:
            since = time.monotonic()
            while waiting or coming:
                joined = coming & _connected(client)
                since = time.monotonic() if joined else since
                coming -= joined
                while waiting and len(coming) < AT_ONCE:
                    coming.add(self._work(waiting.pop(0)))
                self._look(since, f"{', '.join(sorted(coming))} did not join")
                time.sleep(LOOK_S)

    def _work(self, node: Node) -> str:
        folder = self._folder / "workers" / node.id
        words = ["worker", "--scheduler", str(self.where), *worker_words(node), "--folder", str(folder)]
        self._start(node.id, folder, words)
        return node.id

    def _start(self, name: str, folder: Path, words: Sequence[str], *, is_server: bool = False) -> None:
        """In the background, and into the record before anything else is done."""
        make_private(folder)
        console = os.open(folder / CONSOLE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        process = subprocess.Popen(
            [sys.executable, "-m", "weft", *words], cwd="/", stdin=subprocess.DEVNULL, stdout=console, stderr=console,
            start_new_session=True,
        )  # fmt: skip
        os.close(console)
        who = identify(process.pid)
        assert who is not None  # nobody has waited for it: a zombie at worst
        self._started.append((name, process, folder / CONSOLE))
        self.record = self.record.with_process(Process(name, who, str(folder), is_server))
        record.save(self.record)

    def _until(self, holds: Callable[[], bool], words: str) -> None:
        since = time.monotonic()
        while not holds():
            self._look(since, words)
            time.sleep(LOOK_S)

    def _look(self, since: float, words: str) -> None:
        for name, process, console in self._started:
            if process.poll() is not None:
                raise WeftError(f"{name} did not start: {_last_words(console)}")
        if time.monotonic() > since + START_S:
            raise Unreachable(f"{words} within {START_S:.0f} s\n  see {self._folder}")


def _connected(client: Client) -> set[str]:
    return {node.node for node in client.nodes().nodes if node.state == "connected"}


def _last_words(console: Path) -> str:
    text = console.read_text(errors="replace").strip().removeprefix("weft: error: ")
    return text[-1000:] or f"it left no word in {console}"
