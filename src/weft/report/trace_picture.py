"""A trace in one picture: arrivals, GPU counts, durations, and the GPUs it would like to have over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Literal

from weft.report import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TracedJob = tuple[float, int, float]
"""When it is submitted (s), its GPUs, how long it takes alone (s)."""

JOBS, WORK = style.colour(0), style.colour(1)
"""What is counted by jobs, and by GPU time; the latter is dashed or hatched as well."""
MOST_BINS, FEWEST_BINS, JOBS_PER_BIN = 60, 10, 8
MOST_STEPS: Final = 4000
SIZES: Final = 12


def draw(
    title: str, jobs: Sequence[TracedJob], *, cluster_gpus: int | None = None, format: Literal["png", "svg"] = "png"
) -> bytes:
    """The picture as PNG or SVG; the same trace makes the same bytes."""
    with style.styled():
        figure = style.figure(11, 7)
        figure.suptitle(f"{style.label(title)}: {len(jobs):,} jobs", fontsize=13)
        (above_left, above_right), (below_left, below_right) = figure.subplots(2, 2)
        _arrivals(above_left, jobs)
        _sizes(above_right, jobs)
        _durations(below_left, jobs)
        _demand(below_right, jobs, cluster_gpus)
        return style.as_png(figure, dpi=120) if format == "png" else style.as_svg(figure).encode("utf-8")


def _arrivals(axes: Axes, jobs: Sequence[TracedJob]) -> None:
    first, last = jobs[0][0], jobs[-1][0]
    scale, unit = style.time_unit(last - first)
    bins = max(FEWEST_BINS, min(len(jobs) // JOBS_PER_BIN, MOST_BINS))
    width = max((last - first) / bins, 1.0)
    counts = Counter(min(int((submit - first) / width), bins - 1) for submit, _, _ in jobs)
    edges = [at * width / scale for at in range(bins + 1)]
    axes.stairs([counts[at] / width * 3600 for at in range(bins)], edges, fill=True, color=JOBS)
    axes.set(title="Arrivals", xlabel=f"time since the first job ({unit})", ylabel="jobs per hour")
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(bottom=0)


def _sizes(axes: Axes, jobs: Sequence[TracedJob]) -> None:
    """Part of the jobs, and of the work, by GPU count; rare counts are put together."""
    count = Counter(gpus for _, gpus, _ in jobs)
    work = dict.fromkeys(count, 0.0)
    for _, gpus, seconds in jobs:
        work[gpus] += gpus * seconds
    common = sorted(size for size, _ in count.most_common(SIZES))
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


def _durations(axes: Axes, jobs: Sequence[TracedJob]) -> None:
    by_length = sorted((seconds, gpus * seconds) for _, gpus, seconds in jobs)
    lengths = [seconds for seconds, _ in by_length]
    work = list(accumulate(part for _, part in by_length))
    picked = _pick(len(lengths))
    xs = [lengths[at] for at in picked]
    axes.plot(xs, [100 * (at + 1) / len(lengths) for at in picked], color=JOBS, label="of the jobs")
    axes.plot(xs, [100 * work[at] / work[-1] for at in picked], color=WORK, ls=style.dashes(1), label="of the GPU time")
    axes.axvline(lengths[len(lengths) // 2], color=style.INK, linewidth=1, ls=":", label="median job")
    style.log_time(axes, lengths[0] / 1.3, lengths[-1] * 1.3)
    axes.set(title="Durations", xlabel="takes at most, alone on its GPUs", ylabel="part (%)", ylim=(0, 105))
    axes.legend()


def _demand(axes: Axes, jobs: Sequence[TracedJob], cluster_gpus: int | None) -> None:
    """GPUs in use if every job started as it arrives."""
    first = jobs[0][0]
    changes = sorted([(submit, gpus) for submit, gpus, _ in jobs] + [(submit + s, -gpus) for submit, gpus, s in jobs])
    wanted = list(accumulate(change for _, change in changes))
    scale, unit = style.time_unit(changes[-1][0] - first)
    steps = _peaks(wanted)
    xs, ys = [(changes[at][0] - first) / scale for at in steps], [wanted[at] for at in steps]
    axes.step(xs, ys, where="post", color=JOBS, linewidth=1.2, label="wanted")
    axes.fill_between(xs, ys, step="post", color=JOBS, alpha=0.2)
    if cluster_gpus is not None:
        label = f"the cluster has {cluster_gpus:,}"
        axes.axhline(cluster_gpus, color=WORK, linewidth=2, ls=style.dashes(1), label=label)
        axes.legend()
    axes.set(title="GPUs wanted, were nobody to wait", xlabel=f"time since the first job ({unit})", ylabel="GPUs")
    axes.set_xlim(0, max(xs[-1], 1e-9))
    axes.set_ylim(bottom=0)


def _pick(count: int) -> list[int]:
    """Evenly, first and last included."""
    if count <= MOST_STEPS:
        return list(range(count))
    return [round(at * (count - 1) / (MOST_STEPS - 1)) for at in range(MOST_STEPS)]


def _peaks(values: Sequence[int]) -> list[int]:
    """Of each stretch its lowest and highest point, so that no peak is missed."""
    size = max(1, len(values) // (MOST_STEPS // 2))
    picked: set[int] = {0, len(values) - 1}
    for begin in range(0, len(values), size):
        stretch: Iterable[int] = range(begin, min(begin + size, len(values)))
        picked |= {min(stretch, key=values.__getitem__), max(stretch, key=values.__getitem__)}
    return sorted(picked)
