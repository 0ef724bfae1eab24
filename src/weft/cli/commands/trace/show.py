"""Show a trace: counts, arrivals, sizes, durations, users, models, and the load that it offers to a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from weft.cli import render, tables, workload_flags
from weft.cli.tables import Cell, Column
from weft.errors import InputError
from weft.text import format_duration

if TYPE_CHECKING:
    from weft.sim.traces.trace import Trace

EXAMPLE: Final = """examples:
  weft trace show demo --cluster 4x8
  weft trace show philly.csv.gz --cluster 56x8 -o philly.png"""

SPREADS: Final = {
    "duration_s": "duration",
    "interarrival_s": "gap between arrivals",
    "gpus": "GPUs",
    "memory_mb": "memory per GPU, MB",
}
PICTURES: Final = (".png", ".svg")
MAX_NAMES: Final = 10
BAR_WIDTH: Final = 30
EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
DURATIONS_S: Final = (60, 600, 3600, 6 * 3600, 86400, 7 * 86400)
DURATION_LABELS: Final = ("under 1m", "1m to 10m", "10m to 1h", "1h to 6h", "6h to 1d", "1d to 7d", "7d and more")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="CSV or JSONL, gzipped or not; demo: the built-in trace")
    parser.add_argument("--cluster", metavar="SPEC", help="show the load on this cluster: NODESxGPUS or a cluster file")
    parser.add_argument(
        "--format", choices=workload_flags.FORMATS, default="auto", help="format of the trace (by its header)"
    )
    parser.add_argument(
        "--seed", metavar="N", type=workload_flags.WHOLE, default=0, help="seed for values missing from the trace (0)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="also draw a picture: .png or .svg")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")


def run(args: argparse.Namespace) -> int:
    from weft.lab.compare.workload import open_trace
    from weft.sim.clusters.reader import read_cluster
    from weft.sim.traces.stats import survey

    if args.output is not None:
        _check_picture(args.output, force=args.force)
    gpus = None if args.cluster is None else sum(len(node.gpus) for node in read_cluster(args.cluster))
    trace = open_trace(args.trace, format=args.format, seed=args.seed)
    found = survey(trace, gpus)
    if args.output is not None:
        _draw(trace, gpus, args.output)
    if args.json:
        render.print_json({"schema": 1, **found, "cluster": args.cluster})
        return 0
    _print_counts(found, args)
    _print_spreads(found, args)
    _print_bars("by GPUs", "gpus", found["jobs_by_gpus"], args)
    _print_bars("by duration", "duration", _by_duration(trace), args)
    _print_bars("by model", "model", _top(found["jobs_by_model"]), args)
    _print_bars("by user", "user", _top(found["jobs_by_user"]), args)
    return 0


def _check_picture(path: str, *, force: bool) -> None:
    from weft.inputs.files import check_target

    if not path.endswith(PICTURES):
        raise InputError("unknown picture format", where=path, hint=f"use {' or '.join(PICTURES)}")
    check_target(path, force=force)
    if not Path(path).absolute().parent.is_dir():
        raise InputError(
            "no such directory", where=str(Path(path).parent), hint="create it first, or give another path"
        )


def _draw(trace: Trace, gpus: int | None, path: str) -> None:
    from weft.inputs.files import write_file
    from weft.lab.report.trace_picture import draw_trace

    jobs = [(each.submit_s, each.job.gpus, each.work_s) for each in trace.jobs]
    format: Literal["png", "svg"] = "svg" if path.endswith(".svg") else "png"
    write_file(path, draw_trace(trace.name, jobs, cluster_gpus=gpus, format=format))
    render.print_message(f"drew {path}")


def _print_counts(found: Mapping[str, Any], args: argparse.Namespace) -> None:
    keys: list[str] = []
    pairs: list[tuple[str, Cell]] = []
    for key, label, shown in (
        ("jobs", "jobs", "{:,}"),
        ("span_s", "first to last arrival", ""),
        ("arrivals_per_h", "arrivals per hour", "{:,.2f}"),
        ("gpu_hours", "work, GPU-hours", "{:,.1f}"),
        ("users", "users", "{:,}"),
        ("cluster_gpus", "GPUs of the cluster", "{:,}"),
        ("offered_load", "offered load", "{:.2f}"),
    ):
        if key in found:
            value = found[key]
            text = "-" if value is None else shown.format(value) if shown else format_duration(value)
            keys.append(key)
            pairs.append((label, Cell(text, raw=value)))
    tables.print_pairs(pairs, args.color, title=f"{found['trace']} ({found['format']})", keys=keys)


def _print_spreads(found: Mapping[str, Any], args: argparse.Namespace) -> None:
    rows: list[list[Cell]] = []
    columns = list(found["duration_s"])
    for key, label in SPREADS.items():
        values = found[key]
        if values is not None:
            cells = [Cell(_human(key, value), raw=value) for value in values.values()]
            rows.append([Cell(label, raw=key), *cells])
    _gap(args)
    heads = [Column("", key="figure"), *(Column(name, key=name) for name in columns)]
    tables.print_table(heads, rows, args.color, tabs=True)


def _human(key: str, value: float) -> str:
    if key.endswith("_s"):
        return format_duration(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _by_duration(trace: Trace) -> dict[str, int]:
    counts = dict.fromkeys(DURATION_LABELS, 0)
    for each in trace.jobs:
        counts[DURATION_LABELS[sum(each.work_s >= limit for limit in DURATIONS_S)]] += 1
    return counts


def _top(counts: Mapping[str, int]) -> dict[str, int]:
    names = list(counts)
    shown = {name: counts[name] for name in names[:MAX_NAMES]}
    if len(names) > MAX_NAMES:
        shown[f"{len(names) - MAX_NAMES:,} others"] = sum(counts[name] for name in names[MAX_NAMES:])
    return shown


def _print_bars(title: str, kind: str, counts: Mapping[Any, int], args: argparse.Namespace) -> None:
    """Print a bar per name on a terminal, and `kind<TAB>name<TAB>count` in a pipe."""
    if not counts:
        return
    if not render.is_for_person(args.color):
        for name, count in counts.items():
            print(f"by_{kind}", name, count, sep="\t")
        return
    _gap(args)
    total, most = sum(counts.values()), max(counts.values())
    rows = [
        [Cell(str(name)), Cell(f"{count:,}"), Cell(f"{count / total:.1%}"), Cell(bar(count / most))]
        for name, count in counts.items()
    ]  # fmt: skip
    columns = [Column(title), Column("jobs", right=True), Column("", right=True), Column("")]
    tables.print_table(columns, rows, args.color)


def bar(part: float, width: int = BAR_WIDTH) -> str:
    """Draw a bar in eighths of a character. A part over 0 gets at least one eighth."""
    eighths = round(part * width * 8) or (1 if part else 0)
    return EIGHTHS[8] * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _gap(args: argparse.Namespace) -> None:
    if render.is_for_person(args.color):
        print()
