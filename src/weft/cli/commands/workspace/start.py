"""Runs configs: those of a list, each on the GPU at its place in the other list, or all that there are.

A config that is complete is skipped, one that waits or runs is left alone. After stop, the queue goes on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import render
from weft.cli.text import plural

if TYPE_CHECKING:
    from weft.workspace.config import Config
    from weft.workspace.task_jobs import Begun
    from weft.workspace.tasks import Task

EXAMPLE: Final = """examples:
  weft workspace start
  weft workspace start "a.yml,b.yml,c.yml" "0,0,1"
  weft workspace start --rerun a.yml"""
SHOWN: Final = 10


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("configs", metavar="CONFIG_LIST", nargs="?", help="such as a.yml,b.yml (default: all)")
    parser.add_argument("gpus", metavar="GPU_LIST", nargs="?", default="", help="such as 0,0,1; the rest is balanced")
    parser.add_argument("--rerun", action="store_true", help="run complete ones again")


def run(args: argparse.Namespace) -> int:
    from weft.workspace import locks, scheduler, scheduler_session, task_jobs
    from weft.workspace.config import read
    from weft.workspace.sessions import sessions_of

    config = read(args.dir, args.config)
    tasks = _tasks(config, args)
    sessions_of(config)  # what is wrong with them is said before anything is started
    client = scheduler.connect_with_gpus(config) if tasks else scheduler.connect_if_used()
    begun, session = task_jobs.Begun(), ""
    if client is not None:
        with client, locks.alone(client.paths.runtime, config):
            begun = task_jobs.start(config, client, tasks, again=args.rerun)
            if begun.started or begun.there or begun.released:
                session, warning = scheduler_session.open_session(config, client, begun.position)
                begun.warnings += [warning] if warning else []
                scheduler_session.append_log(config, f"start: {_summary(begun)}")
    _report(args, config, begun, session)
    return 0


def _summary(begun: Begun) -> str:
    counts = {"started": begun.started, "already there": begun.there, "complete": begun.skipped}
    words = [f"{len(names):,} {what}" for what, names in counts.items() if names]
    return ", ".join([*words, *([f"{len(begun.released):,} going on"] if begun.released else [])])


def _tasks(config: Config, args: argparse.Namespace) -> list[Task]:
    from weft.workspace.tasks import all_tasks, chosen_tasks

    return all_tasks(config) if args.configs is None else chosen_tasks(config, args.configs, args.gpus)


def _report(args: argparse.Namespace, config: Config, begun: Begun, session: str) -> None:
    for warning in begun.warnings:
        render.say(warning)
    if args.json:
        render.print_json(
            {"schema": 1, "started": begun.started, "there": begun.there, "skipped": begun.skipped,
             "released": begun.released, "session": session or None, "warnings": begun.warnings}
        )  # fmt: skip
        return
    if begun.started:
        print(f"started {plural(len(begun.started), 'config')}: {_list(begun.started)}")
    if begun.released:
        print(f"going on with {plural(len(begun.released), 'task')} that stop had held back")
    if begun.there:
        print(f"already there: {_list(begun.there)}")
    if begun.skipped:
        print(f"complete, skipped: {_list(begun.skipped)}; --rerun runs them again")
    if not (begun.started or begun.there or begun.skipped):
        print(f"there is no {config.text('config_pattern')} in {config.path('config_dir')}: nothing to start")
    if session:
        from weft.workspace.scheduler_session import attach_command_line

        print(f"watch it: {attach_command_line(config, session)}")


def _list(names: list[str] | dict[str, str]) -> str:
    shown = ", ".join(list(names)[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN:,} more"
