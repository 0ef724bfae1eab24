"""To the scheduler itself: pause, resume, drain, doctor, shutdown."""

from __future__ import annotations

import asyncio
import os
import platform
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from weft.errors import InputError, UnknownName
from weft.model import Blocked, Cancelled, Event, Paused, Resumed, Unblocked
from weft.server.loop import CLOSING, POLICY_FAILED
from weft.server.promises import ADVISORY, ENFORCED
from weft.server.rows import SCHEMA

if TYPE_CHECKING:
    from weft.server.running import Running

KILL_S: Final = 10.0
"""How long killed runs may take to be gone."""


async def operate(running: Running, verb: str, options: Mapping[str, str]) -> dict[str, Any]:
    if verb not in VERBS:
        raise UnknownName("operation", verb, VERBS)
    return {"schema": SCHEMA, **await VERBS[verb](running, options)}


async def _pause(running: Running, _options: Mapping[str, str]) -> dict[str, Any]:
    await running.loop.ask(lambda now: ([Paused(now)], None))
    return {"paused": True}


async def _resume(running: Running, _options: Mapping[str, str]) -> dict[str, Any]:
    running.try_policy_again()
    await running.loop.ask(lambda now: ([Resumed(now, why) for why in ("Paused", POLICY_FAILED, CLOSING)], None))
    return {"paused": False}


async def _drain(running: Running, options: Mapping[str, str]) -> dict[str, Any]:
    """Nobody new comes to a GPU, or to any; with `off`, they do again."""
    numbers = running.fleet.numbers
    (node,) = (room.node for room in running.scheduler.state.floor.rooms if room.alive)
    words = options.get("gpus", "").replace(",", " ").split()
    everything = not words or words in ([node.id], ["all"])
    chosen = range(len(node.gpus)) if everything else [numbers.place(node.id, _number(word)) for word in words]
    undo = "off" in options

    def make(now: float) -> tuple[list[Event], None]:
        make_one = (lambda gpu: Unblocked(now, node.id, gpu, "Drained")) if undo else (
            lambda gpu: Blocked(now, node.id, gpu, "Drained", detail="drained by its user")
        )  # fmt: skip
        return [make_one(gpu) for gpu in chosen], None

    await running.loop.ask(make)
    return {"node": node.id, "gpus": [numbers.number(node.id, gpu) for gpu in chosen], "drained": not undo}


def _number(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) < 9):
        raise InputError(f"{word[:40]!r} is not the number of a GPU", hint="see weft gpus; all: every one")
    return int(word)


async def _doctor(running: Running, _options: Mapping[str, str]) -> dict[str, Any]:
    """Safe to paste: no environment, no command, no name of a job."""
    state = running.scheduler.state
    return {
        "pid": os.getpid(),
        "version": version("weft"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {name: version(name) for name in ("grpcio", "protobuf")} | {"sqlite": sqlite3.sqlite_version},
        "policy": running.policy,
        "paused_for": dict(state.paused),
        **running.fleet.about(),
        "state_dir": str(running.places.state),
        "runtime_dir": str(running.places.runtime),
        "journal": {"facts": len(running.journal), "bytes": running.places.database.stat().st_size},
        "jobs": {"running": len(state.active), "waiting": len(state.waiting), "ended": len(state.ended)},
        "enforced": list(ENFORCED),
        "advisory": list(ADVISORY),
        "idle_s": running.settings.idle_s,
    }  # fmt: skip


async def _shutdown(running: Running, options: Mapping[str, str]) -> dict[str, Any]:
    runs = len(running.scheduler.state.active)
    if "kill" in options:
        await _kill(running)
    running.stopping.set()
    return {"pid": os.getpid(), "running": runs}


async def _kill(running: Running) -> None:
    """Cancels what runs, without grace: it does not come back with the next scheduler."""

    def make(now: float) -> tuple[list[Event], None]:
        return [
            Paused(now, CLOSING, "the scheduler ends"),
            *(Cancelled(now, job) for job in running.scheduler.state.active),
        ], None

    await running.loop.ask(make)
    running.fleet.kill_all()
    with suppress(TimeoutError):
        async with asyncio.timeout(KILL_S), running.loop.changed:
            await running.loop.changed.wait_for(lambda: not running.scheduler.state.active)


VERBS = {"pause": _pause, "resume": _resume, "drain": _drain, "doctor": _doctor, "shutdown": _shutdown}
