"""Report the machine, what Weft enforces, and problems, whether or not a scheduler runs.

Safe to paste: it contains no name, command or environment of a job, and the home directory appears as ~."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from weft.cli import connection, flags, render, tables
from weft.errors import WeftError
from weft.model.status import Reason
from weft.version import __version__
from weft.views.answers.base import extend_view, plain, replace_fields
from weft.views.answers.steps import FAILED

if TYPE_CHECKING:
    from pathlib import Path

    from weft.access.endpoints.paths import Paths
    from weft.access.server.settings import Settings
    from weft.views.answers.doctor import DoctorView

EXAMPLE: Final = """example:
  weft doctor --json"""

LOW_MB: Final = 512
SERVER_REMEDY: Final = "end it, then weft server --restore goes back to its last backup"


configure = flags.add_common


def run(args: argparse.Namespace) -> int:
    from weft.access.endpoints.config import effective_setting
    from weft.access.endpoints.paths import user_paths
    from weft.history.journal.base import OK, UNFINISHED
    from weft.node.care.checks import check
    from weft.node.care.scheduler_side import clock_offset
    from weft.views.answers.doctor import DoctorView

    here = user_paths()
    where = effective_setting("scheduler", args.scheduler)
    found = DoctorView(
        version=__version__, python=platform.python_version(), platform=platform.platform(),
        state_dir=str(here.state), runtime_dir=str(here.runtime), free_mb=_free_mb(here),
        scheduler_at=f"{where.value} ({where.origin})",
    )  # fmt: skip
    problems: list[str] = []
    offset = None
    if where.value != connection.LOCAL or here.answers():
        try:
            with connection.connect(args.scheduler) as client:
                found = extend_view(DoctorView, found, vars(client.doctor()))
                with suppress(WeftError):  # a token may not permit the query
                    offset = clock_offset(client)
        except WeftError as error:
            problems.append(_one_line(error))
    else:
        found = _would_be(here, found, problems)
    if found.nodes is None:
        found = _with_journal(here, found, problems)
    elif found.journal is not None and found.journal.check not in (None, OK, UNFINISHED):
        problems.append(f"the journal of the server is damaged: {found.journal.check}; {SERVER_REMEDY}")
    problems += _problems(here, found)
    checks = check(offset, wants_containers=bool(found.image_jobs or found.container_problems) and found.nodes is None)
    problems += [f"{step.detail}: {step.advice}" for step in checks if step.state == FAILED and step.name != "disk"]
    found = replace_fields(found, checks=checks, problems=problems)
    if args.json:
        render.print_json(_without_home(plain(found)))
    else:
        _show(_without_home(plain(found)), args.color)
    return 1 if problems else 0


def _one_line(error: WeftError) -> str:
    return str(error).replace("\n", ":")


def _free_mb(here: Paths) -> int | None:
    folder = here.state
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize >> 20


def _would_be(here: Paths, found: DoctorView, problems: list[str]) -> DoctorView:
    """Add the settings that a scheduler would have."""
    from weft.access.endpoints.config import shared_folder
    from weft.access.server.settings import load
    from weft.node.engine.gpu.ledger_folder import check_folder

    try:
        settings = load(here.state)
        found = replace_fields(found, policy=settings.policy, idle_s=settings.idle_s, min_run_s=settings.min_run_s)
        if shared := shared_folder(settings.shared):
            found = replace_fields(found, shared=shared)
            check_folder(shared)
        return _with_machine(found, settings)
    except WeftError as error:
        problems.append(_one_line(error))
    return found


def _with_machine(found: DoctorView, settings: Settings) -> DoctorView:
    """Add the machine as a scheduler would find it."""
    from weft.access.server.guarantees import ADVISORY, ENFORCED
    from weft.node.engine.gpu.nvml import NoDriver
    from weft.node.engine.gpu.this_machine import discover_this_machine
    from weft.views.answers.doctor import DeviceView

    machine, nvml = discover_this_machine(settings.gpus, settings.models, settings.memories)
    if not isinstance(nvml, NoDriver):
        nvml.close()
    node = machine.node
    return replace_fields(
        found, node=node.id, gpus=[DeviceView(gpu.model, gpu.memory_mb) for gpu in node.gpus],
        gpus_from=machine.source, driver=machine.note or "ok", cpus=node.cpus, ram_mb=node.ram_mb,
        enforced=ENFORCED, advisory=ADVISORY,
    )  # fmt: skip


def _with_journal(here: Paths, found: DoctorView, problems: list[str]) -> DoctorView:
    """Add the state of the journal files. This needs no scheduler, and does not disturb a running one."""
    if found.pid is None and here.jobs.is_dir():
        problems += _unjournalled(here)
    if not here.has_journal():
        return found
    from weft.history.journal import store_at
    from weft.history.journal.base import OK, UNFINISHED
    from weft.history.journal.marker import backup_time
    from weft.views.answers.doctor import JournalView

    store = store_at(here.journal_url)
    health = store.check()
    backup = backup_time(store) or None
    if health.check not in (OK, UNFINISHED):
        remedy = f"; weft up --restore goes back to the backup of {backup}" if backup else ""
        problems.append(f"{here.journal_url} is damaged: {health.check}{remedy}")
    facts = found.journal.facts if found.journal is not None else None
    journal = JournalView(facts, health.size_bytes, health.pending_bytes, health.check, backup)
    return replace_fields(found, journal=journal)


def _unjournalled(here: Paths) -> list[str]:
    """Return the problem of a journal that was lost or rolled back."""
    from weft.history.journal import store_at
    from weft.history.journal.marker import Marker
    from weft.node.care.restore import count_unjournalled

    try:
        count = count_unjournalled(here)
        loss = Marker(here.state).loss(store_at(here.journal_url), here.jobs)
    except (WeftError, OSError):
        return []  # a damaged journal is reported as such
    jobs = f"{count} job{' has' if count == 1 else 's have'} runs"
    remedy = "weft up recovers them from their records"
    if count:
        return [f"the journal was lost or rolled back: {jobs} that it does not know; {remedy}"]
    return [f"{loss}; weft up goes on without them, unless you put the journal back"] if loss else []


def _problems(here: Paths, found: DoctorView) -> list[str]:
    problems = []
    for why, detail in (found.paused_for or {}).items():
        if why != Reason.PAUSED:
            problems.append(f"no new jobs start ({why}): {detail}")
    problems += found.pools or ()
    problems += found.database or ()
    problems += found.node_problems or ()
    problems += found.container_problems or ()
    if found.free_mb is not None and found.free_mb < LOW_MB:
        problems.append(f"only {found.free_mb} MB of disk space are left for state and logs")
    for folder in (here.state, here.runtime):
        if folder.exists() and folder.stat().st_uid != os.getuid():
            problems.append(f"{folder} belongs to another user")
        elif problem := _write_problem(folder):
            problems.append(problem)
        elif folder.exists() and folder.stat().st_mode & 0o077:
            problems.append(f"other users can enter {folder}: run chmod 700 on it")
    if found.shared_problem:
        problems.append(f"no jobs start on GPUs: {found.shared_problem}")
    if found.recovered:
        problems.append(found.recovered)
    if found.pid is None and here.has_died():
        problems.append(
            "the last scheduler died: weft up starts it again and finds its jobs; server.log has the reason"
        )
    return problems


def _write_problem(folder: Path) -> str:
    """Return why a folder cannot be written, or created where it is missing; empty if it can."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if os.statvfs(there).f_flag & os.ST_RDONLY:
        return f"{folder} cannot be written: its file system is read-only"
    if os.access(there, os.W_OK | os.X_OK):
        return ""
    return f"{folder} is not writable" if there == folder else f"{folder} cannot be created: {there} is not writable"


