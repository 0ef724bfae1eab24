"""Reproduce the figures of a paper: the simulations of Muri (SIGCOMM'22), figures 9 to 13, or all studies of Dilu."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.cli import flags, render, tables, workload_flags
from weft.cli.study_output import check_out
from weft.cli.tables import Cell, Column
from weft.text import format_duration

if TYPE_CHECKING:
    from weft.lab.report.muri_pictures import Row
    from weft.sim.traces.variants import Variants

EXAMPLE: Final = """examples:
  weft figures muri trace-data
  weft figures muri trace-data --cluster 8x8 --out muri-figures
  weft figures dilu data --out dilu-figures"""

COLUMNS: Final = {"avg_jct_s": "avg JCT", "makespan_s": "makespan", "p99_jct_s": "p99"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paper", choices=("muri", "dilu"), help="the paper")
    parser.add_argument(
        "folder",
        metavar="DIR",
        help="folder with the paper's data: trace1.csv to trace4.csv; instances-N.txt, rps_NAME.txt, a100_MODEL.csv",
    )
    parser.add_argument("--cluster", metavar="SPEC", default="8x8", help="NODESxGPUS or a file (default: 8x8)")
    parser.add_argument("--out", metavar="OUT", help="write the figures as PNG and SVG, and figures.csv, to OUT")
    parser.add_argument("--force", action="store_true", help="replace OUT, whatever it contains")
    flags.add_workers(parser)
    parser.add_argument(
        "--seed", metavar="N", type=workload_flags.WHOLE, default=0, help="seed for the models of missing mixes (0)"
    )
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from weft.lab.report.muri_pictures import relative_rows
    from weft.sim.traces.variants import find_variants

    check_out(args)
    if args.paper == "dilu":
        from weft.cli.views.lab.dilu_figures import run_dilu

        return run_dilu(args)
    variants = find_variants(Path(args.folder), args.seed)
    _report_made(variants)
    ran, failures = _run_all(args, variants)
    table = list(relative_rows(ran, [each.name for each in variants.traces], [each.name for each in variants.mixes]))
    summary = _summary(args, variants, table, failures)
    if args.out is not None:
        _write(args, table, summary)
    if args.json:
        render.print_json(summary)
    else:
        _print(args, table)
    for what in failures:
        render.print_message(f"error: {what}")
    return 1 if failures else 0


def _report_made(variants: Variants) -> None:
    if variants.missing:
        render.print_message(f"left out (no file): {', '.join(variants.missing)}")
    for each in (*variants.traces, *variants.mixes):
        if each.made:
            render.print_message(f"{each.name}: {each.made} (no file)")


def _run_all(
    args: argparse.Namespace, variants: Variants
) -> tuple[dict[tuple[str, str], Mapping[str, float]], list[str]]:
    """Run every variant under every policy that a figure needs, each pair once. Return figures and failures."""
    from weft.cli.views.progress_bars import ProgressBars
    from weft.lab.compare.process_pool import TaskFailure, count_cpus, run_all
    from weft.lab.compare.trial import Trial, pack
    from weft.lab.compare.trial import run as run_trial
    from weft.lab.report.muri_pictures import PLANS
    from weft.scheduling.plugins import registry
    from weft.sim.clusters.feasible_jobs import split_feasible
    from weft.sim.clusters.reader import read_cluster
    from weft.sim.costs.muri import QUIRKS, Quirks
    from weft.sim.simulation import Setting

    nodes = read_cluster(args.cluster)
    placements = [
        registry.load_placement(name) for name in dict.fromkeys(each.placement for each in (Quirks(), *QUIRKS.values()))
    ]
    wanted: dict[tuple[str, str], Trial] = {}
    sizes: list[int] = []
    for of_mixes, group in ((False, variants.traces), (True, variants.mixes)):
        policies = dict.fromkeys(name for plan in PLANS if plan.mixes == of_mixes for name in plan.policies)
        for each in group:
            jobs, left_out = split_feasible(each.jobs, nodes, placements)
            if left_out:
                render.print_message(f"{each.name}: left out {len(left_out):,} jobs that do not fit on {args.cluster}")
            if jobs:
                packed = pack(Setting(nodes, jobs, "fifo", model="muri"))
                wanted |= {(each.name, policy): Trial(packed, policy, args.seed) for policy in policies}
                sizes += [len(jobs)] * len(policies)
    with ProgressBars([name for name, _ in wanted], sizes) as bars:
        results = run_all(run_trial, list(wanted.values()), args.workers or count_cpus(), bars)
    done = dict(zip(wanted, results, strict=True))
    failures = [f"{key[0]}, {key[1]}: {found.reason}" for key, found in done.items() if isinstance(found, TaskFailure)]
    return {key: found.values for key, found in done.items() if not isinstance(found, TaskFailure)}, failures


def _summary(
    args: argparse.Namespace, variants: Variants, table: Sequence[Row], failures: Sequence[str]
) -> dict[str, object]:
    return {
        "schema": 1,
        "kind": "figures",
        "paper": args.paper,
        "cluster": args.cluster,
        "seed": args.seed,
        "missing": list(variants.missing),
        "made": {each.name: each.made for each in (*variants.traces, *variants.mixes) if each.made},
        "failures": list(failures),
        "rows": [
            {"figure": row.figure, "trace": row.variant, "policy": row.policy, "baseline": row.baseline,
             **{key: row.values[key] for key in COLUMNS}, "normalised": dict(row.relative)}
            for row in table
        ],
    }  # fmt: skip


def _write(args: argparse.Namespace, table: Sequence[Row], summary: dict[str, object]) -> None:
    from weft.lab.report.folder import write_csv, write_pictures, write_summary
    from weft.lab.report.muri_pictures import draw_figures
    from weft.sim.folder import atomic_folder

    pictures = list(draw_figures(table))
    columns = ("figure", "trace", "policy", "baseline", *COLUMNS, *(f"{key.removesuffix('_s')}_x" for key in COLUMNS))
    with atomic_folder(args.out, force=args.force) as folder:
        write_pictures(folder, pictures)
        write_csv(folder / "figures.csv", columns, map(_cells, table))
        write_summary(folder, summary)


def _cells(row: Row) -> list[object]:
    values = [row.values[key] for key in COLUMNS]
    return [row.figure, row.variant, row.policy, row.baseline, *values, *(row.relative.get(key) for key in COLUMNS)]


def _print(args: argparse.Namespace, table: Sequence[Row]) -> None:
    columns = [Column(name, key=name) for name in ("figure", "trace", "policy")]
    for key, label in COLUMNS.items():
        columns += [Column(label, key=key), Column("x", key=f"{key.removesuffix('_s')}_x")]
    lines = []
    for row in table:
        line = [Cell(str(each), raw=each) for each in (row.figure, row.variant, row.policy)]
        for key in COLUMNS:
            times = row.relative.get(key)
            value, shown = row.values[key], "-" if times is None else f"x{times:.2f}"
            line.append(Cell(format_duration(value), raw=f"{value:.1f}"))
            line.append(Cell(shown, raw=times if times is None else f"{times:.3f}"))
        lines.append(line)
    tables.print_table(columns, lines, args.color, title="Muri's figures; x: ratio to Muri-S or Muri-L")
