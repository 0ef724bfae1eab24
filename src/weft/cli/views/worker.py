"""The output of `weft worker`: a line for each change, for a person or a log."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from weft.cli import render
from weft.text import escape_controls, plural

if TYPE_CHECKING:
    from weft.access.endpoints.addresses import Address
    from weft.node.agent.state_dir import AgentDir
    from weft.node.agent.worker_event import WorkerEvent
    from weft.node.engine.gpu.discovery import Machine


class StatusLines:
    """Status lines on stdout and in the log, in colour on a terminal. `hidden`: only in the log."""

    def __init__(
        self, color: str, machine: Machine, scheduler: Address, folder: AgentDir, *, hidden: bool = False
    ) -> None:
        self._machine, self._scheduler, self._folder = machine, scheduler, folder
        self._shown, self._colour = not hidden, render.use_colour(color)
        self._last = ""
        self._was_connected = False
        self._stopping = 0
        """Runs that stop because the worker leaves."""

    def begin(self) -> None:
        node = self._machine.node
        kinds: dict[tuple[str, int], int] = {}
        for gpu in node.gpus:
            kinds[gpu.model, gpu.memory_mb] = kinds.get((gpu.model, gpu.memory_mb), 0) + 1
        gpus = ", ".join(f"{count} x {model or 'GPU'} {mb / 1024:.0f} GB" for (model, mb), count in kinds.items())
        self._print("1", node.id, f"{gpus or 'no GPUs'}, {plural(node.cpus, 'CPU')}, {node.ram_mb / 1024:.0f} GB RAM")
        if self._machine.note and self._machine.source != "declared":
            self._print("33", "note", self._machine.note)
        if self._folder.for_all_users:
            self._print("2", "users", "each job runs as its submitter")
        self._print("2", "files", str(self._folder.state))
        self._print("2", "log", str(self._folder.log))
        self._print("2", "joining", str(self._scheduler))

    def report(self, event: WorkerEvent) -> None:
        if event.kind == "connected":
            runs = f", {plural(event.runs, 'run')} found again" if event.runs else ""
            self._print("32", "rejoined" if self._was_connected else "joined", f"{self._scheduler}{runs}")
            self._was_connected, self._last = True, ""
        elif event.kind == "leaving":
            jobs = (
                f"stopping {plural(event.runs, 'run')}, which continue elsewhere; interrupt again to end at once"
                if event.runs
                else ""
            )
            self._stopping = event.runs
            self._print("33", "leaving", event.reason or jobs or "nothing is running")
        elif event.reason != self._last:  # report repeated errors once
            self._last = event.reason
            words = event.reason.partition("\n")[0]
            label = "cut off" if self._was_connected else "no answer"
            how_long = "" if event.gives_up_in_s is None else f" for {event.gives_up_in_s:.0f} s"
            self._print("31" if event.kind == "refused" else "33", "refused" if event.kind == "refused" else label,
                      f"{words}; trying again{how_long}")  # fmt: skip

    def end(self, runs: int) -> None:
        left = (
            f"{plural(runs, 'run')} still running: weft worker --id {self._machine.node.id} finds them again"
            if runs
            else ""
        )
        done = f"{plural(self._stopping, 'run')} stopped" if self._stopping else "nothing was running"
        self._print("2", "ended", left or done)

    def _print(self, code: str, label: str, text: str) -> None:
        logging.getLogger("weft.worker").info("%s: %s", label, text)
        if self._shown:
            start, stop = (f"\x1b[{code}m", "\x1b[0m") if self._colour else ("", "")
            with suppress(OSError):  # the reader of a pipe has ended; the worker has not
                sys.stdout.write(f"{start}{escape_controls(label):>9}{stop}  {escape_controls(text)}\n")
                sys.stdout.flush()
