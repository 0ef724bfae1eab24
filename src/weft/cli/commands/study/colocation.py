"""Pack training and inference instances on shared GPUs under several placements, and count the GPUs in use."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from weft.cli import flags, render, tables
from weft.cli.study_output import add_out, check_out, write_study
from weft.cli.tables import BEST, Cell, Column
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.lab.study.bound import Bound
    from weft.lab.study.colocation import Hardware, Packing
    from weft.lab.study.instances import InstanceEvent

EXAMPLE: Final = """examples:
  weft study colocation --instances 800
  weft study colocation --instances 3200 --placements dilu,holes:moves=2 --json
  weft study colocation --from instances-3200.txt.gz --out packing"""

KEYS: Final = ("peak_gpus", "mean_gpus", "gpu_hours", "compute_fragmentation", "memory_fragmentation",
               "mean_compute_fragmentation", "mean_memory_fragmentation", "moves", "moves_per_event", "split_models",
               "peak_at_s", "decision_ms", "cpu_s")  # fmt: skip
COLUMNS: Final = (
    Column("placement", key="placement"), Column("peak GPUs", key="peak_gpus"), Column("mean", key="mean_gpus"),
    Column("GPU-hours", key="gpu_hours"), Column("idle compute", key="compute_fragmentation"),
    Column("idle memory", key="memory_fragmentation"), Column("moves/event", key="moves_per_event"),
    Column("ms/event", key="decision_ms"),
)  # fmt: skip
MAX_INSTANCES: Final = 200_000


def configure(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--instances",
        metavar="N",
        type=flags.whole_number(1, MAX_INSTANCES),
        help="generate N instances by Dilu's published mix",
    )
    source.add_argument("--from", metavar="FILE", dest="file", help="read the instances of FILE, one record per line")
    parser.add_argument(
        "--placements", metavar="P,...", help="placements (default: exclusive,infless-l,infless-r,dilu,holes)"
    )
    parser.add_argument("--seed", metavar="N", type=flags.whole_number(), default=0, help="seed of --instances (0)")
    parser.add_argument(
        "--nodes", metavar="N", type=flags.whole_number(1, 1_000_000), help="nodes (default: enough for all)"
    )
    parser.add_argument(
        "--gpus-per-node", metavar="N", type=flags.whole_number(1, 1024), default=4, help="GPUs of a node (4)"
    )
    parser.add_argument(
        "--gpu-memory", metavar="GB", type=flags.whole_number(1, 10_000), default=40, help="memory of a GPU (40)"
    )
    parser.add_argument("--no-bound", action="store_true", help="do not compute the lower bound")
    add_out(parser)


def run(args: argparse.Namespace) -> int:
    from weft.lab.study.bound import bound_gpus
    from weft.lab.study.colocation import PLACEMENTS, check_sizes, load_share_placement, pack_instances

    check_out(args)
    specs = list(dict.fromkeys(args.placements.split(","))) if args.placements is not None else list(PLACEMENTS)
    for spec in specs:
        load_share_placement(spec)
    events, file = _read(args)
    hardware = _hardware(args, events)
    check_sizes(events, hardware, file)
    packings = [pack_instances(spec, events, hardware) for spec in specs]
    bound = (
        None if args.no_bound else bound_gpus(events, hardware.gpu_mb, load_share_placement("dilu").oversubscription)
    )
    summary = _summary(args, file, events, hardware, packings, bound)
    if args.out is not None:
        _write(args, packings, bound, summary)
    if args.json:
        render.print_json(summary)
    else:
        _print(args, packings, bound)
    return 0


def _read(args: argparse.Namespace) -> tuple[list[InstanceEvent], str]:
    from weft.lab.study.instances import generate_instances, read_instances

    if args.file is not None:
        return read_instances(args.file), args.file
    return generate_instances(args.instances, args.seed), f"{args.instances} generated instances"


def _hardware(args: argparse.Namespace, events: Sequence[InstanceEvent]) -> Hardware:
    from weft.lab.study.colocation import MIN_NODES, Hardware

    starts = sum(event.starts for event in events)
    nodes = args.nodes or max(MIN_NODES, starts)  # every instance fits on a node: this is enough for all of them
    if nodes * args.gpus_per_node > 10_000_000:
        raise InputError("more than 10 million GPUs", hint="give fewer --nodes or --gpus-per-node")
    return Hardware(nodes, args.gpus_per_node, args.gpu_memory * 1024)


def _summary(
    args: argparse.Namespace,
    file: str,
    events: Sequence[InstanceEvent],
    hardware: Hardware,
    packings: Sequence[Packing],
    bound: Bound | None,
) -> dict[str, object]:
    return {
        "schema": 1,
        "kind": "study",
        "study": "colocation",
        "from": file if args.file is not None else None,
        "seed": None if args.file is not None else args.seed,
        "instances": sum(event.starts for event in events),
        "events": len(events),
        "gpus": hardware.gpus,
        "gpu_memory_gb": args.gpu_memory,
        "peak_gpus": {packing.placement: packing.peak_gpus for packing in packings},
        "bound": bound and bound._asdict(),
        "placements": [
            {"placement": packing.placement, **{key: getattr(packing, key) for key in KEYS}} for packing in packings
        ],
    }


def _write(
    args: argparse.Namespace, packings: Sequence[Packing], bound: Bound | None, summary: dict[str, object]
) -> None:
    from weft.lab.report.study_pictures import Line, draw_colocation

    lines = [Line(packing.placement, packing.times_s, packing.gpus) for packing in packings]
    pictures = list(draw_colocation(lines, bound.gpus if bound else None))
    rows = [[packing.placement, *(getattr(packing, key) for key in KEYS)] for packing in packings]
    write_study(args, pictures, ("placement", *KEYS), rows, summary)


def _print(args: argparse.Namespace, packings: Sequence[Packing], bound: Bound | None) -> None:
    least = min(packing.peak_gpus for packing in packings)
    rows = []
    for packing in packings:
        row = [Cell(packing.placement, raw=packing.placement)]
        best = BEST if packing.peak_gpus == least and len(packings) > 1 else ""
        row.append(Cell(f"{packing.peak_gpus:,}", best, raw=packing.peak_gpus))
        row += [Cell(f"{value:,.1f}", raw=round(value, 3)) for value in (packing.mean_gpus, packing.gpu_hours)]
        idle = (packing.compute_fragmentation, packing.memory_fragmentation)
        row += [Cell(f"{100 * value:.1f} %", raw=round(value, 4)) for value in idle]
        row.append(Cell(f"{packing.moves_per_event:.2f}", raw=round(packing.moves_per_event, 4)))
        row.append(Cell(f"{packing.decision_ms:.2f}", raw=round(packing.decision_ms, 3)))
        rows.append(row)
    tables.print_table(COLUMNS, rows, args.color, title="GPUs in use; idle: at the peak")
    if bound is not None:
        render.print_message(
            f"no placement needs fewer than {bound.gpus:,} GPUs: {bound.anchors:,} hold a training worker, "
            f"and the rest does not fit next to them"
        )