def _without_home(value: Any) -> Any:
    home = os.environ.get("HOME", "").rstrip("/")
    if isinstance(value, str):
        return value.replace(home, "~") if len(home) > 1 else value
    if isinstance(value, dict):
        return {key: _without_home(each) for key, each in value.items()}
    return [_without_home(each) for each in value] if isinstance(value, list) else value


def _show(found: Mapping[str, object], color: str) -> None:
    pairs = []
    for key, value in found.items():
        if key == "pid":
            pairs.append(("scheduler", "not running" if value is None else f"pid {value}"))
        elif key == "checks" and isinstance(value, list):
            pairs += [(key if not at else " ", _check_text(step)) for at, step in enumerate(value)]
        elif key != "schema" and value != "":
            pairs += [(key if not at else " ", text) for at, text in enumerate(_texts(value))]
    tables.print_pairs([(label, tables.Cell(text)) for label, text in pairs], color)


def _check_text(step: Mapping[str, str]) -> str:
    advice = f"; {step['advice']}" if step["advice"] else ""
    return f"{step['name']}: {step['state']}, {step['detail']}{advice}"


def _texts(value: object) -> list[str]:
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)] or ["none"]
    if isinstance(value, dict):
        return [", ".join(f"{key} {each}" for key, each in value.items() if each != "")]
    return ["-" if value is None else str(value)]
