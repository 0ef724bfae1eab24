"""A trace in one picture: arrivals, GPU counts, durations, and the GPUs it would like to have over time."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from weft.errors import WeftError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TracedJob = tuple[float, int, float]
"""When it is submitted (s), its GPUs, how long it takes alone (s)."""

BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#404040"
"""Of Okabe and Ito's palette; apart in brightness too, and the second is dashed or hatched as well."""
MOST_BINS, FEWEST_BINS, JOBS_PER_BIN = 60, 10, 8
MOST_STEPS: Final = 4000
SIZES: Final = 12
DURATIONS: Final = ((1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (6 * 3600, "6 h"),
                    (86400, "1 d"), (7 * 86400, "1 w"), (60 * 86400, "60 d"))  # fmt: skip
UNITS: Final = ((3 * 86400, 86400, "days"), (3 * 3600, 3600, "hours"), (0, 60, "minutes"))


def draw(title: str, jobs: Sequence[TracedJob], *, cluster_gpus: int | None = None, format: str = "png") -> bytes:
    """The picture as PNG or SVG; the same trace makes the same bytes."""
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise WeftError("a picture needs matplotlib\n  install it: pip install matplotlib") from None
    with mpl.rc_context({"svg.hashsalt": "weft", "svg.fonttype": "path", "font.size": 9.5}):
        figure = Figure(figsize=(11, 7), dpi=120, layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(f"{title}: {len(jobs):,} jobs", fontsize=13, fontweight="bold")
        (above_left, above_right), (below_left, below_right) = figure.subplots(2, 2)
        _arrivals(above_left, jobs)
        _sizes(above_right, jobs)
        _durations(below_left, jobs)
        _demand(below_right, jobs, cluster_gpus)
        for axes in figure.axes:
            axes.grid(visible=True, color="#dddddd", linewidth=0.6)
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
        picture = io.BytesIO()
        metadata = {"Date": None} if format == "svg" else {"Software": None}
        figure.savefig(picture, format=format, metadata=metadata)
    return picture.getvalue()


def _arrivals(axes: Axes, jobs: Sequence[TracedJob]) -> None:
    first, last = jobs[0][0], jobs[-1][0]
    scale, unit = _unit(last - first)
    bins = max(FEWEST_BINS, min(len(jobs) // JOBS_PER_BIN, MOST_BINS))
    width = max((last - first) / bins, 1.0)
    counts = Counter(min(int((submit - first) / width), bins - 1) for submit, _, _ in jobs)
    edges = [at * width / scale for at in range(bins + 1)]
    axes.stairs([counts[at] / width * 3600 for at in range(bins)], edges, fill=True, color=BLUE)
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
    axes.bar([x - 0.2 for x in at], [100 * part for part, _ in parts], 0.38, color=BLUE, label="of the jobs")
    axes.bar(
        [x + 0.2 for x in at], [100 * part for _, part in parts], 0.38, color=ORANGE, label="of the GPU time",
        hatch="///", edgecolor="white", linewidth=0,
    )  # fmt: skip
    axes.set_xticks(list(at), labels)
    axes.set(title="GPUs per job", xlabel="GPUs", ylabel="part (%)", ylim=(0, 105))
    axes.legend(frameon=False)


def _durations(axes: Axes, jobs: Sequence[TracedJob]) -> None:
    by_length = sorted((seconds, gpus * seconds) for _, gpus, seconds in jobs)
    lengths = [seconds for seconds, _ in by_length]
    work = list(accumulate(part for _, part in by_length))
    picked = _pick(len(lengths))
    xs = [lengths[at] for at in picked]
    axes.plot(xs, [100 * (at + 1) / len(lengths) for at in picked], color=BLUE, linewidth=2, label="of the jobs")
    axes.plot(
        xs, [100 * work[at] / work[-1] for at in picked], color=ORANGE, linewidth=2, ls="--", label="of the GPU time"
    )
    median = lengths[len(lengths) // 2]
    axes.axvline(median, color=GREY, linewidth=1, ls=":", label="median job")
    axes.set_xscale("log")
    low, high = lengths[0] / 1.3, lengths[-1] * 1.3
    ticks = [(at, name) for at, name in DURATIONS if low <= at <= high]
    if len(ticks) > 1:
        axes.set_xticks([at for at, _ in ticks], [name for _, name in ticks])
        axes.set_xticks([], minor=True)
    axes.set(title="Durations", xlabel="takes at most, alone on its GPUs", ylabel="part (%)")
    axes.set(xlim=(low, high), ylim=(0, 105))
    axes.legend(frameon=False)


def _demand(axes: Axes, jobs: Sequence[TracedJob], cluster_gpus: int | None) -> None:
    """GPUs in use if every job started as it arrives."""
    first = jobs[0][0]
    changes = sorted([(submit, gpus) for submit, gpus, _ in jobs] + [(submit + s, -gpus) for submit, gpus, s in jobs])
    wanted = list(accumulate(change for _, change in changes))
    scale, unit = _unit(changes[-1][0] - first)
    steps = _peaks(wanted)
    xs, ys = [(changes[at][0] - first) / scale for at in steps], [wanted[at] for at in steps]
    axes.step(xs, ys, where="post", color=BLUE, linewidth=1.2, label="wanted")
    axes.fill_between(xs, ys, step="post", color=BLUE, alpha=0.2)
    if cluster_gpus is not None:
        axes.axhline(cluster_gpus, color=ORANGE, linewidth=2, ls="--", label=f"the cluster has {cluster_gpus:,}")
        axes.legend(frameon=False)
    axes.set(title="GPUs wanted, were nobody to wait", xlabel=f"time since the first job ({unit})", ylabel="GPUs")
    axes.set_xlim(0, max(xs[-1], 1e-9))
    axes.set_ylim(bottom=0)


def _unit(span_s: float) -> tuple[float, str]:
    return next((scale, unit) for least, scale, unit in UNITS if span_s >= least)


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
