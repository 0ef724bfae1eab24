"""Simulate a policy on a trace and print its figures."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING, Final

from weft.cli import flags, render, tables, workload_flags
from weft.cli.tables import Cell
from weft.cli.views.lab import figures, services, team_figures
from weft.errors import InputError, UnknownName, nearest

if TYPE_CHECKING:
    from weft.history.metrics.figures import Record
    from weft.lab.compare.trial import Measurement
    from weft.lab.compare.workload import LoadedWorkload

EXAMPLE: Final = """examples:
  weft sim demo --policy srtf
  weft sim trace.csv.gz --cluster 56x8 --policy tiresias:thresholds=3250+7200 --out results
  weft sim trace.csv --cluster nodes.yaml --policy muri-l --json
  weft sim demo --policy fifo --explain 57 --at 8000
  weft sim demo --policy muri-l --watch 300
  weft sim --from-live --policy srsf"""

DEFAULT_POLICY: Final = "fifo"
DEFAULT_SPEED: Final = 600.0
MAX_SUGGESTIONS: Final = 2000
"""The most ids that an unknown id is compared with."""


def configure(parser: argparse.ArgumentParser) -> None:
    workload_flags.add_arguments(parser, cluster_help="NODESxGPUS, a Muri cluster CSV, or a YAML file (demo: 4x8)")
    parser.add_argument(
        "--policy",
        metavar="P",
        help="policy: NAME[:option=value...] (default: that of the config, or fifo; --from-live: the scheduler's)",
    )
    parser.add_argument(
        "--from-live", action="store_true", help="simulate what follows from the present state of the scheduler"
    )
    flags.add_scheduler(parser)
    parser.add_argument(
        "--out", metavar="DIR", help="write job.csv, cluster.csv, journal.jsonl and summary.json to DIR"
    )
    parser.add_argument("--force", action="store_true", help="replace DIR, whatever it contains")
    parser.add_argument(
        "--explain",
        metavar="JOB|SERVICE",
        help="explain why this job waits or runs, or which replicas a service has, instead of printing figures",
    )
    parser.add_argument(
        "--at",
        metavar="T",
        type=workload_flags.seconds,
        help="with --explain: the time in seconds (default: when the job is submitted; of a service, the last request)",
    )
    parser.add_argument(
        "--check-keys", action="store_true", help="fail if the policy's key of a job changes while the job waits"
    )
    parser.add_argument(
        "--watch",
        metavar="SPEED",
        nargs="?",
        const=DEFAULT_SPEED,
        type=workload_flags.seconds,
        help=f"show the simulation on the screen of weft top, SPEED seconds of it per second ({DEFAULT_SPEED:g}); "
        "P pauses, < and > change the speed",
    )
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.from_live:
        from weft.cli.from_live import simulate_present

        return simulate_present(args)
    if args.at is not None and args.explain is None:
        raise InputError("--at needs --explain JOB", hint="see weft sim --help")
    from weft.access.endpoints.config import effective_setting

    args.policy = effective_setting("policy", args.policy).value or DEFAULT_POLICY
    if args.watch is not None:
        return _watch(args)
    if args.out is not None:
        _check_out(args)

    from weft.lab.compare.trial import measure
    from weft.lab.compare.workload import check_names, load_workload

    check_names([args.policy], args.placement)
    work = load_workload(workload_flags.workload(args), [args.policy], warn=render.print_message)
    if args.explain is not None:
        return _explain(args, work)
    setting = dataclasses.replace(work.setting(args.policy), check_keys=args.check_keys)
    with render.ProgressMeter(args.policy, len(setting.jobs)) as meter:
        measured = measure(setting, meter.tick if meter.on else None)
    _warn_of_lost_jobs(args.policy, measured.record)
    summary = {**workload_flags.json_head(args, work), **measured.values, "skipped": list(work.skipped)}
    if args.out is not None:
        from weft.sim.output import write_output

        write_output(
            args.out, measured.record, measured.outcome.journal, summary, force=args.force,
            pictures=_pictures(args.policy, measured),
        )  # fmt: skip
    if args.json:
        render.print_json(summary)
    else:
        _print(args, work, measured)
    return 1 if measured.values["unfinished"] else 0


def _watch(args: argparse.Namespace) -> int:
    """Play the simulation on a screen. Return when the user leaves it."""
    if args.out is not None or args.json or args.explain is not None:
        raise InputError("--watch shows a screen and prints nothing", hint="leave out --out, --json and --explain")
    if args.watch <= 0:
        raise InputError("--watch needs a speed above 0", hint="such as --watch 60: a minute per second")
    render.require_screen("weft sim --watch")
    from weft.lab.compare.workload import check_names, load_workload

    check_names([args.policy], args.placement)
    work = load_workload(workload_flags.workload(args), [args.policy], warn=render.print_message)
    from weft.tui.app import Top
    from weft.tui.sources.simulation import SimulationSource

    Top(SimulationSource(work.setting(args.policy), f"simulation of {work.trace}", args.policy, args.watch)).run()
    return 0


def _pictures(policy: str, measured: Measurement) -> dict[str, bytes]:
    """Return the pictures of services by file name; nothing without services."""
    from weft.lab.compare.trial import served

    found = served(measured.outcome) if measured.outcome.services else None
    if found is None:
        return {}
    from weft.lab.report.study_pictures import draw_services

    return {f"{each.name}.png": each.png for each in draw_services([(policy, found)])}


def _check_out(args: argparse.Namespace) -> None:
    from weft.sim.folder import check_target

    if args.explain is not None:
        raise InputError("--explain writes no files", hint="leave out --out")
    check_target(args.out, force=args.force)


def _warn_of_lost_jobs(policy: str, record: Record) -> None:
    from weft.lab.compare.workload import shorten

    unfinished = [job.id for job in record.jobs if job.end is None]
    if unfinished:
        count, ids = len(unfinished), shorten(unfinished)
        render.print_message(f"{policy}: {count:,} jobs never ended and are not in the figures: {ids}")
    failed = [job.id for job in record.jobs if job.status == "failed"]
    if failed:
        render.print_message(
            f"{policy}: {len(failed):,} jobs failed for good and are not in the JCTs: {shorten(failed)}"
        )


def _print(args: argparse.Namespace, work: LoadedWorkload, measured: Measurement) -> None:
    values = measured.values
    title = f"{values['policy']} on {work.trace}: {values['jobs']:,} jobs, {work.gpus:,} GPUs"
    pairs = [*figures.pairs(values), ("CPU seconds", figures.cell("cpu_s", values["cpu_s"]))]
    keys = [*figures.LABELS, "cpu_s"]
    if not render.is_for_person(args.color):  # a pipe gets no title
        about = {"trace": work.trace, "policy": values["policy"], "jobs": values["jobs"],
                 "finished": values["finished"], "gpus": work.gpus}  # fmt: skip
        pairs = [*((key, Cell(str(value), raw=value)) for key, value in about.items()), *pairs]
        keys = [*about, *keys]
    tables.print_pairs(pairs, args.color, title=title, keys=keys)
    trials = [(values["policy"], values)]
    tables_of = (services.tables_of, team_figures.tables_of)
    for caption, columns, rows in [each for make in tables_of for each in make(trials, with_policy=False)]:
        print()
        tables.print_table(columns, rows, args.color, title=caption)
    if args.out is not None and render.is_for_person(args.color):
        render.print_message(f"wrote job.csv, cluster.csv, journal.jsonl and summary.json to {args.out}")


def _explain(args: argparse.Namespace, work: LoadedWorkload) -> int:
    if any(each.service.name == args.explain for each in work.services):
        return _explain_service(args, work)
    submitted = {each.job.id: each.submit_s for each in work.jobs}
    if args.explain not in submitted:
        few = [name for name in submitted if abs(len(name) - len(args.explain)) < 2]
        few = few[:MAX_SUGGESTIONS] or list(submitted)[:MAX_SUGGESTIONS]
        raise UnknownName("job", args.explain, nearest(args.explain, few)[:5], where=args.trace)
    at = submitted[args.explain] if args.at is None else args.at
    if at < submitted[args.explain]:
        what = f"job {args.explain} is not submitted yet at {at} s"
        raise InputError(what, hint=f"give --at {submitted[args.explain]} or later")
    from weft.scheduling.core.explain import explain
    from weft.sim.simulation import simulate

    outcome = simulate(work.setting(args.policy), until=at)
    found = explain(outcome.scheduler, args.explain, at=at)
    if args.json:
        from weft.views.answers.explain import ahead_of, reasons_of, unblock_of

        render.print_json({
            **workload_flags.json_head(args, work), "policy": args.policy, "at_s": at, "job": found.job, "at": found.at,
            "status": found.status, "reasons": reasons_of(found), "position": found.position,
            "waiting": found.waiting, "ahead": ahead_of(found), "unblock": unblock_of(found),
        })  # fmt: skip
    else:
        print("\n".join(found.lines()))
    return 0


def _explain_service(args: argparse.Namespace, work: LoadedWorkload) -> int:
    from weft.scheduling.core.explain_services import explain_service
    from weft.sim.simulation import simulate

    workload = next(each for each in work.services if each.service.name == args.explain)
    at = workload.arrivals.horizon_s if args.at is None else args.at
    outcome = simulate(work.setting(args.policy), until=at)
    if args.explain not in outcome.state.services.by_name:
        raise InputError(
            f"service {args.explain} is gone at {at:g} s", hint=f"give --at up to {workload.arrivals.horizon_s:g}"
        )
    found = explain_service(outcome.scheduler, args.explain, at=at)
    if args.json:
        from dataclasses import asdict

        values = {**asdict(found), "holders": dict(found.holders)}
        render.print_json({**workload_flags.json_head(args, work), "policy": args.policy, "at_s": at, **values})
    else:
        print("\n".join(found.lines()))
    return 0
