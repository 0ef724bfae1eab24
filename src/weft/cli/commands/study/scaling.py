"""Serve the requests of one service under several autoscalers: late requests, replica-seconds, cold starts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from weft.cli import flags, render, tables
from weft.cli.study_output import add_out, check_out, write_study
from weft.cli.tables import Cell, Column
from weft.cli.workload_units import latency, positive
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.lab.study.scaling import ScalerFigures
    from weft.model import Share
    from weft.sim.serving.arrivals import Arrivals
    from weft.sim.serving.service import SimulatedService

EXAMPLE: Final = """examples:
  weft study scaling --rps rps_bursty.txt --times 10
  weft study scaling --rps rps_periodic.txt --times 25 --scalers lazy,deficit:target=0.65 --burst
  weft study scaling --llm azure_llm_conv.csv.gz --scalers lazy,concurrency --out conversation"""

COLUMNS: Final = (
    Column("scaler", key="scaler"), Column("late", key="violations"), Column("replica-s", key="replica_s"),
    Column("x", key="replica_s_x"), Column("p50", key="p50_s"), Column("p95", key="p95_s"), Column("p99", key="p99_s"),
    Column("cold starts", key="cold_starts"), Column("actions", key="scale_actions"),
    Column("most", key="peak_replicas"),
)  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--rps", metavar="FILE", help="requests per second, one number per line")
    source.add_argument("--llm", metavar="FILE", help="a trace of LLM requests: arrival, context and generated tokens")
    source.add_argument("--arrivals", metavar="A", help="poisson:RATE:SECONDS or gamma:RATE:VARIATION:SECONDS")
    parser.add_argument("--times", metavar="X", type=positive, default=1.0, help="multiply the rates of --rps (1)")
    parser.add_argument("--scalers", metavar="S,...", help="autoscalers with options (default: lazy,kpa,deficit)")
    parser.add_argument("--seeds", metavar="N", type=flags.count, default=4, help="number of drawn workloads (4)")
    parser.add_argument(
        "--grid", metavar="FILE", help="latency by batch and share (default: like a large BERT on an A100)"
    )
    parser.add_argument("--share", metavar="R/L", help="request and limit of a replica (default: 0.3/0.6)")
    parser.add_argument("--burst", action="store_true", help="replicas run at their limit instead of their request")
    parser.add_argument(
        "--slots", metavar="N", type=flags.whole_number(1, 100_000), default=8, help="largest batch, or streams (8)"
    )
    parser.add_argument("--slo", metavar="T", type=latency, help="latency (250ms); of streams, wait (1s)")
    parser.add_argument("--cold-start", metavar="T", type=latency, help="start of a replica (10s; of streams 30s)")
    parser.add_argument(
        "--token-time", metavar="T", type=latency, default=0.0417, help="per token of a stream (41.7ms)"
    )
    parser.add_argument("--throughput", metavar="N", type=positive, help="declared requests/s of a replica (48)")
    parser.add_argument(
        "--min", metavar="N", type=flags.whole_number(0, 100_000), default=1, help="fewest replicas (1)"
    )
    parser.add_argument(
        "--max", metavar="N", type=flags.whole_number(1, 100_000), default=100_000, help="most replicas (no limit)"
    )
    parser.add_argument(
        "--to-zero-after", metavar="T", type=latency, default=60.0, help="with --min 0: stop the last replica (60s)"
    )
    add_out(parser)


def run(args: argparse.Namespace) -> int:
    from weft.lab.study.scaling import RATE_SCALERS, STREAM_SCALERS, compare_scalers, load_scalers

    check_out(args)
    usual = STREAM_SCALERS if args.llm is not None else RATE_SCALERS
    scalers = load_scalers(args.scalers.split(",") if args.scalers is not None else usual)
    workloads = _workloads(args)
    service = _service(args, workloads[0])
    results = compare_scalers(service, scalers, workloads)
    summary = _summary(args, service, workloads, results)
    if args.out is not None:
        _write(args, results, summary)
    if args.json:
        render.print_json(summary)
    else:
        _print(args, results)
    return 0


def _workloads(args: argparse.Namespace) -> list[Arrivals]:
    from weft.lab.study.scaling import parse_arrivals
    from weft.sim.serving.arrivals import from_rps, read_llm_trace, read_rps

    seeds = range(1, args.seeds + 1)
    if args.llm is not None:
        return [read_llm_trace(args.llm)]
    if args.arrivals is not None:
        return parse_arrivals(args.arrivals, seeds)
    rates = read_rps(args.rps)
    return [from_rps(rates, args.times, seed) for seed in seeds]


def _share(text: str) -> Share:
    from weft.inputs.quantities import parse_share
    from weft.model import Share

    try:
        return Share(*parse_share(text))
    except InputError as error:
        raise error.at(where="--share") from None


def _service(args: argparse.Namespace, workload: Arrivals) -> SimulatedService:
    from weft.scheduling.scaling.port import ScaleBounds
    from weft.sim.serving.grid import example_grid, read_grid
    from weft.sim.serving.service import DEFAULT_SHARE, SimulatedService

    share = DEFAULT_SHARE if args.share is None else _share(args.share)
    try:
        bounds = ScaleBounds(args.min, args.max, args.to_zero_after)
    except ValueError:
        raise InputError(f"--min {args.min} is over --max {args.max}", hint="give a --min up to --max") from None
    if args.llm is not None:
        assert workload.tokens is not None
        mean_s = args.token_time * sum(max(each, 1) for each in workload.tokens) / len(workload.tokens)
        throughput = args.throughput or args.slots / mean_s
        return SimulatedService(
            share=share, slots=args.slots, token_s=args.token_time, slo_s=args.slo or 1.0,
            cold_start_s=args.cold_start or 30.0, throughput=throughput, bounds=bounds,
        )  # fmt: skip
    grid = read_grid(args.grid) if args.grid is not None else example_grid()
    return SimulatedService(
        share=share, grid=grid, slots=args.slots, slo_s=args.slo or 0.25, cold_start_s=args.cold_start or 10.0,
        throughput=args.throughput or 48.0, profiled=grid.capacity(args.slots, share.request), bounds=bounds,
        burst=args.burst,
    )  # fmt: skip


def _summary(
    args: argparse.Namespace, service: SimulatedService, workloads: Sequence[Arrivals], results: Sequence[ScalerFigures]
) -> dict[str, object]:
    return {
        "schema": 1,
        "kind": "study",
        "study": "scaling",
        "from": args.rps or args.llm or args.arrivals,
        "times": args.times,
        "seeds": len(workloads),
        "seconds": workloads[0].horizon_s,
        "requests": sum(len(each.times_s) for each in workloads) / len(workloads),
        "slo_s": service.slo_s,
        "burst": args.burst,
        "capacity": service.profiled or service.throughput,
        "violations": {each.scaler: each.mean("violations") for each in results},
        "replica_seconds": {each.scaler: each.mean("replica_s") for each in results},
        "scalers": [_scaler_json(each) for each in results],
    }


def _scaler_json(result: ScalerFigures) -> dict[str, Any]:
    from weft.lab.study.scaling import FIGURES

    runs = [{key: getattr(run, key) for key in ("requests", "late", *FIGURES)} for run in result.runs]
    return {"scaler": result.scaler, **{key: result.mean(key) for key in FIGURES}, "runs": runs}


def _write(args: argparse.Namespace, results: Sequence[ScalerFigures], summary: dict[str, object]) -> None:
    from weft.lab.report.study_pictures import Line, draw_scaling
    from weft.lab.study.scaling import FIGURES

    first = [(result.scaler, result.runs[0]) for result in results]
    pictures = draw_scaling(
        Line("requests", first[0][1].times_s, first[0][1].rates),
        [Line(name, run.times_s, run.replicas) for name, run in first],
        [Line(name, run.p95_times_s, run.p95s_s) for name, run in first],
    )
    rows = [[result.scaler, *(result.mean(key) for key in FIGURES)] for result in results]
    write_study(args, list(pictures), ("scaler", *FIGURES), rows, summary)


def _print(args: argparse.Namespace, results: Sequence[ScalerFigures]) -> None:
    base = results[0].mean("replica_s")
    rows = []
    for result in results:
        late, replica_s = result.mean("violations"), result.mean("replica_s")
        row = [Cell(result.scaler, raw=result.scaler), Cell(f"{100 * late:.2f} %", raw=round(late, 6))]
        row.append(Cell(f"{replica_s:,.0f}", raw=round(replica_s, 1)))
        row.append(Cell(f"x{replica_s / base:.2f}" if base else "-", raw=round(replica_s / base, 4) if base else None))
        latencies = [result.mean(key) for key in ("p50_s", "p95_s", "p99_s")]
        row += [Cell(f"{1000 * value:,.0f} ms", raw=round(value, 6)) for value in latencies]
        counts = [result.mean(key) for key in ("cold_starts", "scale_actions", "peak_replicas")]
        row += [Cell(f"{value:.4g}", raw=round(value, 3)) for value in counts]
        rows.append(row)
    title = f"mean of {len(results[0].runs)} seeds; x: replica-seconds relative to {results[0].scaler}"
    tables.print_table(COLUMNS, rows, args.color, title=title)
