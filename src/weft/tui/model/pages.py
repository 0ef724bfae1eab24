"""Short pages: the chosen job next to the queue, the replicas of a service, the members of a weave."""

from __future__ import annotations

from weft.text import format_duration, format_time
from weft.tui.model.board import Board
from weft.tui.model.detail import metric_lines, progress_lines
from weft.tui.model.spans import Line, bar, clean, fit
from weft.views.answers.jobs import JobView
from weft.views.answers.services import ServiceView
from weft.views.answers.weaves import WeaveView

LABEL = 11


def preview_lines(job: JobView, board: Board, width: int) -> list[Line]:
    """Return what the row of a job has, for the column next to the queue."""
    rank = board.ranks.get(job.id)
    rows = [
        ("on", job.place),
        ("waits for", job.reason if not job.place and not job.ended else ""),
        ("in line", f"{rank + 1}" if rank is not None and job.status == "waiting" else ""),
        ("GPUs", str(job.gpus)),
        ("run", str(job.run) if job.run else ""),
        ("priority", str(job.priority) if job.priority else ""),
        ("group", job.group),
        ("submitted", format_time(job.submitted)),
        ("started", format_time(job.started) if job.started else ""),
        ("ended", format_time(job.ended) if job.ended else ""),
        ("exit code", "" if job.exit_code is None else str(job.exit_code)),
    ]
    lines: list[Line] = [*progress_lines(job.progress, width), *metric_lines(job.progress, {}, width)]
    if lines:
        lines.append([])
    lines += [[(fit(label, LABEL), "dim"), (clean(text), "")] for label, text in rows if text]
    return [*lines, [], [("Enter", "key"), (" opens it with its log", "dim")]]


def service_lines(service: ServiceView) -> list[Line]:
    rows = [
        ("URL", service.url), ("version", str(service.version)), ("scaler", service.scaler), ("wants", service.why),
        ("waits for", service.waiting_for),
        ("capacity", f"{service.capacity:g} requests/s per replica" if service.capacity else ""),
    ]  # fmt: skip
    lines: list[Line] = [[(fit(label, LABEL), "dim"), (clean(text), "")] for label, text in rows if text]
    lines += [
        [],
        [(fit("REPLICA", 10), "head"), (fit("STATUS", 10), "head"), (fit("GPUS", 16), "head"), ("ADDRESS", "head")],
    ]
    for replica in service.replicas:
        style = {"ready": "ok", "draining": "moved"}.get(replica.status, "warn")
        lines.append(
            [
                (fit(replica.job, 10), "id"), (fit(replica.status, 10), style), (fit(replica.gpus, 16), ""),
                (clean(replica.address), "dim"),
            ]
        )  # fmt: skip
    return lines


def weave_lines(weave: WeaveView) -> list[Line]:
    lines: list[Line] = [[("GPUs ", "dim"), (clean(weave.gpus), "strong"), (f"  order {clean(weave.order)}", "dim")]]
    for member in weave.members:
        rate = member.rate or 0.0
        lines += [
            [],
            [(fit(member.job, 8), "id"), (clean(member.name), "strong"), (f"  {clean(member.user)}", "user")],
            [
                (fit("pace", LABEL), "dim"),
                *bar(rate, 16),
                (" measuring" if member.rate is None else f" {rate:.2f}", ""),
            ],
        ]
        for stage in member.stages:
            mean = "-" if stage.time_s is None else f"{stage.time_s * 1000:.1f} ms"
            wait = "-" if stage.wait_s is None else f"{stage.wait_s * 1000:.1f} ms"
            held = f"held {format_duration(int(stage.served_s))}, waited {format_duration(int(stage.waited_s))}"
            text = f"{stage.grants:,} turns of {mean}, wait {wait}; {held}"
            lines.append([(fit(stage.stage, LABEL), "dim"), (text, "")])
    return lines
