"""Stop what `weft cluster up` and `weft cluster ssh` started, and nothing else. Running jobs are stopped.

Waiting jobs and the history stay in the scheduler's files: the next scheduler at that port continues with them, unless
--clean is given."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Final

from weft.access.endpoints import config
from weft.access.endpoints.addresses import DEFAULT_PORT, Address, parse_address
from weft.cli import flags, render
from weft.cli.views import change_report
from weft.errors import InputError
from weft.text import plural

if TYPE_CHECKING:
    from weft.node.bringup.record import Record, Remote

EXAMPLE: Final = """examples:
  weft cluster down
  weft cluster down --port 50061 --clean -y
  weft cluster down --scheduler gpu-head:50051"""

MAX_NAMES: Final = 10
"""Processes that the message names."""
PROGRESS_S: Final = 2.0


def configure(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--port",
        metavar="N",
        type=flags.port,
        help="port of the cluster that weft cluster up started (default: the only one)",
    )
    which.add_argument("--scheduler", metavar="HOST:PORT", help="scheduler of weft cluster ssh, if not on this machine")
    parser.add_argument("--clean", action="store_true", help="also remove the scheduler's files: jobs, logs, tokens")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation if jobs are running")


def run(args: argparse.Namespace) -> int:
    from weft.node.bringup import record, teardown

    where = _choose_scheduler(args)
    with record.locked(where):
        found = record.load(where)
        if found is None:
            return _report_nothing(args, where)
        client = teardown.connect(found)
        jobs = teardown.running_jobs(client, found) if client is not None else []
        if jobs and not args.yes and render.can_prompt() and not change_report.confirm("stop", jobs):
            render.print_message("aborted; nothing was stopped")
            return 1
        local = teardown.running_processes(found)
        if client is not None:
            if found.server is not None:
                if jobs and not args.json:
                    render.print_message(f"stopping {plural(len(jobs), 'job')} and the scheduler")
                teardown.shut_down_scheduler(client)
            client.close()
        remote, left = _end_remotes(found)
        teardown.end_processes(found, (lambda *_: None) if args.json else _Progress())
        ended = local + remote
        record.save(record.Record(found.scheduler, remotes=tuple(left)))
        if args.clean and found.server is not None:
            teardown.remove_files(where)
    if args.json:
        render.print_json({
            "schema": 1, "scheduler": str(where), "ended": ended, "jobs": len(jobs), "left": [e.name for e in left],
        })  # fmt: skip
    else:
        stopped = f", {plural(len(jobs), 'running job')} stopped" if jobs else ""
        render.print_message(f"stopped the cluster at {where}: {_shorten(ended)}{stopped}")
    return 1 if left else 0


class _Progress:
    """Prints how many workers have ended, at most every `PROGRESS_S` seconds: a few workers end sooner than that."""

    def __init__(self) -> None:
        self._printed_at = time.monotonic()

    def __call__(self, ended: int, workers: int) -> None:
        if time.monotonic() - self._printed_at >= PROGRESS_S and ended < workers:
            self._printed_at = time.monotonic()
            render.print_message(f"{ended} of {plural(workers, 'worker')} have ended")


def _choose_scheduler(args: argparse.Namespace) -> Address:
    """Return the scheduler whose cluster to stop: the named one, else the only one that was started."""
    from weft.node.bringup import record

    if args.port is not None:
        return Address("localhost", args.port)
    if args.scheduler:
        return parse_address(args.scheduler)
    started = [parse_address(each.scheduler) for each in record.load_all()]
    named = config.effective_setting("scheduler")
    if named.origin not in ("default", config.OWN_SERVER) and named.value != config.LOCAL:
        return parse_address(named.value, named.origin)
    if len(started) > 1:
        raise InputError(
            f"{len(started)} clusters are up: {', '.join(map(str, started))}",
            hint="name one: weft cluster down --scheduler HOST:PORT",
        )
    return started[0] if started else Address("localhost", DEFAULT_PORT)


def _shorten(ended: list[str]) -> str:
    shown = ", ".join(ended[:MAX_NAMES])
    return shown if len(ended) <= MAX_NAMES else f"{shown} and {len(ended) - MAX_NAMES} more"


def _end_remotes(found: Record) -> tuple[list[str], list[Remote]]:
    """End the workers on other machines. Return the names of those that ended, and those that could not be ended."""
    from weft.node.bringup import ssh

    results = ssh.end_workers(found.remotes)
    failed = [each for each in results if each.error]
    for each in failed:
        render.print_message(f"{each.remote.name} was not stopped: {each.error}; run weft cluster down again")
    return [each.remote.name for each in results if each.ended], [each.remote for each in failed]


def _report_nothing(args: argparse.Namespace, where: Address) -> int:
    from weft.node.bringup import record

    others = ", ".join(each.scheduler for each in record.load_all())
    if args.json:
        render.print_json({"schema": 1, "scheduler": str(where), "ended": [], "jobs": 0, "left": []})
    else:
        more = f"; started clusters: {others}" if others else ""
        render.print_message(f"weft cluster started nothing for {where}{more}")
    return 0
