"""The screen of `weft monitor`: workers, GPUs and jobs, from the answers of three queries. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.cli import tables
from weft.cli.tables import Cell, Column
from weft.cli.views import job_table, node_table
from weft.model.slots import parse_slots
from weft.text import format_time, plural
from weft.views.answers.base import extend_view
from weft.views.answers.nodes import MonitorView

if TYPE_CHECKING:
    from weft.views.answers.jobs import JobView, QueueView
    from weft.views.answers.nodes import GpusView, GpuView, NodesView, NodeView

BAR_WIDTH: Final = 12
MIN_SECTION_LINES: Final = 4
"""The fewest lines of a section on a small screen: the head, two rows, and how many more there are."""
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
    counts = {} if worker is None else {"running": sum(node.jobs for node in shown), "waiting": 0, "more": 0}
    return extend_view(MonitorView, queue, {"jobs": jobs, "gpus": held, "nodes": shown, **counts})


def is_on(place: str, worker: str) -> bool:
    """Return whether a place such as n1[0,1],n2[0] or n1 names the worker."""
    return any(node == worker for node, _ in parse_slots(place))


class Screen(NamedTuple):
    """The size of a terminal."""

    columns: int
    lines: int


class Section(NamedTuple):
    noun: str
    lines: list[str]
    """The heads of the columns, and a line for each row; the rows that matter most come first."""
    weight: int = 1
    """The part of the spare lines that the section gets where not all sections fit."""
    more: int = 0
    """Rows that the answer left out."""

    def cut(self, room: int) -> list[str]:
        """Return as many lines as there is room for. The last says how many rows are left out."""
        if len(self.lines) <= 1 and not self.more:
            return [f"no {self.noun}s"]
        shown = self.lines if len(self.lines) + bool(self.more) <= room else self.lines[: room - 1]
        left_out = len(self.lines) - len(shown) + self.more
        return [*shown, *([f"... and {plural(left_out, f'more {self.noun}')}"] if left_out else [])]

    @property
    def height(self) -> int:
        return max(len(self.lines) + bool(self.more), 1)


def draw(seen: MonitorView, *, colour: bool, narrow: bool, screen: Screen | None = None) -> list[str]:
    """Return the lines to print. On a screen, return what fits: sick workers and blocked GPUs first, and jobs."""

    def lines(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> list[str]:
        return list(tables.format_lines(columns, rows, colour=colour, narrow=narrow))

    nodes, gpus = list(seen.nodes), list(seen.gpus)
    if screen is not None:
        nodes.sort(key=_health)
        gpus.sort(key=lambda gpu: not gpu.blocked)
    sections = [
        Section("worker", lines(*node_table.table(nodes, node_table.WORKERS))),
        Section("GPU", lines(*_gpu_table(gpus))),
        Section("job", lines(*job_table.table(seen.jobs, _job_fields(seen.jobs))), weight=2, more=seen.more),
    ]
    if len(gpus) > MAX_GPU_LINES:
        sections[1] = sections[1]._replace(noun="node")
    head = headline(seen, screen.columns if screen else 0)
    legend = [LEGEND] if len(gpus) > MAX_GPU_LINES else []
    room = screen.lines - len(head) - 1 - len(legend) if screen else sum(each.height + 1 for each in sections)
    found = [*head, ""]
    for section, height in zip(sections, share_lines(sections, room), strict=True):
        found += [*section.cut(height), ""]
    return [*found, *legend] if legend else found[:-1] if screen else found


def share_lines(sections: Sequence[Section], room: int) -> list[int]:
    """Return how many lines each section gets: all that it needs, or a part of the room by weight, each with a gap."""
    heights = [min(each.height, MIN_SECTION_LINES) for each in sections]
    spare = room - len(sections) - sum(heights)
    while spare > 0 and any(height < each.height for height, each in zip(heights, sections, strict=True)):
        for at, each in enumerate(sections):
            more = min(each.weight, each.height - heights[at], spare)
            heights[at] += more
            spare -= more
    return heights


def headline(seen: MonitorView, columns: int = 0) -> list[str]:
    """Return the time, the policy and the totals: in one line, or in two if they do not fit in the columns."""
    busy = sum(bool(gpu.jobs) for gpu in seen.gpus)
    away = [f"{count} {name}" for name in ("silent", "lost") if (count := _count(seen.nodes, name))]
    closed = sum(bool(node.closed) and node_table.state_name(node) == "connected" for node in seen.nodes)
    away += [f"{closed} closed"] if closed else []
    there = f" ({', '.join(away)})" if away else ""
    paused = f", paused ({', '.join(seen.paused_for)})" if seen.paused else ""
    policy = f"{format_time(seen.now) if columns else seen.now}  {seen.policy}{paused}"
    workers = f"{plural(len(seen.nodes), 'worker')}{there}, {busy} of {plural(len(seen.gpus), 'GPU')} busy"
    jobs = f"{plural(seen.running, 'job')} running, {seen.waiting:,} waiting"
    line = f"{policy}  {workers}, {jobs}"
    return [line] if not columns or len(line) <= columns else [f"{policy}  {jobs}", workers]


def _health(node: NodeView) -> int:
    """Return the rank of a worker on a small screen: lost, silent and closed ones first."""
    rank = ("lost", "silent", "connected").index(node_table.state_name(node))
    return rank + (rank == 2 and not node.closed)


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
    each = "".join("x" if node_table.is_blocked(gpu) else "#" if gpu.jobs else "." for gpu in gpus)
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
