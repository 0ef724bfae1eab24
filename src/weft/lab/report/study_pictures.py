"""The pictures of studies: GPUs in use, and requests, replicas and latency of a service over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.lab.report import style
from weft.lab.report.pictures import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weft.lab.report.digest import Served

WIDTH: Final = 7.6
HEIGHT: Final = 3.6


class Line(NamedTuple):
    """A series that keeps each value until the next time."""

    label: str
    times_s: Sequence[float]
    values: Sequence[float]


def save(name: str, title: str, drawn: Figure) -> Picture:
    return Picture(name, title, style.to_png(drawn), style.to_svg(drawn))


def draw_colocation(lines: Sequence[Line], bound: int | None) -> Iterator[Picture]:
    """Draw the peaks as bars, and the GPUs in use over time."""
    with style.drawing_style():
        yield save("peak-gpus", "Most GPUs in use", _draw_peaks(lines, bound))
        yield save("gpus", "GPUs in use over time", _draw_gpus(lines, bound))


def _draw_peaks(lines: Sequence[Line], bound: int | None) -> Figure:
    drawn = style.figure(WIDTH, HEIGHT)
    axes = drawn.add_subplot()
    for at, line in enumerate(lines):
        peak = max(line.values, default=0)
        bars = axes.bar(
            at, peak, 0.66, color=style.colour(at), hatch=style.hatch(at), edgecolor=style.PAPER, linewidth=0
        )
        axes.bar_label(bars, [f"{peak:,}"], padding=2)
    draw_bound(axes, bound, "lower bound")
    axes.set_xticks(range(len(lines)), [style.shorten_label(line.label) for line in lines])
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("most GPUs in use")
    axes.margins(y=0.12)
    return drawn


def _draw_gpus(lines: Sequence[Line], bound: int | None) -> Figure:
    drawn = style.figure(WIDTH, HEIGHT)
    axes = drawn.add_subplot()
    draw_lines(axes, lines)
    draw_bound(axes, bound, "lower bound of the peak")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("GPUs in use")
    add_legend(axes)
    return drawn


def draw_lines(axes: Axes, lines: Sequence[Line]) -> None:
    """Draw steps over time; set the time axis."""
    last_s = max((line.times_s[-1] for line in lines if len(line.times_s)), default=0.0)
    scale, name = style.time_unit(last_s)
    for at, line in enumerate(lines):
        times = [each / scale for each in line.times_s]
        axes.step(
            times, line.values, where="post", label=style.shorten_label(line.label), color=style.colour(at),
            linestyle=style.dashes(at), linewidth=max(2.0 - 0.2 * at, 1.0),
        )  # fmt: skip
    axes.set_xlim(0, last_s / scale or 1)
    axes.set_xlabel(f"time ({name})")


def draw_bound(axes: Axes, bound: int | None, label: str) -> None:
    if bound is not None:
        axes.axhline(bound, color=style.INK, linestyle="dashed", linewidth=1.1, zorder=2.6)
        note = f"{label}: {bound:,}"
        axes.annotate(
            note, (0.01, bound), xycoords=("axes fraction", "data"), xytext=(0, 3), textcoords="offset points",
            fontsize=7.5, bbox={"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.6},
        )  # fmt: skip


def add_legend(axes: Axes) -> None:
    """Add a legend outside the axes, where it hides nothing."""
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3.2)


def draw_scaling(
    requests: Line, replicas: Sequence[Line], p95s: Sequence[Line], *, name: str = "scaling", of: str = ""
) -> Iterator[Picture]:
    """Draw requests, replicas and latency over time, one above the other. `of`: the service, for the title."""
    with style.drawing_style():
        drawn = style.figure(WIDTH, 6.4)
        top, middle, bottom = drawn.subplots(3, 1, sharex=True)
        draw_lines(top, [requests])
        top.set_ylabel("requests/s")
        draw_lines(middle, replicas)
        middle.set_ylabel("replicas")
        add_legend(middle)
        draw_lines(bottom, p95s)
        bottom.set_ylabel("95th percentile\nof latency (s)")
        middle.yaxis.get_major_locator().set_params(integer=True)
        for axes in (top, middle, bottom):
            axes.set_ylim(bottom=0)
        _stretch(bottom, p95s)
        for axes in (top, middle):
            axes.set_xlabel("")
        about = f"{of}: requests, replicas and latency over time" if of else "Requests, replicas and latency over time"
        yield save(name, about, drawn)


def _stretch(axes: Axes, lines: Sequence[Line]) -> None:
    """Use a logarithmic axis if a few large values would flatten all others."""
    values = sorted(value for line in lines for value in line.values if value > 0)
    if values and values[-1] > 20 * values[len(values) // 2]:
        style.set_log_seconds_axis(axes, values[0] / 1.5, values[-1] * 1.5)


def draw_services(served: Sequence[tuple[str, Served]]) -> Iterator[Picture]:
    """Draw each service over time, and the GPUs in use; a line for each policy."""
    for at, name in enumerate(served[0][1].services):
        found = [(policy, each.services[name]) for policy, each in served]
        yield from draw_scaling(
            Line("requests", found[0][1].times_s, found[0][1].rates),
            [Line(policy, series.times_s, series.replicas) for policy, series in found],
            [Line(policy, series.p95_times_s, series.p95s_s) for policy, series in found],
            name=f"service-{at + 1}", of=name,
        )  # fmt: skip
    with style.drawing_style():
        lines = [Line(policy, each.gpu_times_s, each.gpus) for policy, each in served]
        yield save("gpus", "GPUs in use over time, by training and services", _draw_gpus(lines, None))


def draw_sharing(rows: Sequence[tuple[str, str, float, float]]) -> Iterator[Picture]:
    """Draw latency and training speed of pairs as groups of bars. A row: pair, mode, p95 in seconds, speed."""
    pairs, modes = list(dict.fromkeys(row[0] for row in rows)), list(dict.fromkeys(row[1] for row in rows))
    with style.drawing_style():
        drawn = style.figure(max(WIDTH, 1.1 * len(pairs)), 5.6)
        panels = drawn.subplots(2, 1, sharex=True)
        width = 0.84 / len(modes)
        for at, mode in enumerate(modes):
            mine = {row[0]: row for row in rows if row[1] == mode}
            places = [pairs.index(pair) - 0.42 + (at + 0.5) * width for pair in mine]
            for axes, values in zip(
                panels, ([1000 * row[2] for row in mine.values()], [100 * row[3] for row in mine.values()]), strict=True
            ):
                axes.bar(
                    places, values, width * 0.9, label=mode, color=style.colour(at), hatch=style.hatch(at),
                    edgecolor=style.PAPER, linewidth=0,
                )  # fmt: skip
        panels[0].set_ylabel("95th percentile\nof latency (ms)")
        panels[1].set_ylabel("training speed\n(% of alone)")
        names = [style.shorten_label(pair).replace(" + ", "\n+ ") for pair in pairs]
        panels[1].set_xticks(range(len(pairs)), names, fontsize=7.5)
        for axes in panels:
            axes.tick_params(axis="x", length=0)
            axes.grid(visible=False, axis="x")
        add_legend(panels[0])
        yield save("sharing", "A replica and a training job on one GPU", drawn)
