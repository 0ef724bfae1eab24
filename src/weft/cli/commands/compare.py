"""Runs several policies on the same trace, each in a process of its own, and lays their figures side by side."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weft.cli import flags, render
from weft.compare import workload
from weft.errors import InputError, UnknownName

if TYPE_CHECKING:
    from weft.compare.comparison import Contest
    from weft.report.page import Report
    from weft.report.stats import Outcome

EXAMPLE: Final = """examples:
  weft compare demo
  weft compare trace.csv --cluster 8x8 --policies fifo,tiresias,muri-l:packing=2 --json
  weft compare trace.csv --cluster 8x8 --policies srtf,srsf --baseline srtf --seeds 5 --out report"""

POLICIES: Final = "fifo,srtf,srsf,tiresias,themis,muri-s,muri-l"


def configure(parser: argparse.ArgumentParser) -> None:
    workload.add_arguments(parser, cluster_help="NODESxGPUS, a Muri cluster CSV, or a YAML file (of demo: 4x8)")
    parser.add_argument("--policies", metavar="A,B,...", default=POLICIES, help=f"default: {POLICIES}")
    parser.add_argument("--baseline", metavar="A", help="to compare with (default: the best by average JCT)")
    parser.add_argument("--out", metavar="DIR", help="write report.html, pictures (PNG and SVG) and summary.json here")
    parser.add_argument("--force", action="store_true", help="replace DIR whatever is in it")
    flags.add_workers(parser)
    parser.add_argument("--seeds", metavar="N", type=flags.count, default=1, help="N seeds each: means, intervals (1)")
    parser.add_argument(
        "--trim-warmup", metavar="S", type=workload.seconds, default=0.0,
        help="leave jobs that are submitted in the first S seconds out of the JCTs",
    )  # fmt: skip
    parser.add_argument(
        "--trim-cooldown", metavar="S", type=workload.seconds, default=0.0, help="the same of the last S seconds"
    )
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    given = [name.strip() for name in args.policies.split(",") if name.strip()]
    policies = list(dict.fromkeys(given))
    for name in policies:
        if given.count(name) > 1:
            render.say(f"{name} is named {given.count(name)} times; it is compared once")
    if not policies:
        raise InputError("no policies to compare", hint=f"such as --policies {POLICIES}")
    if args.baseline is not None and args.baseline not in policies:
        raise UnknownName("baseline", args.baseline, policies)
    if args.out is not None:
        _check_out(args)
    workload.check_names(args, policies)

    from weft.cli.views.comparison import print_tables
    from weft.compare.comparison import hold
    from weft.compare.process_pool import cpus
    from weft.report.stats import baseline

    args.workers = args.workers or cpus()
    contest = hold(args, policies, draw=args.out is not None)
    base = baseline(contest.outcomes, args.baseline)
    summary = _summary(args, contest, base)
    if args.out is not None:
        _write(args, contest, base, summary)
    if args.json:
        render.print_json(summary)
    else:
        print_tables(contest, base, args.color)
    return _say_failed(args, contest)


def _check_out(args: argparse.Namespace) -> None:
    from weft.report.folder import is_ours
    from weft.sim.folder import check_target

    args.force = args.force or (bool(args.out) and is_ours(Path(args.out)))
    check_target(args.out, force=args.force)


def _summary(args: argparse.Namespace, contest: Contest, base: Outcome | None) -> dict[str, Any]:
    from weft.cli.views.comparison import as_json

    work = contest.work
    return {
        **work.head(args),
        "kind": "comparison",
        "seeds": len(contest.seeds),
        "jobs": len(work.jobs),
        "measured": contest.measured,
        "skipped": list(work.skipped),
        "baseline": base.policy if base else None,
        "bounds": contest.bounds,
        "policies": [as_json(contest, entry, base) for entry in contest.entries],
    }


def _write(args: argparse.Namespace, contest: Contest, base: Outcome | None, summary: dict[str, Any]) -> None:
    from weft.report.folder import write_report
    from weft.sim.folder import all_or_nothing

    report = _report(args, contest, base)
    with all_or_nothing(args.out, force=args.force) as folder:
        write_report(folder, report, summary)
    if render.is_rich(args.color) and not args.json:
        render.say(f"wrote report.html and the pictures to {args.out}")


def _report(args: argparse.Namespace, contest: Contest, base: Outcome | None) -> Report:
    from weft.cli.views.comparison import html_tables
    from weft.report.gantt_picture import gantt_png
    from weft.report.page import Chart, Report
    from weft.report.pictures import Series, pictures

    series = [Series(entry.policy, entry.drawn) for entry in contest.entries if entry.drawn and not entry.failed]
    charts = [Chart(each.policy, gantt_png(each.drawn.gantt), f"GPUs over time under {each.policy}") for each in series]
    work = contest.work
    about = [("trace", work.trace), ("jobs", f"{len(work.jobs):,}"), ("measured", f"{contest.measured:,}"),
             ("cluster", work.cluster), ("GPUs", f"{work.gpus:,}"), ("costs", args.model),
             ("seeds", ", ".join(map(str, contest.seeds)))]  # fmt: skip
    uncertain = work.head(args).get("uncertainty", {})
    about += [(key.replace("_", " "), str(value)) for key, value in uncertain.items()]
    return Report(
        f"{work.trace} on {Path(work.cluster).name}: {len(contest.entries)} policies compared",
        about,
        html_tables(contest, base),
        list(pictures(series, contest.outcomes, base, contest.bounds)),
        charts,
        [(entry.policy, entry.failed) for entry in contest.entries if entry.failed],
    )


def _say_failed(args: argparse.Namespace, contest: Contest) -> int:
    import json

    failed = [entry for entry in contest.entries if entry.failed]
    for entry in failed:
        what = f"{entry.policy}: {entry.failed}"
        found = {"error": {"code": "policy-failed", "message": what, "hint": ""}}
        print(json.dumps(found) if args.json else f"weft: error: {what}", file=sys.stderr)
    unfinished = any(run["unfinished"] for entry in contest.entries for run in entry.runs)
    return 1 if failed or unfinished else 0
