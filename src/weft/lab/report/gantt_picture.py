"""The picture of a Gantt chart: a bar per run if there are few, else a heat map of jobs per GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor
from typing import TYPE_CHECKING, Final

from weft.lab.report import style
from weft.lab.report.gantt import Bar, Gantt

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH: Final = 9.6
TINTS: Final = ("#4d9cc9", "#e08b4a", "#4dbb9b", "#dba1c1", "#edbc4d", "#9bd2f0", "#a8a8a8", "#b8a26a")
"""Paler versions of Okabe and Ito's colours, on which black text is legible."""
LETTER_WIDTH: Final = 0.012
"""Width of a letter, as a part of the chart's width."""
MAX_NODE_NAMES: Final = 20
NAME_HEIGHT_INCHES: Final = 0.09
MAX_ROWS_INCHES: Final = 6.8

Box = tuple[float, float, float, float]
"""Start and end in seconds, then top and bottom in rows."""


def draw_gantt(gantt: Gantt) -> bytes:
    """Draw a row per GPU, grouped by node, or a row per node if there are many GPUs. Return a PNG."""
    with style.drawing_style():
        rows = len(gantt.nodes) if gantt.by_node else gantt.gpus
        drawn = style.figure(WIDTH, min(max(1.2 + 0.13 * rows, 2.2), 8.0))
        axes = drawn.add_subplot()
        scale, unit = style.time_unit(gantt.until_s)
        last = gantt.until_s / scale or 1.0
        if gantt.density is None:
            for bar in gantt.bars:
                _draw_bar(axes, bar, scale)
            for bar, x, y in place_labels(gantt.bars, gantt.until_s, rows):
                axes.annotate(style.shorten_label(bar.job), (x / scale, y), fontsize=6, ha="center", va="center")
        else:
            _draw_heat_map(axes, gantt, last)
        axes.set_xlim(0, last)
        axes.set_ylim(max(rows, 1), 0)
        axes.set_xlabel(f"time ({unit})")
        axes.set_ylabel("nodes" if gantt.by_node else "GPUs by node")
        axes.grid(visible=False)
        _label_rows(axes, gantt)
        axes.set_title(_caption(gantt), fontsize=8.5, color=style.INK)
        return style.to_png(drawn, dpi=110)


def _caption(gantt: Gantt) -> str:
    if gantt.density is None:
        return "a bar per run; jobs that share GPUs lie in lanes; colours only tell neighbours apart"
    return f"a row per {'node' if gantt.by_node else 'GPU'}; the brighter, the more jobs at a time"


def place_labels(bars: Sequence[Bar], until_s: float, rows: int) -> Iterator[tuple[Bar, float, float]]:
    """Yield each bar with space for a name, and the name's centre (time, row).

    Names overlap neither each other nor another job's lane.
    """
    tall = max(0.9, rows * NAME_HEIGHT_INCHES / MAX_ROWS_INCHES)
    taken: dict[int, list[tuple[Box, str]]] = {}
    for bar in bars:
        if bar.lanes > 1:
            _mark_taken(taken, _box(bar), bar.job)
    for bar in bars:
        start, end, top, bottom = _box(bar)
        wide = LETTER_WIDTH * until_s * (len(bar.job) + 1)
        if end - start < wide or bottom - top < tall:
            continue
        x, y = (start + end) / 2, (top + bottom) / 2
        name = x - wide / 2, x + wide / 2, y - tall / 2, y + tall / 2
        if not any(_overlap(name, box) and job != bar.job for row in _rows(name) for box, job in taken.get(row, ())):
            _mark_taken(taken, name, "")
            yield bar, x, y


def _box(bar: Bar) -> Box:
    height = bar.rows / bar.lanes
    top = bar.row + bar.lane * height
    return bar.start_s, bar.end_s, top, top + height


def _mark_taken(taken: dict[int, list[tuple[Box, str]]], box: Box, job: str) -> None:
    for row in _rows(box):
        taken.setdefault(row, []).append((box, job))


def _rows(box: Box) -> range:
    return range(floor(box[2]), ceil(box[3]))


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def _draw_bar(axes: Axes, bar: Bar, scale: float) -> None:
    height = bar.rows / bar.lanes
    top, start, width = bar.row + bar.lane * height, bar.start_s / scale, (bar.end_s - bar.start_s) / scale
    tint = TINTS[sum(map(ord, bar.job)) % len(TINTS)]
    axes.broken_barh([(start, width)], (top, height), facecolor=tint, edgecolor=style.PAPER, linewidth=0.4)


def _draw_heat_map(axes: Axes, gantt: Gantt, last: float) -> None:
    assert gantt.density is not None
    rows = gantt.density.shape[0]
    top = max(1.0, float(gantt.density.max()))
    image = axes.imshow(
        gantt.density, aspect="auto", interpolation="nearest", cmap="cividis", vmin=0, vmax=top,
        extent=(0, last, rows, 0),
    )  # fmt: skip
    figure = axes.figure
    figure.colorbar(image, ax=axes, label="jobs per GPU, on average", pad=0.015, fraction=0.03)


def _label_rows(axes: Axes, gantt: Gantt) -> None:
    """Name every node, or every n-th if there are many. Draw lines between nodes if rows are GPUs."""
    sizes = [1 if gantt.by_node else gpus for _, gpus in gantt.nodes]
    step = max(-(-len(sizes) // MAX_NODE_NAMES), 1)
    first = 0
    ticks: list[float] = []
    names: list[str] = []
    for at, ((name, _), size) in enumerate(zip(gantt.nodes, sizes, strict=True)):
        if at % step == 0:
            ticks.append(first + size / 2)
            names.append(style.shorten_label(name))
        first += size
        if not gantt.by_node and at < len(sizes) - 1:
            axes.axhline(first, color=style.INK, linewidth=0.6)
    axes.set_yticks(ticks, names)
    axes.tick_params(axis="y", length=0)
