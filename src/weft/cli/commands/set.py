"""Change a waiting job. It keeps its id, and jobs that depend on it still do."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags
from weft.cli.views import change_report
from weft.errors import InputError

EXAMPLE: Final = """keys: name, priority, gpus, memory, cpus, mem, time, duration, retries, comment, after, begin,
gpu_ids, grace, min_run, group, max_jobs_per_gpu, share, requeue, requeue_exit, signal, deadline, notify; of an array:
limit

examples:
  weft set 7 priority=10
  weft set train gpus=2 memory=8G time=2h
  weft set 7 limit=4"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="id, array task such as 7_3, name, @ (the last job), @~1, 3-7")
    parser.add_argument("settings", metavar="KEY=VALUE", nargs="+", help="keys and values as in the flags of submit")
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    settings: dict[str, str] = {}
    for text in args.settings:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"{text[:80]!r} is not KEY=VALUE", hint="for example priority=10")
        if key in settings:
            raise InputError(f"{key} is set twice", hint="set each key once")
        settings[key] = value
    with connection.connect(args.scheduler) as client:
        return change_report.report(args, "changed", client.change("set", [args.job], settings=settings))
