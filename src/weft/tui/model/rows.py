"""The rows of each table: which columns it has, and what a row has in them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from weft.model.groups import group_label
from weft.model.status import ENDED
from weft.text import format_clock, format_duration
from weft.tui.model.board import Board
from weft.tui.model.spans import Span, amount_mb, bar
from weft.tui.model.tables import Cells, Column
from weft.views.answers.changes import EventView
from weft.views.answers.jobs import JobView, ProgressView
from weft.views.answers.nodes import NodeView
from weft.views.answers.services import ServiceView
from weft.views.answers.weaves import WeaveView

STATE_STYLES: Final = {
    "R": "ok", "CG": "warn", "PD": "warn", "H": "away", "CD": "done", "F": "bad", "TO": "bad", "OOM": "bad",
    "CA": "away", "PR": "moved", "S": "moved",
}  # fmt: skip
STATE_MARKS: Final = {
    "R": "●",
    "CG": "◐",
    "PD": "○",
    "H": "◌",
    "CD": "✔",
    "F": "✖",
    "TO": "✖",
    "OOM": "✖",
    "CA": "–",
    "PR": "↺",
    "S": "‖",
}
BAR_WIDTH: Final = 8
JOBS: Final = (
    Column("id", "JOB", 6, right=True, max_width=10, grows=1), Column("name", "NAME", 12, grows=6, max_width=44),
    Column("user", "USER", 8, rank=5, grows=2, max_width=16),
    Column("group", "GROUP", 8, rank=9, grows=2, max_width=20),
    Column("state", "ST", 5), Column("time", "TIME", 9, right=True), Column("gpus", "GPUS", 4, right=True),
    Column("priority", "PRIO", 5, rank=8, right=True), Column("progress", "PROGRESS", BAR_WIDTH + 5, rank=3),
    Column("eta", "ETA", 6, rank=4, right=True), Column("where", "NODE (REASON)", 13, rank=1, grows=5, max_width=60),
)  # fmt: skip
NODES: Final = (
    Column("node", "NODE", 10, grows=3, max_width=32), Column("state", "STATE", 10),
    Column("gpus", "GPUS BUSY", 18), Column("jobs", "JOBS", 5, right=True),
    Column("cpus", "CPUS", 9, right=True, rank=3), Column("ram", "RAM", 13, right=True, rank=4),
    Column("load", "LOAD", 6, right=True, rank=5), Column("beat", "HEARD", 6, right=True, rank=6),
    Column("closed", "CLOSED", 8, grows=2, rank=2), Column("labels", "LABELS", 8, grows=2, rank=7),
)  # fmt: skip
SERVICES: Final = (
    Column("name", "SERVICE", 12, grows=3, max_width=32), Column("ready", "READY", 16),
    Column("scale", "SCALE", 9, rank=4), Column("rate", "REQ/S", 8, right=True),
    Column("in_flight", "IN FLIGHT", 9, right=True, rank=3), Column("queued", "QUEUED", 6, right=True),
    Column("slo", "SLO", 6, right=True, rank=6), Column("scaler", "SCALER", 8, rank=7),
    Column("user", "USER", 8, rank=8, max_width=16), Column("why", "WHY", 10, grows=5, rank=2),
)  # fmt: skip
WEAVES: Final = (
    Column("gpus", "GPUS", 14, grows=3, max_width=40), Column("size", "JOBS", 4, right=True),
    Column("rate", "TOTAL PACE", 18), Column("since", "FOR", 7, right=True, rank=4),
    Column("order", "ORDER", 6, rank=5), Column("members", "MEMBERS (PACE)", 24, grows=6),
)  # fmt: skip
EVENTS: Final = (
    Column("at", "TIME", 8), Column("kind", "EVENT", 10, rank=3), Column("what", "JOB/NODE", 9, max_width=24, grows=1),
    Column("text", "", 20, grows=6),
)  # fmt: skip
EVENT_STYLES: Final = {
    "Submitted": "", "Start": "ok", "Exited": "done", "Stop": "moved", "Cancelled": "away", "NodeLost": "bad",
    "NodeJoined": "ok", "Blocked": "bad", "Cordoned": "warn", "Paused": "warn", "Unready": "warn", "Ready": "ok",
}  # fmt: skip


def job_columns(jobs: Sequence[JobView]) -> list[Column]:
    """Return the columns of the queue: groups, priorities and progress only if a job has any."""
    unused = {"group", "priority", "progress", "eta"}
    for job in jobs:
        if not unused:
            break
        unused -= {name for name in unused if getattr(job, "progress" if name == "eta" else name)}
    return [column for column in JOBS if column.key not in unused]


def job_cells(job: JobView, board: Board, screen_now: float) -> Cells:
    state, ended = STATE_STYLES.get(job.state, ""), job.status in ENDED
    return {
        "id": (job.id, "id"),
        "name": (job.name or "-", "dim" if ended else "strong"),
        "user": (job.user, "user"),
        "group": (group_label(job.group), "dim"),
        "state": (f"{STATE_MARKS.get(job.state, ' ')} {job.state}", state),
        "time": (format_clock(board.time_of(job, screen_now)), "dim" if ended else ""),
        "gpus": (str(job.gpus) if job.gpus else "-", ""),
        "priority": (str(job.priority) if job.priority else "·", "dim" if not job.priority else "warn"),
        "progress": progress_cell(job.progress, BAR_WIDTH),
        "eta": (eta_text(job.progress), ""),
        "where": where_cell(job),
    }


def where_cell(job: JobView) -> Span:
    if job.place:
        return job.place, ""
    if job.status in ENDED:
        code = f"exit {job.exit_code}" if job.exit_code else ""
        return " ".join(filter(None, (code, f"({job.reason})" if job.reason else ""))), "bad" if code else "dim"
    return (f"({job.reason})", "dim") if job.reason else ("", "")


def progress_cell(progress: ProgressView | None, width: int) -> list[Span]:
    """Return a bar with its percentage; a step where the total is unknown."""
    if progress is None or progress.step is None:
        return [("", "")]
    if not progress.total:
        return [(f"step {progress.step:,}", "dim")]
    part = min(progress.step / progress.total, 1.0)
    return [*bar(part, width), (f" {int(part * 100):>3}%", "")]


def eta_text(progress: ProgressView | None) -> str:
    return "" if progress is None or progress.eta_s is None else format_duration(int(progress.eta_s))


def node_cells(node: NodeView) -> Cells:
    state = node.state or ("connected" if node.alive else "lost")
    style = {"connected": "ok", "silent": "warn"}.get(state, "bad")
    word = "closed" if node.closed and state == "connected" else "up" if state == "connected" else state
    return {
        "node": (node.node, "strong" if node.alive else "dim"),
        "state": (f"{'●' if node.alive else '✖'} {word}", "closed" if word == "closed" else style),
        "gpus": [*bar(node.busy / max(node.gpus, 1), 10), (f" {node.busy}/{node.gpus}", "")],
        "jobs": (str(node.jobs), ""),
        "cpus": (f"{node.cpus_used}/{node.cpus}", "dim"),
        "ram": (f"{amount_mb(node.ram_used_mb)}/{amount_mb(node.ram_mb)}", "dim"),
        "load": ("" if node.load is None else f"{node.load:.1f}", ""),
        "beat": ("" if node.beat_s is None else f"{node.beat_s:.0f}s", "dim"),
        "closed": (node.unhealthy or ", ".join(node.closed), "closed"),
        "labels": (" ".join(f"{name}={value}" for name, value in node.labels.items()), "dim"),
    }


def service_cells(service: ServiceView) -> Cells:
    style = "ok" if service.ready >= service.wanted else "warn" if service.ready else "bad"
    ready = f" {service.ready}/{service.wanted}"
    return {
        "name": (service.name, "strong"),
        "ready": [
            *bar(service.ready / max(service.wanted, 1), 8, "bar" if style == "ok" else "bar-warn"),
            (ready, style),
        ],
        "scale": (f"{service.min_replicas} to {service.max_replicas}", "dim"),
        "rate": (f"{service.rate:,.1f}", ""),
        "in_flight": (f"{service.in_flight:,.0f}", ""),
        "queued": (f"{service.queued:,}", "warn" if service.queued else ""),
        "slo": ("" if service.slo_s is None else f"{service.slo_s:g}s", "dim"),
        "scaler": (service.scaler, "dim"),
        "user": (service.user, "user"),
        "why": (service.waiting_for or service.why, "warn" if service.waiting_for else "dim"),
    }


def weave_cells(weave: WeaveView, now: float) -> Cells:
    rates = [member.rate for member in weave.members if member.rate is not None]
    total = sum(rates)
    members = ", ".join(
        f"{member.name or member.job} {'-' if member.rate is None else f'{member.rate:.2f}'}"
        for member in weave.members
    )
    since = None if weave.since is None else datetime.fromisoformat(weave.since).timestamp()
    return {
        "gpus": (weave.gpus, "strong"),
        "size": (str(len(weave.members)), ""),
        "rate": [*bar(total / max(len(weave.members), 1), 10), (f" {total:.2f}x", "")]
        if rates
        else ("measuring", "dim"),
        "since": ("" if since is None else format_duration(int(now - since)), "dim"),
        "order": (weave.order, "dim"),
        "members": (members, ""),
    }


def event_cells(event: EventView, *, simulated: bool) -> Cells:
    style = EVENT_STYLES.get(event.kind, "")
    if event.kind == "Exited" and (" failed" in event.text or " lost" in event.text):
        style = "bad"
    return {
        "at": (clock_text(event.at, simulated=simulated), "dim"),
        "kind": (event.kind, style),
        "what": (event.job or event.node, "id"),
        "text": (event.text, style if style == "bad" else ""),
    }


def clock_text(at: float, *, simulated: bool) -> str:
    """Format a time of day; in a simulation, the time since its start."""
    if simulated:
        return format_clock(at)
    return f"{datetime.fromtimestamp(at, UTC).astimezone():%H:%M:%S}"
