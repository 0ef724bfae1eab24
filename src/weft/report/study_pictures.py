"""The pictures of studies: GPUs in use, and requests, replicas and latency of a service over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.report import style
from weft.report.pictures import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
