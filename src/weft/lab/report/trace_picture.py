"""The picture of a trace: arrivals, GPU counts, durations, and demand for GPUs over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Literal

from weft.lab.report import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TracedJob = tuple[float, int, float]
"""Submission time (s), GPUs, solo duration (s)."""

JOBS, WORK = style.colour(0), style.colour(1)
"""Colours of values counted in jobs and in GPU time; the latter are also dashed or hatched."""
MAX_BINS, MIN_BINS, JOBS_PER_BIN = 60, 10, 8
MAX_POINTS: Final = 4000
MAX_SIZES: Final = 12


def draw_trace(
    title: str, jobs: Sequence[TracedJob], *, cluster_gpus: int | None = None, format: Literal["png", "svg"] = "png"
) -> bytes:
    """Return the picture as PNG or SVG. Equal traces give equal bytes."""
    with style.drawing_style():
        figure = style.figure(11, 7)
        figure.suptitle(f"{style.shorten_label(title)}: {len(jobs):,} jobs", fontsize=13)
        (above_left, above_right), (below_left, below_right) = figure.subplots(2, 2)
        _draw_arrivals(above_left, jobs)
        _draw_sizes(above_right, jobs)
        _draw_durations(below_left, jobs)
        _draw_demand(below_right, jobs, cluster_gpus)
        return style.to_png(figure, dpi=120) if format == "png" else style.to_svg(figure).encode("utf-8")


def _draw_arrivals(axes: Axes, jobs: Sequence[TracedJob]) -> None:
    first, last = jobs[0][0], jobs[-1][0]
    scale, unit = style.time_unit(last - first)
    bins = max(MIN_BINS, min(len(jobs) // JOBS_PER_BIN, MAX_BINS))
    width = max((last - first) / bins, 1.0)
    counts = Counter(min(int((submit - first) / width), bins - 1) for submit, _, _ in jobs)
    edges = [at * width / scale for at in range(bins + 1)]
    axes.stairs([counts[at] / width * 3600 for at in range(bins)], edges, fill=True, color=JOBS)
    axes.set(title="Arrivals", xlabel=f"time since the first job ({unit})", ylabel="jobs per hour")
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(bottom=0)


def _draw_sizes(axes: Axes, jobs: Sequence[TracedJob]) -> None:
    """Draw the shares of jobs and of GPU time by GPU count, with rare counts combined."""
    count = Counter(gpus for _, gpus, _ in jobs)
    work = dict.fromkeys(count, 0.0)
    for _, gpus, seconds in jobs:
        work[gpus] += gpus * seconds
    common = sorted(size for size, _ in count.most_common(MAX_SIZES))
    labels = [f"{size:,}" for size in common]
    parts = [(count[size] / len(jobs), work[size] / sum(work.values())) for size in common]
    if len(count) > len(common):
        labels.append("other")
        parts.append((1 - sum(of_jobs for of_jobs, _ in parts), 1 - sum(of_work for _, of_work in parts)))
    at = range(len(labels))
    axes.bar([x - 0.2 for x in at], [100 * part for part, _ in parts], 0.38, color=JOBS, label="of the jobs")
    axes.bar(
        [x + 0.2 for x in at], [100 * part for _, part in parts], 0.38, color=WORK, label="of the GPU time",
        hatch=style.hatch(1), edgecolor=style.PAPER, linewidth=0,
    )  # fmt: skip
    axes.set_xticks(list(at), labels)
    axes.grid(visible=False, axis="x")
    axes.set(title="GPUs per job", xlabel="GPUs", ylabel="part (%)", ylim=(0, 105))
    axes.legend()


def _draw_durations(axes: Axes, jobs: Sequence[TracedJob]) -> None:
    by_length = sorted((seconds, gpus * seconds) for _, gpus, seconds in jobs)
    lengths = [seconds for seconds, _ in by_length]
    work = list(accumulate(part for _, part in by_length))
    picked = _pick_evenly(len(lengths))
    xs = [lengths[at] for at in picked]
    axes.plot(xs, [100 * (at + 1) / len(lengths) for at in picked], color=JOBS, label="of the jobs")
    axes.plot(xs, [100 * work[at] / work[-1] for at in picked], color=WORK, ls=style.dashes(1), label="of the GPU time")
    axes.axvline(lengths[len(lengths) // 2], color=style.INK, linewidth=1, ls=":", label="median job")
    style.set_log_time_axis(axes, lengths[0] / 1.3, lengths[-1] * 1.3)
    axes.set(title="Durations", xlabel="takes at most, alone on its GPUs", ylabel="part (%)", ylim=(0, 105))
    axes.legend()


def _draw_demand(axes: Axes, jobs: Sequence[TracedJob], cluster_gpus: int | None) -> None:
    """Draw the GPUs that would be in use if every job started on arrival."""
    first = jobs[0][0]
    changes = sorted([(submit, gpus) for submit, gpus, _ in jobs] + [(submit + s, -gpus) for submit, gpus, s in jobs])
    wanted = list(accumulate(change for _, change in changes))
    scale, unit = style.time_unit(changes[-1][0] - first)
    steps = _pick_extremes(wanted)
    xs, ys = [(changes[at][0] - first) / scale for at in steps], [wanted[at] for at in steps]
    axes.step(xs, ys, where="post", color=JOBS, linewidth=1.2, label="wanted")
    axes.fill_between(xs, ys, step="post", color=JOBS, alpha=0.2)
    if cluster_gpus is not None:
        label = f"the cluster has {cluster_gpus:,}"
        axes.axhline(cluster_gpus, color=WORK, linewidth=2, ls=style.dashes(1), label=label)
        axes.legend()
    axes.set(title="GPUs wanted if no job waited", xlabel=f"time since the first job ({unit})", ylabel="GPUs")
    axes.set_xlim(0, max(xs[-1], 1e-9))
    axes.set_ylim(bottom=0)


def _pick_evenly(count: int) -> list[int]:
    """Return evenly spaced indices, including the first and the last."""
    if count <= MAX_POINTS:
        return list(range(count))
    return [round(at * (count - 1) / (MAX_POINTS - 1)) for at in range(MAX_POINTS)]


def _pick_extremes(values: Sequence[int]) -> list[int]:
    """Return the indices of the lowest and highest value of each section, so that no peak is missed."""
    size = max(1, len(values) // (MAX_POINTS // 2))
    picked: set[int] = {0, len(values) - 1}
    for begin in range(0, len(values), size):
        section: Iterable[int] = range(begin, min(begin + size, len(values)))
        picked |= {min(section, key=values.__getitem__), max(section, key=values.__getitem__)}
    return sorted(picked)
