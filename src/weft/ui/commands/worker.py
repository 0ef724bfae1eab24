"""Puts this machine's GPUs at the disposal of a cluster's scheduler, and runs what that decides.

It stays in the foreground. Ctrl-C ends it and leaves its jobs alone: the next worker of the same name finds them, if it
comes before their lease ends."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import sys
from typing import TYPE_CHECKING, Final

from weft.errors import InputError
from weft.ui import render
from weft.ui.text import plural, visible

if TYPE_CHECKING:
    from weft.agent.folder import Folder
    from weft.agent.stream import Dial
    from weft.agent.worker import Note, Worker
    from weft.local.gpus import Machine
    from weft.wire.addresses import Address

EXAMPLE: Final = """examples:
  weft worker
  weft worker --gpus 0,1 --models RTX3090,RTX3090 --memories 24576,24576
  weft worker --scheduler gpu-head:50051 --id gpu07 --addr 10.0.0.7:0 --labels rack=3,room=east"""
LOG_BYTES: Final = 1 << 20
MOST_LABELS: Final = 100
_ADDR: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,253})(?::(?P<port>[0-9]{1,5}))?")


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--scheduler",
        metavar="HOST:PORT",
        help="whom to work for (as set, or localhost:50051)",
    )
    add("--gpus", metavar="0,1", default="", help="declare GPUs by index (those that the driver knows)")
    add("--models", metavar="A,B", default="", help="their models, one for each")
    add("--memories", metavar="MB,MB", default="", help="their memory, one for each")
    add("--addr", metavar="HOST:PORT", help="how other nodes reach it, and from which port on gangs meet; 0: any "
        "(localhost:0, or this host's name where the scheduler is elsewhere)")  # fmt: skip
    add("--id", metavar="NAME", default="", help="what it is called (this host's name)")
    add(
        "--labels", metavar="K=V", action="append", default=[], help="what jobs may ask for; K=V,K=V or again and again"
    )
    add("--foreign", choices=("avoid", "share", "ignore"), default="avoid", help="GPUs on which others have processes")
    render.add_arguments(parser, json=False)


def run(args: argparse.Namespace) -> int:
    from weft.agent.folder import folder_of
    from weft.agent.node import settled, spec_of
    from weft.agent.worker import worker_on
    from weft.wire import config
    from weft.wire.addresses import Address
    from weft.wire.machine import host_name, this_machine

    scheduler = config.scheduler(args.scheduler) or Address("localhost")
    host, port = _reached_at(args.addr, scheduler)
    labels = _labels(args.labels)
    machine, nvml = this_machine(args.gpus, args.models, args.memories, name=args.id or host_name())
    os.umask(0o077)
    folder = folder_of(machine.node.id)
    folder.make()
    folder.lock()
    _log_to(folder)
    machine = settled(machine, folder)
    show = _Lines(args.color, machine, scheduler, folder)
    show.begin()

    async def work() -> int:
        worker = worker_on(
            machine, nvml, spec_of(machine, host, port, labels), folder, _dial(scheduler), foreign=args.foreign,
            note=show.note,
        )  # fmt: skip
        return await _serve(worker, show)

    return asyncio.run(work())


async def _serve(worker: Worker, show: _Lines) -> int:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, worker.stop)
    await worker.open()
    try:
        await worker.serve()
    finally:
        await worker.close()
    show.end(len(worker.agent.known))
    return 0


def _dial(scheduler: Address) -> Dial:
    """The credentials are looked up each time: they may have been renewed."""
    import grpc.aio

    from weft.agent.stream import Way
    from weft.wire import credentials

    def dial() -> Way:
        found = credentials.find(scheduler, "worker")
        return Way(credentials.channel(scheduler, found, grpc.aio), found.metadata())

    return dial


def _reached_at(text: str | None, scheduler: Address) -> tuple[str, int]:
    import platform

    text = text or ("localhost:0" if scheduler.is_loopback else f"{platform.node()}:0")
    found = _ADDR.fullmatch(text.strip())
    if found is None or int(found["port"] or 0) > 65535:
        raise InputError(
            f"--addr: {text[:80]!r} is not an address", hint="such as 10.0.0.7:0, gpu07:7000 or [fd00::7]:0"
        )
    return found["host"].strip("[]"), int(found["port"] or 0)


def _labels(given: list[str]) -> tuple[tuple[str, str], ...]:
    pairs = [text.partition("=") for word in given for text in word.split(",") if text]
    for name, equals, value in pairs:
        if not (name.strip() and equals and len(name) <= 200 and len(value) <= 200):
            raise InputError(f"--labels: {name[:80]!r} has no value", hint="such as rack=3 or rack=3,room=east")
    if len(pairs) > MOST_LABELS:
        raise InputError(f"--labels: {len(pairs)} labels", hint=f"at most {MOST_LABELS}")
    return tuple({name.strip(): value.strip() for name, _, value in pairs}.items())


def _log_to(folder: Folder) -> None:
    import logging
    import logging.handlers

    handler = logging.handlers.RotatingFileHandler(folder.state / "worker.log", maxBytes=LOG_BYTES, backupCount=1)
    logging.basicConfig(
        level=logging.INFO, handlers=[handler], format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )


class _Lines:
    """A few lines for whoever looks on; nothing into a pipe. The log has them all."""

    def __init__(self, color: str, machine: Machine, scheduler: Address, folder: Folder) -> None:
        self._machine, self._scheduler, self._folder = machine, scheduler, folder
        self._shown, self._colour = render.is_rich(color), render.use_colour(color)
        self._last = ""
        self._was_connected = False

    def begin(self) -> None:
        node = self._machine.node
        kinds: dict[tuple[str, int], int] = {}
        for gpu in node.gpus:
            kinds[gpu.model, gpu.memory_mb] = kinds.get((gpu.model, gpu.memory_mb), 0) + 1
        gpus = ", ".join(f"{count} x {model or 'GPU'} {mb / 1024:.0f} GB" for (model, mb), count in kinds.items())
        self._say("1", node.id, f"{gpus or 'no GPUs'}, {plural(node.cpus, 'CPU')}, {node.ram_mb / 1024:.0f} GB RAM")
        if self._machine.note and self._machine.source != "declared":
            self._say("33", "note", self._machine.note)
        self._say("2", "files", str(self._folder.state))

    def note(self, note: Note) -> None:
        if note.what == "connected":
            runs = f", {plural(note.runs, 'run')} found again" if note.runs else ""
            self._say("32", "again" if self._was_connected else "joined", f"{self._scheduler}{runs}")
            self._was_connected, self._last = True, ""
        elif note.words != self._last:  # the same again and again is said once
            self._last = note.words
            words = note.words.partition("\n")[0]
            self._say("31" if note.what == "refused" else "33", "refused" if note.what == "refused" else "cut off",
                      f"{words}; trying again")  # fmt: skip

    def end(self, runs: int) -> None:
        left = (
            f"{plural(runs, 'run')} left alone: weft worker --id {self._machine.node.id} finds them again"
            if runs
            else ""
        )
        self._say("2", "ended", left or "nothing was running")

    def _say(self, code: str, label: str, text: str) -> None:
        import logging

        logging.getLogger("weft.worker").info("%s: %s", label, text)
        if self._shown:
            start, stop = (f"\x1b[{code}m", "\x1b[0m") if self._colour else ("", "")
            sys.stdout.write(f"{start}{visible(label):>9}{stop}  {visible(text)}\n")
            sys.stdout.flush()
