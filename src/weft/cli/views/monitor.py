"""The screen of `weft monitor`: workers, GPUs and jobs, from the answers of three queries. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from weft.cli import tables
from weft.cli.tables import Cell, Column
from weft.cli.text import plural
from weft.cli.views import job_table, node_table
from weft.model.slots import parse_slots
from weft.wire.views.base import extend_view
from weft.wire.views.nodes import MonitorView

if TYPE_CHECKING:
    from weft.wire.views.jobs import JobView, QueueView
    from weft.wire.views.nodes import GpusView, GpuView, NodesView, NodeView

BAR_WIDTH: Final = 12
GPUS: Final = (
    Column("WORKER", max_width=24), Column("GPU", right=True), Column("MODEL", max_width=20),
    Column("MEMORY MB", right=True), Column("MEMORY"), Column("UTIL", right=True), Column("JOBS(REASON)", max_width=40),
)  # fmt: skip
MAX_GPU_LINES: Final = 16
"""With more GPUs than this, each worker gets one line and each GPU one letter."""
BY_WORKER: Final = (
    Column("WORKER", max_width=24), Column("GPUS", right=True), Column("MODEL", max_width=20), Column("MEMORY"),
    Column("UTIL", right=True), Column("EACH"),
)  # fmt: skip
LEGEND: Final = "each GPU: # busy, . idle, x blocked"


def combine(queue: QueueView, gpus: GpusView, nodes: NodesView, worker: str | None) -> MonitorView:
    """Combine the answers, for all workers or for one."""
    jobs, held = list(queue.jobs), node_table.sort_by_name(gpus.gpus)
    if worker is not None:
        held = [gpu for gpu in held if gpu.node == worker]
        there = {job for gpu in held for job in gpu.jobs}
        jobs = [job for job in jobs if job.id in there or is_on(job.place, worker)]
    shown = [node for node in node_table.sort_by_name(nodes.nodes) if worker in (None, node.node)]
    return extend_view(MonitorView, queue, {"jobs": jobs, "gpus": held, "nodes": shown})


def is_on(place: str, worker: str) -> bool:
    """Return whether a place such as n1[0,1],n2[0] or n1 names the worker."""
    return any(node == worker for node, _ in parse_slots(place))


def draw(seen: MonitorView, *, colour: bool, narrow: bool) -> list[str]:
    def lines(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
        return tables.format_lines(columns, rows, colour=colour, narrow=narrow)

    columns, cells = job_table.table(seen.jobs, _job_fields(seen.jobs))
    found = [headline(seen), ""]
    for title, table in (
        ("workers", lines(*node_table.table(seen.nodes, node_table.WORKERS))),
        ("GPUs", lines(*_gpu_table(seen.gpus))),
        ("jobs", lines(columns, cells)),
    ):
        drawn = list(table)
        found += [*(drawn if len(drawn) > 1 else [f"no {title}"]), ""]
    if len(seen.gpus) > MAX_GPU_LINES:
        found.append(LEGEND)
    if seen.more:
        found.append(plural(seen.more, "more job"))
    return found


def headline(seen: MonitorView) -> str:
    busy = sum(bool(gpu.jobs) for gpu in seen.gpus)
    away = [f"{count} {name}" for name in ("silent", "lost") if (count := _count(seen.nodes, name))]
    there = f" ({', '.join(away)})" if away else ""
    paused = f", paused ({', '.join(seen.paused_for)})" if seen.paused else ""
    return (
        f"{seen.now}  {seen.policy}{paused}  {plural(len(seen.nodes), 'worker')}{there}, "
        f"{busy} of {plural(len(seen.gpus), 'GPU')} busy, {plural(seen.running, 'job')} running, "
        f"{seen.waiting:,} waiting"
    )


def _count(nodes: Sequence[NodeView], standing: str) -> int:
    return sum(node_table.state_name(node) == standing for node in nodes)


def _job_fields(jobs: Sequence[JobView]) -> list[str]:
    return [name for name in job_table.queue_fields(jobs) if name != "user" or len({job.user for job in jobs}) > 1]


def _gpu_table(gpus: Sequence[GpuView]) -> tuple[Sequence[Column], list[list[Cell]]]:
    if len(gpus) <= MAX_GPU_LINES:
        return GPUS, [_gpu(gpu) for gpu in gpus]
    by_worker: dict[str, list[GpuView]] = {}
    for gpu in gpus:
        by_worker.setdefault(gpu.node, []).append(gpu)
    return BY_WORKER, [_gpus_of(worker, each) for worker, each in by_worker.items()]


def _gpus_of(worker: str, gpus: Sequence[GpuView]) -> list[Cell]:
    models = list(dict.fromkeys(gpu.model or "-" for gpu in gpus))
    there = sum(gpu.memory_mb for gpu in gpus)
    utils = [gpu.utilisation for gpu in gpus if gpu.utilisation is not None]
    each = "".join("x" if gpu.blocked else "#" if gpu.jobs else "." for gpu in gpus)
    return [
        Cell(worker), Cell(str(len(gpus))), Cell(",".join(models)), Cell(bar(sum(map(_used_mb, gpus)) / max(there, 1))),
        Cell(f"{sum(utils) / len(utils):.0f}%" if utils else "-"), Cell(each, "red" if "x" in each else ""),
    ]  # fmt: skip


def _used_mb(gpu: GpuView) -> int:
    """Return the used memory that the driver reports, or the reserved memory without a driver."""
    return gpu.reserved_mb if gpu.used_mb is None else gpu.used_mb


def _gpu(gpu: GpuView) -> list[Cell]:
    used = _used_mb(gpu)
    part = used / gpu.memory_mb if gpu.memory_mb else 0.0
    util = gpu.utilisation
    reasons = list(dict.fromkeys(f"({each.reason})" for each in gpu.blocked))
    colour = "red" if reasons else "green" if gpu.jobs else ""
    return [
        Cell(gpu.node), Cell(str(gpu.gpu)), Cell(gpu.model or "-"), Cell(f"{used}/{gpu.memory_mb}"),
        Cell(bar(part), "yellow" if part > 0.9 else ""), Cell("-" if util is None else f"{util:.0f}%"),
        Cell(" ".join([",".join(gpu.jobs), *reasons]).strip() or "-", colour),
    ]  # fmt: skip


def bar(part: float) -> str:
    full = round(min(max(part, 0.0), 1.0) * BAR_WIDTH)
    return "#" * full + "." * (BAR_WIDTH - full)
