"""GPU-hours by user, group, team or GPU model, and how well jobs used what they held.

The figures come from the journal, by the same code as those of weft metrics. GPUs are sampled every ten seconds while
jobs run; energy is known where the driver reports it.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from weft.cli import flags, render, tables
from weft.cli.tables import Cell, Column
from weft.errors import NotFound

if TYPE_CHECKING:
    from weft.history.metrics.history import History
    from weft.history.metrics.usage import JobUsage, UsageRow

EXAMPLE: Final = """examples:
  weft usage
  weft usage --since 7d --by model
  weft usage --by group --user ada --json
  weft usage --by team
  weft usage 7"""

DEFAULT_SINCE: Final = "30d"
BY: Final = ("user", "group", "team", "model")
JOULES_PER_KWH: Final = 3.6e6


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", metavar="JOB", nargs="*", help="how well this job, or array, used what it held")
    parser.add_argument("--since", metavar="T", help=f"GPU time within T: 7d, 12h (default: {DEFAULT_SINCE})")
    parser.add_argument(
        "--by", choices=BY, default="user", help="one row per user, group, team or GPU model (default: user)"
    )
    parser.add_argument("--user", metavar="U", default="", help="only jobs of this user")
    parser.add_argument("--group", metavar="G", default="", help="only jobs of this group")
    parser.add_argument("--team", metavar="T", default="", help="only jobs of this team, or of teams below it")
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    import time

    from weft.cli import live_history
    from weft.history.metrics.usage import job_usages
    from weft.model.team import departments

    history = live_history.read(args.scheduler)
    since_s = flags.since_s(args.since or DEFAULT_SINCE) if not args.jobs or args.since else None
    since = float("-inf") if since_s is None else time.time() - since_s
    found = job_usages(history.record.jobs, history.usage, since)
    found = [job for job in found if args.user in ("", job.user) and args.group in ("", job.group)]
    found = [job for job in found if args.team in ("", *departments(job.team))]
    if args.jobs:
        return _show_jobs(args, history, found)
    return _show_rows(args, found)


# ---- rows


def _show_rows(args: argparse.Namespace, found: list[JobUsage]) -> int:
    from weft.history.metrics.usage import usage_by

    rows = usage_by(found, args.by)
    if args.json:
        window = args.since or DEFAULT_SINCE
        render.print_json({"schema": 1, "since": window, "by": args.by, "rows": [_row_json(row) for row in rows]})
        return 0
    columns = (
        Column(args.by.upper(), max_width=30), Column("JOBS", right=True), Column("GPU-HOURS", right=True),
        Column("GPU BUSY", right=True), Column("ENERGY", right=True),
    )  # fmt: skip
    tables.print_table(columns, [_cells(row) for row in rows], args.color)
    return 0


def _row_json(row: UsageRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "jobs": row.jobs,
        "gpu_hours": round(row.gpu_s / 3600, 6),
        "gpu_utilisation": None if row.utilisation is None else round(row.utilisation, 4),
        "energy_kwh": round(row.energy_j / JOULES_PER_KWH, 6) if row.metered else None,
    }


def _cells(row: UsageRow) -> list[Cell]:
    energy = f"{row.energy_j / JOULES_PER_KWH:,.2f} kWh" if row.metered else "-"
    hours = Cell(f"{row.gpu_s / 3600:,.2f}", "", row.gpu_s / 3600)
    return [
        Cell(row.name or "-"),
        Cell(f"{row.jobs:,}", "", row.jobs),
        hours,
        _percent(row.utilisation),
        Cell(energy),
    ]


def _percent(value: float | None) -> Cell:
    return Cell("-" if value is None else f"{value:.0%}", "", value)


# ---- jobs


def _show_jobs(args: argparse.Namespace, history: History, found: list[JobUsage]) -> int:
    chosen = [usage for name in args.jobs for usage in _named(name, history, found)]
    if args.json:
        render.print_json({"schema": 1, "jobs": [_job_json(usage, history) for usage in chosen]})
        return 0
    for at, usage in enumerate(chosen):
        if at:
            print()
        tables.print_pairs(_pairs(usage, history), args.color)
    return 0


def _named(name: str, history: History, found: list[JobUsage]) -> list[JobUsage]:
    """Return the jobs that a user means: by id, by array, or the last one of a name."""
    by_id = {usage.id: usage for usage in found}
    if name in by_id:
        return [by_id[name]]
    if tasks := [usage for usage in found if history.jobs[usage.id].batch == name]:
        return tasks
    if named := [usage for usage in found if history.jobs[usage.id].name == name]:
        return named[-1:]
    known = name in history.jobs
    why = "it has not run yet" if known else "weft history lists ended jobs"
    raise NotFound(f"no usage of a job {name[:80]!r} is known\n  {why}")


def _job_json(usage: JobUsage, history: History) -> dict[str, Any]:
    from weft.history.metrics.advice import advise, cpu_share, memory_share

    job, use = history.jobs[usage.id], usage.use
    return {
        "id": usage.id, "name": job.name, "user": usage.user, "group": usage.group, "team": usage.team,
        "status": usage.status,
        "gpus": usage.gpus, "run_s": round(usage.run_s, 3), "gpu_hours": round(usage.total_gpu_s / 3600, 6),
        "models": {model: round(gpu_s / 3600, 6) for model, gpu_s in usage.gpu_s.items()},
        "gpu_utilisation": usage.utilisation, "sampled_s": use.sampled_s if use else 0.0,
        "memory_mb": use.memory_mb or None if use else None, "memory_reserved_mb": job.memory_mb.max or None,
        "memory_share": memory_share(usage, job), "cpu_s": use.cpu_s if use and use.cpu_s else None,
        "cpu_share": cpu_share(usage, job), "rss_mb": use.rss_mb or None if use else None,
        "energy_kwh": None if usage.energy_j is None else usage.energy_j / JOULES_PER_KWH,
        "advice": advise(usage, job),
    }  # fmt: skip


def _pairs(usage: JobUsage, history: History) -> list[tuple[str, Cell]]:
    from weft.text import format_duration

    found = _job_json(usage, history)
    reserved, used = found["memory_reserved_mb"], found["memory_mb"]
    memory = f"{used:,} MB of {reserved:,} MB reserved" if used and reserved else f"{used:,} MB" if used else "-"
    cpu = "-" if found["cpu_s"] is None else format_duration(found["cpu_s"])
    if found["cpu_share"] is not None:
        cpu += f", {found['cpu_share']:.0%} of its CPUs"
    models = ", ".join(f"{hours:,.2f} h {model or 'of unnamed GPUs'}" for model, hours in found["models"].items())
    energy = "-" if found["energy_kwh"] is None else f"{found['energy_kwh']:,.3f} kWh"
    busy = "not sampled" if usage.utilisation is None else f"{usage.utilisation:.0%} busy"
    pairs = [
        ("job", f"{usage.id} ({found['name']})" if found["name"] else usage.id), ("user", usage.user or "-"),
        ("status", usage.status), ("ran for", format_duration(usage.run_s)), ("GPU time", models or "-"),
        ("GPUs", busy if usage.gpus else "none"), ("GPU memory", memory), ("CPU time", cpu),
        ("main memory", f"{found['rss_mb']:,} MB in one process" if found["rss_mb"] else "-"), ("energy", energy),
        *(("advice", text) for text in found["advice"]),
    ]  # fmt: skip
    return [(label, Cell(text)) for label, text in pairs]
