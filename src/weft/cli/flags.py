"""Flags that several commands share, and the parsers of their values."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from weft.cli import render
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.access.client.filters import Filters

MAX_WHOLE: Final = 999_999_999


def whole_number(low: int = 0, high: int = MAX_WHOLE) -> Callable[[str], int]:
    """Return an argparse type for whole numbers from `low` to `high`."""

    def read(text: str) -> int:
        from weft.inputs.quantities import parse_whole_or_none

        found = parse_whole_or_none(text, low, high)
        if found is None:
            raise argparse.ArgumentTypeError(f"expected a whole number from {low:,} to {high:,}, found {text[:80]!r}")
        return found

    return read


count: Final = whole_number(1, 1000)
"""A number of workers or seeds."""
port: Final = whole_number(1, 65535)


def seconds_or_zero(text: str) -> float:
    """Parse seconds as `seconds` does, or 0."""
    return 0.0 if text in ("0", "0.0") else seconds(text)


def share_or_zero(text: str) -> float:
    """Parse a share of a core: from a hundredth to 1, or 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if value and not 0.01 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"expected a share from 0.01 to 1, or 0, found {text[:80]!r}")
    return value


def seconds_or_duration(text: str) -> float:
    """Parse seconds, or a duration with its unit such as 2m; 0 is allowed."""
    if not (text[-1:].isalpha() or ":" in text):
        return seconds_or_zero(text)
    from weft.inputs.quantities import parse_duration_or_zero

    try:
        return parse_duration_or_zero(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(f"{error.what}: give seconds, or a unit as in 90s or 2m") from None


def plugin(text: str) -> str:
    """Parse a policy or placement for a scheduler: the path of a file becomes absolute."""
    from weft.scheduling.plugins.registry import absolute_spec

    return absolute_spec(text)


def seconds(text: str) -> float:
    """Parse seconds: from a tenth of a second to a day."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 86400:
        raise argparse.ArgumentTypeError(f"expected seconds from 0.1 to 86,400, found {text[:80]!r}")
    return value


def since_s(text: str) -> float:
    """Parse the value of --since: how many seconds ago."""
    from weft.inputs.quantities import parse_duration

    try:
        return parse_duration(text)
    except InputError as error:
        raise InputError(f"--since: {error.what}", hint=error.hint) from None


def add_jobs(parser: argparse.ArgumentParser, *, several: bool = True, needed: bool = True) -> None:
    """Add the argument that names jobs."""
    text = "id, array task such as 7_3, name, GROUP/NAME, @ (the last job), @~1 (the one before)" + (
        ", 3-7" if several else ""
    )
    if several:
        parser.add_argument("jobs", metavar="JOB", nargs="+" if needed else "*", help=text)
    else:
        parser.add_argument("job", metavar="JOB", help=text)


def add_jobs_or_all(parser: argparse.ArgumentParser, help: str) -> None:
    """Add jobs by name, and --all. `check_jobs_or_all` checks that exactly one of the two is given."""
    add_jobs(parser, needed=False)
    parser.add_argument("--all", action="store_true", help=help)


def check_jobs_or_all(args: argparse.Namespace) -> None:
    if args.jobs and args.all:
        raise InputError("jobs and --all are both given", hint="give one or the other")
    if not args.jobs and not args.all:
        raise InputError("no jobs named", hint="name jobs, or give --all")


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Add the flags that select jobs of the queue or the history. `filters_of` returns their values."""
    parser.add_argument("--group", metavar="G", help="only jobs of this group")
    parser.add_argument(
        "-t",
        "--state",
        metavar="STATE",
        action="append",
        help="only jobs in these states: PD, running, F,TO",
    )
    parser.add_argument("--name", metavar="GLOB", help="only jobs whose name matches, such as 'train-*'")
    parser.add_argument("--user", metavar="U", help="only jobs of this user")
    parser.add_argument("--failed", action="store_true", help="only failed jobs, as -t failed")


def filters_of(args: argparse.Namespace) -> Filters:
    states = [word.strip() for text in args.state or () for word in text.split(",")] + ["failed"] * args.failed
    found: Filters = {"group": args.group or "", "name": args.name or "", "user": args.user or "", "states": states}
    return found


def add_common(parser: argparse.ArgumentParser, *, json: bool = True) -> None:
    """Add the flags of every command that talks to a scheduler: --scheduler, --json, --color."""
    add_scheduler(parser)
    render.add_arguments(parser, json=json)


def add_scheduler(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scheduler", metavar="HOST:PORT",
        help="scheduler of a cluster; local: your scheduler of this machine (default: WEFT_SCHEDULER, scheduler: in "
        "the config file, your weft server at localhost:50051, or local)",
    )  # fmt: skip


def add_preemption_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--min-run",
        metavar="S",
        type=seconds_or_duration,
        help="do not preempt a run in its first S seconds (60); also 2m",
    )
    parser.add_argument(
        "--max-preemptions",
        metavar="N",
        type=whole_number(),
        help="do not preempt a job again that was preempted N times (10)",
    )


def add_workers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", metavar="N", type=count, help="processes to run at a time (default: one per CPU)")
