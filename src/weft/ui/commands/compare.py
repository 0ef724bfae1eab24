"""Runs several policies on the same trace, one after the other, and lays their figures side by side."""

from __future__ import annotations

import argparse
from typing import Any, Final

from weft.errors import InputError
from weft.ui import figures, render, workload

EXAMPLE: Final = """examples:
  weft compare demo
  weft compare trace.csv --cluster 8x8 --policies fifo,tiresias,muri-l:packing=2 --json"""

POLICIES: Final = "fifo,srtf,srsf,tiresias,themis,muri-s,muri-l"
COLUMNS: Final = {
    "avg_jct_s": "avg JCT",
    "p50_jct_s": "p50",
    "p99_jct_s": "p99",
    "makespan_s": "makespan",
    "avg_queue_s": "queue",
    "gpu_utilisation": "util",
    "preemptions": "preempted",
    "fairness_max_rho": "max rho",
    "cpu_s": "CPU s",
}
LARGER_IS_BETTER: Final = {"gpu_utilisation"}
SECONDS: Final = {"avg_jct_s", "p50_jct_s", "p99_jct_s", "makespan_s", "avg_queue_s"}
NO_CONTEST: Final = {"cpu_s"}
"""Says more about the machine than about the policy."""


def configure(parser: argparse.ArgumentParser) -> None:
    workload.add_arguments(parser, cluster_help="NODESxGPUS, a Muri cluster CSV, or a YAML file (of demo: 4x8)")
    parser.add_argument("--policies", metavar="A,B,...", default=POLICIES, help=f"default: {POLICIES}")
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    policies = list(dict.fromkeys(name.strip() for name in args.policies.split(",") if name.strip()))
    if not policies:
        raise InputError("no policies to compare", hint=f"such as --policies {POLICIES}")
    workload.check_names(args, policies)
    work = workload.load(args, policies)
    results: list[dict[str, Any]] = []
    for number, policy in enumerate(policies, start=1):
        label = f"{policy} ({number} of {len(policies)})"
        results.append(workload.measure(workload.setting(args, work, policy), label)[2])
    if args.json:
        head = {**work.head(args), "jobs": len(work.jobs), "skipped": list(work.skipped)}
        render.print_json({**head, "policies": results})
        return 0
    title = f"{work.trace}: {len(work.jobs):,} jobs on {work.cluster} ({work.gpus:,} GPUs), * best"
    rows = [_row(result, results) for result in results]
    render.print_table(title, [("policy", "policy"), *COLUMNS.items()], rows, args.color)
    return 0


def _row(result: dict[str, Any], results: list[dict[str, Any]]) -> list[render.Cell]:
    cells = [figures.cell(key, result[key], best=_is_best(key, result, results)) for key in COLUMNS]
    short = [cell._replace(raw=_short(key, cell.raw)) for key, cell in zip(COLUMNS, cells, strict=True)]
    return [render.Cell(result["policy"], result["policy"]), *short]


def _short(key: str, value: object) -> object:
    """Enough to compare by; --json has all digits."""
    return f"{value:.{1 if key in SECONDS else 3}f}" if isinstance(value, float) else value


def _is_best(key: str, result: dict[str, Any], results: list[dict[str, Any]]) -> bool:
    """None is never best, nor is what all have alike."""
    values = {each[key] for each in results} - {None}
    best = max(values, default=None) if key in LARGER_IS_BETTER else min(values, default=None)
    return key not in NO_CONTEST and len(values) > 1 and result[key] == best
