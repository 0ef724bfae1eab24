"""Simulate several policies on the same trace, each in a separate process, and print their figures side by side."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.cli import flags, render, uncertainty_flags, workload_flags
from weft.cli.study_output import check_out
from weft.errors import InputError, UnknownName

if TYPE_CHECKING:
    from weft.lab.compare.comparison import Comparison
    from weft.lab.report.page import Report
    from weft.lab.report.pictures import Picture, Series
    from weft.lab.report.stats import Outcome

EXAMPLE: Final = """examples:
  weft compare demo
  weft compare trace.csv --cluster 8x8 --policies fifo,tiresias,muri-l:packing=2 --json
  weft compare --from-live --since 30d
  weft compare trace.csv --cluster 8x8 --policies srtf,srsf --baseline srtf --seeds 5 --out report"""

POLICIES: Final = "fifo,srtf,srsf,tiresias,themis,muri-s,muri-l"


def configure(parser: argparse.ArgumentParser) -> None:
    workload_flags.add_arguments(parser, cluster_help="NODESxGPUS, a Muri cluster CSV, or a YAML file (demo: 4x8)")
    parser.add_argument(
        "--from-live", action="store_true", help="the ended jobs of the scheduler as the trace, and its nodes"
    )
    parser.add_argument("--since", metavar="T", help="with --from-live: only jobs submitted within T: 30d, 12h")
    flags.add_scheduler(parser)
    parser.add_argument(
        "--policies", metavar="A,B,...", default=POLICIES, help=f"policies to compare (default: {POLICIES})"
    )
    parser.add_argument(
        "--baseline",
        metavar="A",
        help="policy to compare with (default: the best by average JCT; --from-live: the scheduler's)",
    )
    parser.add_argument(
        "--out", metavar="DIR", help="write report.html, pictures (PNG and SVG) and summary.json to DIR"
    )
    parser.add_argument("--force", action="store_true", help="replace DIR, whatever it contains")
    flags.add_workers(parser)
    parser.add_argument(
        "--seeds",
        metavar="N",
        type=flags.count,
        default=1,
        help="run each policy with N seeds, print means and intervals (1)",
    )
    parser.add_argument(
        "--trim-warmup", metavar="S", type=workload_flags.seconds, default=0.0,
        help="leave jobs submitted in the first S seconds out of the JCTs",
    )  # fmt: skip
    parser.add_argument(
        "--trim-cooldown", metavar="S", type=workload_flags.seconds, default=0.0, help="the same for the last S seconds"
    )
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    policies = _policies(args)
    check_out(args)

    from weft.cli.views.lab.comparison import print_tables
    from weft.cli.views.progress_bars import ProgressBars
    from weft.lab.compare.comparison import Trim, compare_policies
    from weft.lab.compare.workload import check_names
    from weft.lab.report.stats import choose_baseline

    check_names(policies, args.placement)
    comparison = compare_policies(
        workload_flags.workload(args),
        policies,
        seeds=args.seeds,
        trim=Trim(args.trim_warmup, args.trim_cooldown),
        processes=args.workers,
        with_digests=args.out is not None,
        warn=render.print_message,
        open_progress=ProgressBars,
    )
    base = choose_baseline(comparison.outcomes, args.baseline)
    summary = _summary(args, comparison, base)
    if args.out is not None:
        _write(args, comparison, base, summary)
    if args.json:
        render.print_json(summary)
    else:
        print_tables(comparison, base, args.color)
    return _report_failures(args, comparison)


def _policies(args: argparse.Namespace) -> list[str]:
    """Return the policies to compare. Those of --from-live begin with the scheduler's, which is the baseline."""
    given = [name.strip() for name in args.policies.split(",") if name.strip()]
    policies = list(dict.fromkeys(given))
    for name in policies:
        if given.count(name) > 1:
            render.print_message(f"{name} is given {given.count(name)} times; it is compared once")
    if not policies:
        raise InputError("no policies to compare", hint=f"for example --policies {POLICIES}")
    if args.from_live:
        from weft.cli.from_live import present_policy

        if present := present_policy(args):
            policies = list(dict.fromkeys((present, *policies)))
            args.baseline = args.baseline or present
    if args.baseline is not None and args.baseline not in policies:
        raise UnknownName("baseline", args.baseline, policies)
    return policies


def _summary(args: argparse.Namespace, comparison: Comparison, base: Outcome | None) -> dict[str, object]:
    from weft.cli.views.lab.comparison import as_json

    work = comparison.workload
    return {
        **workload_flags.json_head(args, work),
        "kind": "comparison",
        "seeds": len(comparison.seeds),
        "jobs": len(work.jobs),
        "measured": comparison.measured,
        "skipped": list(work.skipped),
        "baseline": base.policy if base else None,
        "bounds": comparison.bounds,
        "policies": [as_json(comparison, result, base) for result in comparison.results],
    }


def _write(args: argparse.Namespace, comparison: Comparison, base: Outcome | None, summary: dict[str, object]) -> None:
    from weft.lab.report.folder import write_report
    from weft.sim.folder import atomic_folder

    report = _report(args, comparison, base)
    with atomic_folder(args.out, force=args.force) as folder:
        write_report(folder, report, summary)
    if render.is_for_person(args.color) and not args.json:
        render.print_message(f"wrote report.html and the pictures to {args.out}")


def _report(args: argparse.Namespace, comparison: Comparison, base: Outcome | None) -> Report:
    from weft.cli.views.lab.comparison import html_tables
    from weft.lab.report.gantt_picture import draw_gantt
    from weft.lab.report.page import Chart, Report
    from weft.lab.report.pictures import Series, draw_pictures

    series = [
        Series(result.policy, result.digest) for result in comparison.results if result.digest and not result.error
    ]
    charts = [
        Chart(each.policy, draw_gantt(each.digest.gantt), f"GPUs over time under {each.policy}") for each in series
    ]
    work = comparison.workload
    about = [("trace", work.trace), ("jobs", f"{len(work.jobs):,}"), ("measured", f"{comparison.measured:,}"),
             ("cluster", work.cluster), ("GPUs", f"{work.gpus:,}"), ("costs", args.model),
             ("seeds", ", ".join(map(str, comparison.seeds)))]  # fmt: skip
    uncertain = uncertainty_flags.json_field(args).get("uncertainty", {})
    about += [(key.replace("_", " "), str(value)) for key, value in uncertain.items()]
    return Report(
        f"{work.trace} on {Path(work.cluster).name}: {len(comparison.results)} policies compared",
        about,
        html_tables(comparison, base),
        [*draw_pictures(series, comparison.outcomes, base, comparison.bounds), *_service_pictures(series)],
        charts,
        [(result.policy, result.error) for result in comparison.results if result.error],
    )


def _service_pictures(series: Sequence[Series]) -> list[Picture]:
    from weft.lab.report.study_pictures import draw_services

    served = [(each.policy, each.digest.served) for each in series if each.digest.served is not None]
    return list(draw_services(served)) if served else []


def _report_failures(args: argparse.Namespace, comparison: Comparison) -> int:
    import json

    failed = [result for result in comparison.results if result.error]
    for result in failed:
        what = f"{result.policy}: {result.error}"
        found = {"error": {"code": "policy-failed", "message": what, "hint": ""}}
        print(json.dumps(found) if args.json else f"weft: error: {what}", file=sys.stderr)
    unfinished = any(run["unfinished"] for result in comparison.results for run in result.trials)
    return 1 if failed or unfinished else 0
