"""The page of one job: its state, progress, metrics, reasons, runs and description, as lines."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from weft.model.status import ENDED
from weft.text import format_clock, format_duration, format_time, plural
from weft.tui.model.rows import STATE_MARKS, STATE_STYLES
from weft.tui.model.spans import Line, Span, amount_mb, bar, clean, fit, sparkline, wrap
from weft.views.answers.explain import ExplainView
from weft.views.answers.forecast_words import forecast_pairs, unblock_text
from weft.views.answers.jobs import JobDetailView, JobView, ProgressView

LABEL: Final = 11
MAX_AHEAD: Final = 5
MAX_METRICS: Final = 8
Series = Mapping[str, Sequence[float | None]]


def headline(job: JobView, time_s: float) -> Line:
    """Return the job's name and state in one line."""
    return [
        (f"{clean(job.id)} ", "id"), (clean(job.name) or "-", "strong"), ("  ", ""),
        (f"{STATE_MARKS.get(job.state, '')} {job.status}", STATE_STYLES.get(job.state, "")),
        (f"  {format_clock(time_s)}", "dim"), (f"  {clean(job.user)}", "user"),
        (f"  {clean(job.place)}" if job.place else "", ""),
    ]  # fmt: skip


def progress_lines(progress: ProgressView | None, width: int) -> list[Line]:
    if progress is None or progress.step is None:
        return []
    left = "" if progress.eta_s is None else f"  {format_duration(int(progress.eta_s))} left"
    if not progress.total:
        return [_pair("progress", f"step {progress.step:,}{left}")]
    part = min(progress.step / progress.total, 1.0)
    text = f" {part:.0%}  {progress.step:,}/{progress.total:,}{left}"
    length = max(min(width - LABEL - len(text), 40), 6)
    return [[_label("progress"), *bar(part, length), (text, "")]]


def metric_lines(progress: ProgressView | None, series: Series, width: int) -> list[Line]:
    """Return each reported metric with its last value, and its past as a sparkline."""
    metrics = progress.metrics if progress is not None else {}
    lines: list[Line] = []
    for name, value in list(metrics.items())[:MAX_METRICS]:
        text = "-" if value is None else f"{value:.5g}"
        past = [each for each in series.get(name, ()) if each is not None]
        spark = sparkline(past, max(width - LABEL - 12, 0))
        lines.append([_label(name), (fit(text, 10, right=True), "strong"), ("  ", ""), (spark, "bar")])
    if len(metrics) > MAX_METRICS:
        lines.append(_pair("", f"and {len(metrics) - MAX_METRICS} more metrics", "dim"))
    return lines


def why_lines(found: ExplainView | None, width: int) -> list[Line]:
    """Return why the job waits, which jobs are ahead, and when it may start."""
    if found is None:
        return []
    lines: list[Line] = []
    for reason in found.reasons:
        code = "" if reason.code == "None" else f"{reason.code}: "
        lines += _wrapped("why" if not lines else "", f"{code}{reason.text}", width)
    if found.position:
        lines.append(_pair("position", f"{found.position:,} of {found.waiting:,} waiting jobs"))
    ahead = [f"{each.job} ({each.user}, {each.gpus} GPU{'s' if each.gpus != 1 else ''})" for each in found.ahead]
    if ahead:
        more = f", and {len(ahead) - MAX_AHEAD:,} more" if len(ahead) > MAX_AHEAD else ""
        lines += _wrapped("ahead", ", ".join(ahead[:MAX_AHEAD]) + more, width)
    if found.unblock is not None and found.unblock.jobs:
        lines += _wrapped("unblocks", unblock_text(found.unblock, MAX_AHEAD), width)
    for label, text in forecast_pairs(found.forecast) if found.forecast is not None else ():
        lines += _wrapped(label, text, width)
    if found.expected_start and (found.forecast is None or found.forecast.start_p50 is None):
        lines.append(_pair("may start", format_time(found.expected_start)))
    return lines


def run_lines(job: JobDetailView, now: float) -> list[Line]:
    """Return the runs, the last first."""
    lines: list[Line] = []
    for run in reversed(job.runs or ()):
        until = run.ended if run.ended is not None else now
        style = "ok" if run.ended is None else "done" if run.outcome == "done" else "moved"
        style = "bad" if run.outcome in ("failed", "lost") else style
        how = "running" if run.ended is None else run.outcome
        code = f" {run.code}" if run.code else ""
        why = f" ({clean(run.why)})" if run.why else ""
        lines.append(
            [
                _label("runs" if not lines else ""), (fit(f"{run.run}", 3, right=True), "strong"),
                (fit(f" {how}{code}{why}", 22), style),
                (fit(format_duration(int(until - run.started)), 8, right=True), ""),
                (f"  {clean(run.place)}", "dim"),
            ]
        )  # fmt: skip
    return lines


def about_lines(job: JobDetailView, width: int) -> list[Line]:
    """Return what the job asked for and what it has used."""
    memory = job.memory_mb if isinstance(job.memory_mb, int) else max(job.memory_mb, default=0)
    gpus = f"{job.gpus}" + (f" with {amount_mb(memory)} each" if memory else "")
    gpus += f", uses {amount_mb(job.measured_mb)}" if job.measured_mb else ""
    counts = [plural(count, word) for word, count in _counts(job) if count]
    rows: list[tuple[str, str]] = [
        ("GPUs", gpus),
        ("on", job.place or job.last_place),
        ("GPU time", format_duration(int(job.gpu_seconds)) if job.gpu_seconds else ""),
        ("priority", str(job.priority)),
        ("group", job.group),
        ("team", job.team),
        ("had", ", ".join(counts)),
        ("after", ", ".join(job.after)),
        ("params", ", ".join(f"{name}={value}" for name, value in job.params.items())),
        ("time limit", format_duration(int(job.time_limit_s)) if job.time_limit_s else ""),
        ("deadline", format_time(job.spec["deadline"]) if "deadline" in job.spec else ""),
        ("checkpoint", job.checkpoint.path if job.checkpoint is not None else ""),
        ("submitted", format_time(job.submitted)),
        ("ended", format_time(job.ended) if job.ended else ""),
        ("exit code", "" if job.last_exit_code is None else str(job.last_exit_code)),
        ("because", f"{job.why}: {job.detail}" if job.detail else job.why),
        ("command", shlex.join(job.command)),
        ("directory", job.chdir),
        ("comment", job.comment),
    ]
    return [line for label, text in rows if text for line in _wrapped(label, text, width)]


def detail_lines(job: JobDetailView, found: ExplainView | None, now: float, width: int) -> list[Line]:
    """Return the whole page."""
    sections = [
        progress_lines(job.progress, width),
        metric_lines(job.progress, job.series or {}, width),
        why_lines(found if job.status not in ENDED else None, width),
        run_lines(job, now),
        about_lines(job, width),
    ]
    lines: list[Line] = []
    for section in sections:
        if section and lines:
            lines.append([])
        lines += section
    return lines


def _counts(job: JobDetailView) -> Iterable[tuple[str, int]]:
    yield "failure", job.failures
    yield "preemption", job.preemptions
    yield "requeue", job.requeues


def _label(text: str) -> Span:
    return fit(text, LABEL), "dim"


def _pair(label: str, text: str, style: str = "") -> Line:
    return [_label(label), (clean(text), style)]


def _wrapped(label: str, text: str, width: int) -> list[Line]:
    lines = wrap(text, max(width - LABEL, 10))
    return [[_label(label if at == 0 else ""), (line, "")] for at, line in enumerate(lines)]
