"""Says what there is, what is enforced and what is wrong, with or without a scheduler running.

Safe to paste: no job's name, command or environment is in it, and the home directory is ~."""

from __future__ import annotations

import argparse
import os
import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from weft.cli import connection, flags, listing, render
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.endpoints.paths import Places
    from weft.server.settings import Settings

EXAMPLE: Final = """example:
  weft doctor --json"""

LOW_MB: Final = 512


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_scheduler(parser)
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from weft.endpoints.config import setting
    from weft.endpoints.paths import places

    here = places()
    where = setting("scheduler", args.scheduler)
    found: dict[str, Any] = {
        "schema": 1, "version": version("weft"), "python": platform.python_version(), "platform": platform.platform(),
        "pid": None, "state_dir": str(here.state), "runtime_dir": str(here.runtime), "free_mb": _free_mb(here),
    }  # fmt: skip
    found["scheduler_at"] = f"{where.value} ({where.origin})"
    problems = []
    if where.value != connection.LOCAL or here.answers():
        try:
            with connection.reach(args.scheduler) as client:
                found |= client.operate("doctor")
        except WeftError as error:
            problems.append(str(error).replace("\n", ":"))
    else:
        problems += _settings(here, found)
    problems += _journal(here, found)
    problems += _problems(here, found)
    found = _without_home({**found, "problems": problems})
    if args.json:
        render.print_json(found)
    else:
        _show(found, args.color)
    return 1 if problems else 0


def _free_mb(here: Places) -> int | None:
    folder = here.state
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize >> 20


def _settings(here: Places, found: dict[str, Any]) -> list[str]:
    """How a scheduler would be set up."""
    from weft.server.settings import load

    try:
        settings = load(here.state)
    except WeftError as error:
        return [str(error).replace("\n", ":")]
    found |= {"policy": settings.policy, "idle_s": settings.idle_s}
    try:
        found |= _machine(settings)
    except WeftError as error:
        return [str(error).replace("\n", ":")]
    return []


def _machine(settings: Settings) -> dict[str, Any]:
    """As a scheduler would find it."""
    from weft.engines.process.gpu.nvml import NoDriver
    from weft.engines.process.gpu.this_machine import this_machine
    from weft.server.admin.guarantees import ADVISORY, ENFORCED

    machine, nvml = this_machine(settings.gpus, settings.models, settings.memories)
    if not isinstance(nvml, NoDriver):
        nvml.close()
    node = machine.node
    return {
        "node": node.id, "gpus": [{"model": gpu.model, "memory_mb": gpu.memory_mb} for gpu in node.gpus],
        "gpus_from": machine.source, "driver": machine.note or "ok", "cpus": node.cpus, "ram_mb": node.ram_mb,
        "enforced": list(ENFORCED), "advisory": list(ADVISORY),
    }  # fmt: skip


def _journal(here: Places, found: dict[str, Any]) -> list[str]:
    """Looked at from outside: a scheduler that is asked goes on meanwhile, and none need be there."""
    if not here.has_state():
        return []
    from datetime import UTC, datetime

    from weft.journal import store_at
    from weft.journal.base import OK, UNFINISHED

    store = store_at(here.journal_url)
    health = store.check()
    known = found["journal"] = {
        **found.get("journal", {}),
        "bytes": health.size_bytes, "wal_bytes": health.pending_bytes, "check": health.check,
    }  # fmt: skip
    if (backup_at := store.backup_at()) is not None:
        known["backup"] = datetime.fromtimestamp(backup_at, UTC).isoformat(timespec="seconds")[:-6] + "Z"
    if health.check in (OK, UNFINISHED):
        return []
    remedy = f"; weft up --restore goes back to the backup of {known['backup']}" if "backup" in known else ""
    return [f"{here.journal_url} is damaged: {health.check}{remedy}"]


def _problems(here: Places, found: dict[str, Any]) -> list[str]:
    problems = []
    for why, detail in found.get("paused_for", {}).items():
        if why != "Paused":
            problems.append(f"nothing new is started ({why}): {detail}")
    if found["free_mb"] is not None and found["free_mb"] < LOW_MB:
        problems.append(f"only {found['free_mb']} MB of disk are left for the state and the logs")
    for folder in (here.state, here.runtime):
        if folder.exists() and folder.stat().st_uid != os.getuid():
            problems.append(f"{folder} belongs to somebody else")
        elif folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
            problems.append(f"{folder} cannot be written to")
        elif folder.exists() and folder.stat().st_mode & 0o077:
            problems.append(f"others may enter {folder}: chmod 700 it")
    if found["pid"] is None and connection.died(here):
        problems.append("the last scheduler died: weft up starts it again and finds its jobs; server.log tells why")
    return problems


def _without_home(value: Any) -> Any:
    home = os.environ.get("HOME", "").rstrip("/")
    if isinstance(value, str):
        return value.replace(home, "~") if len(home) > 1 else value
    if isinstance(value, dict):
        return {key: _without_home(each) for key, each in value.items()}
    return [_without_home(each) for each in value] if isinstance(value, list) else value


def _show(found: dict[str, Any], color: str) -> None:
    pairs = []
    for key, value in found.items():
        if key == "pid":
            pairs.append(("scheduler", "not running" if value is None else f"pid {value}"))
        elif key != "schema":
            pairs += [(key if not at else " ", text) for at, text in enumerate(_texts(value))]
    listing.print_pairs(pairs, color)


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)] or ["none"]
    if isinstance(value, dict):
        return [", ".join(f"{key} {each}" for key, each in value.items() if each != "")]
    return ["-" if value is None else str(value)]
