"""Explain why a job waits: the reasons, its position in the queue, the jobs ahead, and when it may start.

Of a service: how many replicas are wanted and why, and which runs hold the GPUs that the missing ones wait for."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render
from weft.cli.views import job_table
from weft.errors import NotFound
from weft.model.status import Reason
from weft.text import escape_controls, escape_lines, format_duration, format_time, plural

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.views.answers.explain import ExplainView

EXAMPLE: Final = """examples:
  weft why 7
  weft why train --json
  weft why chat
  weft why chat/0"""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_jobs(parser, several=False)
    parser.add_argument("--no-forecast", action="store_true", help="do not ask when the job will start and end")
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    with connection.connect(args.scheduler) as client:
        try:
            found = client.explain(args.job, forecast=not args.no_forecast)
        except NotFound:
            if _explain_service(client, args):
                return 0
            raise
    if args.json:
        render.print_json(found)
        return 0
    for line in _lines(found):
        print(escape_lines(line).replace("\n", "\n  "))
    return 0


def _explain_service(client: Client, args: argparse.Namespace) -> bool:
    """Explain the service of this name. Return False if there is none."""
    from weft.cli.views.live_services import explain_lines, named_services

    for service in named_services(client, [args.job]):
        if args.json:
            render.print_json(service)
        else:
            print("\n".join(map(escape_controls, explain_lines(service))))
        return True
    return False


def _lines(found: ExplainView) -> list[str]:
    name = f" ({found.name})" if found.name else ""
    lines = [f"job {found.job}{name} is {found.status}"]
    if found.tasks is not None:
        lines.insert(0, f"array {found.array}{name}: {job_table.format_tasks(found.tasks)}")
    codes = [f"{reason.code}: " * (reason.code != Reason.NONE) for reason in found.reasons]
    lines += [f"  {code}{reason.text}" for code, reason in zip(codes, found.reasons, strict=True)]
    if found.position is not None:
        lines.append(f"  position: {found.position} of {found.waiting} waiting")
    if found.ahead:
        shown = [f"{each.job} ({each.user}, {plural(each.gpus, 'GPU')})" for each in found.ahead]
        more = (found.position or 1) - 1 - len(shown)
        lines.append(f"  ahead: {', '.join(shown)}" + (f" and {more} more" if more > 0 else ""))
    lines += [f"  {line}" for line in (*_expected(found), *_forecast(found))]
    return lines


def _expected(found: ExplainView) -> list[str]:
    """Return which jobs have to end first. The time of that is no start where jobs are ahead: a forecast has that."""
    unblock = found.unblock
    if unblock is None:
        return []
    if not unblock.jobs:
        return ["expected start: soon"]
    from weft.views.answers.forecast_words import unblock_text

    ended = unblock_text(unblock)
    if found.forecast is not None and found.forecast.start_p50 is not None:
        return [f"expected start: {ended}"]
    if unblock.in_s is None:
        return [f"expected start: {ended}; the time is unknown without --time or --duration"]
    earliest = "not before " if found.ahead else ""
    at = f"{earliest}{format_time(found.expected_start)}, in about {format_duration(unblock.in_s)}"
    return [f"expected start: {at}, {ended}"]


def _forecast(found: ExplainView) -> list[str]:
    if found.forecast is None:
        return []
    from weft.views.answers.forecast_words import forecast_pairs

    return [f"{label}: {text}" for label, text in forecast_pairs(found.forecast)]
