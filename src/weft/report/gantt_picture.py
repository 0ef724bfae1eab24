"""A Gantt chart of the GPUs as a picture: every run where they are few, else a heat map of jobs per GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.report import style
from weft.report.gantt import Bar, Gantt

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH: Final = 9.6
TINTS: Final = ("#4d9cc9", "#e08b4a", "#4dbb9b", "#dba1c1", "#edbc4d", "#9bd2f0", "#a8a8a8", "#b8a26a")
"""Okabe and Ito's colours, paler, so that black on them can be read."""
ROOM_FOR_A_NAME: Final = 0.012
"""Of the width, per letter."""
NODE_NAMES: Final = 20


def gantt_png(gantt: Gantt) -> bytes:
    """A row per GPU, grouped by node; by node alone where there are many."""
    with style.styled():
        rows = len(gantt.nodes) if gantt.by_node else gantt.gpus
        drawn = style.figure(WIDTH, min(max(1.2 + 0.13 * rows, 2.2), 8.0))
        axes = drawn.add_subplot()
        scale, unit = style.time_unit(gantt.until_s)
        last = gantt.until_s / scale or 1.0
        if gantt.density is None:
            for bar in gantt.bars:
                _draw(axes, bar, scale, last)
        else:
            _heat(axes, gantt, last)
        axes.set_xlim(0, last)
        axes.set_ylim(max(rows, 1), 0)
        axes.set_xlabel(f"time ({unit})")
        axes.set_ylabel("nodes" if gantt.by_node else "GPUs by node")
        axes.grid(visible=False)
        _name_rows(axes, gantt)
        axes.set_title(_caption(gantt), fontsize=8.5, color=style.INK)
        return style.as_png(drawn, dpi=110)


def _caption(gantt: Gantt) -> str:
    if gantt.density is None:
        return "a bar per run; jobs that share GPUs lie in lanes; colours only tell neighbours apart"
    return f"a row per {'node' if gantt.by_node else 'GPU'}; the brighter, the more jobs at a time"


def _draw(axes: Axes, bar: Bar, scale: float, last: float) -> None:
    height = bar.rows / bar.lanes
    top, start, width = bar.row + bar.lane * height, bar.start_s / scale, (bar.end_s - bar.start_s) / scale
    tint = TINTS[sum(map(ord, bar.job)) % len(TINTS)]
    axes.broken_barh([(start, width)], (top, height), facecolor=tint, edgecolor=style.PAPER, linewidth=0.4)
    if height >= 0.9 and width >= ROOM_FOR_A_NAME * last * (len(bar.job) + 1):
        middle = start + width / 2, top + height / 2
        axes.annotate(style.label(bar.job), middle, fontsize=6, ha="center", va="center", annotation_clip=True)


def _heat(axes: Axes, gantt: Gantt, last: float) -> None:
    assert gantt.density is not None
    rows = gantt.density.shape[0]
    top = max(1.0, float(gantt.density.max()))
    image = axes.imshow(
        gantt.density, aspect="auto", interpolation="nearest", cmap="cividis", vmin=0, vmax=top,
        extent=(0, last, rows, 0),
    )  # fmt: skip
    figure = axes.figure
    figure.colorbar(image, ax=axes, label="jobs per GPU, on average", pad=0.015, fraction=0.03)


def _name_rows(axes: Axes, gantt: Gantt) -> None:
    """A name per node, or per every so many nodes; a line between nodes where rows are GPUs."""
    sizes = [1 if gantt.by_node else gpus for _, gpus in gantt.nodes]
    step = max(-(-len(sizes) // NODE_NAMES), 1)
    first = 0
    places: list[float] = []
    names: list[str] = []
    for at, ((name, _), size) in enumerate(zip(gantt.nodes, sizes, strict=True)):
        if at % step == 0:
            places.append(first + size / 2)
            names.append(style.label(name))
        first += size
        if not gantt.by_node and at < len(sizes) - 1:
            axes.axhline(first, color=style.INK, linewidth=0.6)
    axes.set_yticks(places, names)
    axes.tick_params(axis="y", length=0)
