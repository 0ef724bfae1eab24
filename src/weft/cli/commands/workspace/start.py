"""Run configs: those of a list, each on the GPU at the same position of the second list, or all.

Complete configs are skipped. Waiting tasks get the settings of the present config; running ones are not changed. After
stop, the queue continues."""

from __future__ import annotations

import argparse
from collections.abc import Sized
from functools import partial
from typing import TYPE_CHECKING, Final

from weft.cli import render
from weft.text import plural

if TYPE_CHECKING:
    from weft.workspace.config import Config
    from weft.workspace.task_jobs import StartSummary
    from weft.workspace.tasks import Task

EXAMPLE: Final = """examples:
  weft workspace start
  weft workspace start "a.yml,b.yml,c.yml" "0,0,1"
  weft workspace start --rerun a.yml"""
MAX_NAMES: Final = 10


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("configs", metavar="CONFIG_LIST", nargs="?", help="for example a.yml,b.yml (default: all)")
    parser.add_argument(
        "gpus", metavar="GPU_LIST", nargs="?", default="", help="for example 0,0,1; the other configs are balanced"
    )
    parser.add_argument("--rerun", action="store_true", help="also run complete configs")


def run(args: argparse.Namespace) -> int:
    from weft.workspace import locks, scheduler, task_jobs
    from weft.workspace.config import read
    from weft.workspace.sessions import scheduler_session
    from weft.workspace.sessions.backends import sessions_of

    config = read(args.dir, args.config)
    tasks = _tasks(config, args)
    sessions_of(config)  # report problems of the sessions before anything starts
    client = scheduler.connect_with_gpus(config) if tasks else scheduler.connect_if_used()
    summary, session = task_jobs.StartSummary(), ""
    if client is not None:
        with client, locks.tasks_locked(client.paths.runtime, config):
            summary = task_jobs.start(config, client, tasks, again=args.rerun, log=partial(_log, config))
            if _is_busy(summary):
                session, warning = scheduler_session.open_session(config, client, summary.position)
                summary.warnings += [warning] if warning else []
    _report(args, config, summary, session)
    return 0


def _is_busy(summary: StartSummary) -> bool:
    return bool(summary.started or summary.there or summary.released)


def _log(config: Config, summary: StartSummary) -> None:
    from weft.workspace.sessions.scheduler_session import append_log

    if _is_busy(summary):
        append_log(config, f"start: {_summary(summary)}")


def _summary(summary: StartSummary) -> str:
    counts: dict[str, Sized] = {"started": summary.started, "already there": summary.there, "complete": summary.skipped}
    counts["changed"] = summary.changed
    words = [f"{len(names):,} {what}" for what, names in counts.items() if names]
    return ", ".join([*words, *([f"{len(summary.released):,} continued"] if summary.released else [])])


def _tasks(config: Config, args: argparse.Namespace) -> list[Task]:
    from weft.workspace.tasks import all_tasks, chosen_tasks

    return all_tasks(config) if args.configs is None else chosen_tasks(config, args.configs, args.gpus)


def _report(args: argparse.Namespace, config: Config, summary: StartSummary, session: str) -> None:
    for warning in summary.warnings:
        render.print_message(warning)
    if args.json:
        render.print_json(
            {"schema": 1, "started": summary.started, "there": summary.there, "skipped": summary.skipped,
             "released": summary.released, "changed": summary.changed, "session": session or None,
             "warnings": summary.warnings}
        )  # fmt: skip
        return
    if summary.started:
        print(f"started {plural(len(summary.started), 'config')}: {_list(summary.started)}")
    if summary.released:
        print(f"continued {plural(len(summary.released), 'task')} that stop had held")
    if summary.changed:
        changes = dict.fromkeys(change for changes in summary.changed.values() for change in changes)
        print(f"applied the config to {plural(len(summary.changed), 'waiting task')}: {_list(list(changes), '; ')}")
    if summary.there:
        print(f"already there: {_list(summary.there)}")
    if summary.skipped:
        print(f"complete, skipped: {_list(summary.skipped)}; --rerun runs them again")
    if not (summary.started or summary.there or summary.skipped):
        print(f"no {config.text('config_pattern')} in {config.path('config_dir')}: nothing to start")
    if session:
        from weft.workspace.sessions.scheduler_session import attach_command_line

        print(f"watch it: {attach_command_line(config, session)}")


def _list(names: list[str] | dict[str, str], separator: str = ", ") -> str:
    shown = separator.join(list(names)[:MAX_NAMES])
    return shown if len(names) <= MAX_NAMES else f"{shown} and {len(names) - MAX_NAMES:,} more"
