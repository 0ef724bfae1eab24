"""The pictures of a comparison: JCT distribution; queue, utilisation and blocking over time; relative figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.lab.report import style
from weft.lab.report.digest import Digest
from weft.lab.report.stats import FIGURES, RELATIVE, Outcome, ratio
from weft.lab.report.timeline import Timeline

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

WIDTH: Final = 7.6
HEIGHT: Final = 3.6
MAX_LABELLED_POLICIES: Final = 8
"""With more policies, bars are too narrow for labels."""


class Series(NamedTuple):
    policy: str
    digest: Digest


class Picture(NamedTuple):
    name: str
    """The name of its files, without suffix."""
    title: str
    png: bytes
    svg: str


def draw_pictures(
    series: Sequence[Series],
    outcomes: Sequence[Outcome],
    base: Outcome | None,
    bounds: Mapping[str, float] | None = None,
) -> Iterator[Picture]:
    """Draw the pictures for which there is data. `bounds` are lower bounds for every policy."""
    with style.drawing_style():
        if any(len(each.digest.jcts_s) for each in series):
            yield _save("jct", "Distribution of job completion times", _draw_jct(series))
        if series:
            yield _save("queue", "Queue length over time", _draw_over_time(series, "jobs waiting", _pending))
            yield _save("utilisation", "GPU utilisation over time", _draw_utilisation(series))
            unit = "mean of waiting time / remaining time"
            yield _save("blocking", "Blocking index over time", _draw_over_time(series, unit, _blocking))
        if base is not None:
            yield _save(
                "normalised",
                f"Figures relative to {style.shorten_label(base.policy)}",
                _draw_bars(outcomes, base, bounds or {}),
            )


def _save(name: str, title: str, drawn: Figure) -> Picture:
    return Picture(name, title, style.to_png(drawn), style.to_svg(drawn))


def _draw_jct(series: Sequence[Series]) -> Figure:
    import numpy as np

    drawn = style.figure(WIDTH, HEIGHT)
    axes = drawn.add_subplot()
    every = np.maximum(np.concatenate([each.digest.jcts_s for each in series]), 1.0)
    low, high = style.set_log_time_axis(axes, float(every.min()) / 1.2, float(every.max()) * 1.2)
    for at, each in enumerate(series):
        jcts = np.maximum(each.digest.jcts_s, 1.0)
        if len(jcts):
            edges = np.concatenate(([low], jcts, [high]))
            parts, name = np.arange(len(jcts) + 1) / len(jcts), style.shorten_label(each.policy)
            axes.stairs(parts, edges, baseline=None, label=name, **_line_style(at))
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("job completion time (logarithmic)")
    axes.set_ylabel("part of jobs completed within")
    _add_legend(axes)
    return drawn


def _draw_over_time(series: Sequence[Series], unit: str, pick: Callable[[Timeline], NDArray[np.float64]]) -> Figure:
    """Draw a curve per policy. The axis is logarithmic above 1, so one long queue does not flatten the others."""
    drawn = style.figure(WIDTH, HEIGHT)
    axes = drawn.add_subplot()
    scale, name = _time(series)
    for at, each in enumerate(series):
        edges = each.digest.timeline.edges_s / scale
        middles = (edges[1:] + edges[:-1]) / 2
        axes.plot(middles, pick(each.digest.timeline), label=style.shorten_label(each.policy), **_line_style(at))
    style.set_symlog_axis(axes)
    axes.set_xlim(0, _last_s(series) / scale or 1)
    axes.set_xlabel(f"time ({name})")
    axes.set_ylabel(f"{unit}\n(logarithmic)")
    _add_legend(axes)
    return drawn


def _draw_utilisation(series: Sequence[Series]) -> Figure:
    """Draw a panel per policy: curves that fluctuate this much would hide each other."""
    drawn = style.figure(WIDTH, 0.9 + 0.62 * len(series))
    panels = drawn.subplots(len(series), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    scale, name = _time(series)
    for at, (each, axes) in enumerate(zip(series, panels, strict=True)):
        timeline = each.digest.timeline
        label, edges = style.shorten_label(each.policy), timeline.edges_s / scale
        axes.stairs(100 * timeline.utilisation, edges, fill=True, color=style.colour(at), alpha=0.75, label=label)
        axes.set_ylim(0, 105)
        axes.set_yticks((0, 50, 100))
        _add_legend(axes)
    panels[-1].set_xlim(0, _last_s(series) / scale or 1)
    panels[-1].set_xlabel(f"time ({name})")
    drawn.supylabel("GPUs in use (%)", fontsize=9.5)
    return drawn


def _last_s(series: Sequence[Series]) -> float:
    return max(float(each.digest.timeline.edges_s[-1]) for each in series)


def _time(series: Sequence[Series]) -> tuple[float, str]:
    return style.time_unit(_last_s(series))


def _draw_bars(outcomes: Sequence[Outcome], base: Outcome, bounds: Mapping[str, float]) -> Figure:
    """Draw bars that start at 1: up is worse than the baseline, down is better."""
    succeeded = [each for each in outcomes if not each.failed]
    drawn = style.figure(WIDTH, HEIGHT)
    axes = drawn.add_subplot()
    width = 0.86 / len(succeeded)
    every: list[float] = [1.0]
    for at, each in enumerate(succeeded):
        ratios = {group: found for group, key in enumerate(RELATIVE) if (found := ratio(each, base, key)) is not None}
        every += ratios.values()
        bars = axes.bar(
            [group - 0.43 + (at + 0.5) * width for group in ratios], [found - 1 for found in ratios.values()],
            width * 0.9, bottom=1.0,
            label=style.shorten_label(each.policy), color=style.colour(at), edgecolor=style.PAPER,
            hatch=style.hatch(at), linewidth=0, yerr=_relative_errors(each, base),
            error_kw={"elinewidth": 1, "capsize": 2, "ecolor": style.INK},
        )  # fmt: skip
        if len(succeeded) <= MAX_LABELLED_POLICIES:
            values = [f"{found:.2f}" if found < 9.95 else f"{found:.0f}" for found in ratios.values()]
            box = {"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.4}
            axes.bar_label(bars, values, rotation=90, fontsize=6.5, padding=2.5, bbox=box)
    every += _draw_bounds(axes, base, bounds)
    axes.axhline(1.0, color=style.INK, linewidth=0.8, zorder=2.5)
    logarithmic = style.set_ratio_axis(axes, min(every), max(every))
    axes.set_xticks(range(len(RELATIVE)), [FIGURES[key].replace(" JCT", "\nJCT") for key in RELATIVE])
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    scale = "logarithmic; smaller is better" if logarithmic else "smaller is better"
    axes.set_ylabel(f"times that of {style.shorten_label(base.policy)}\n({scale})")
    _add_legend(axes)
    return drawn


def _draw_bounds(axes: Axes, base: Outcome, bounds: Mapping[str, float]) -> list[float]:
    """Draw the bound of each group of bars, relative to the baseline, and return the values."""
    found = {
        group: bounds[key] / known.mean
        for group, key in enumerate(RELATIVE)
        if bounds.get(key) and (known := base.figures[key]) and known.mean
    }
    if found:
        lefts, rights = [group - 0.45 for group in found], [group + 0.45 for group in found]
        line: dict[str, Any] = {"colors": style.INK, "linestyles": "dashed", "linewidth": 1.1, "zorder": 2.6}
        axes.hlines(list(found.values()), lefts, rights, label="lower bound", **line)
    return list(found.values())


def _pending(timeline: Timeline) -> NDArray[np.float64]:
    return timeline.pending


def _blocking(timeline: Timeline) -> NDArray[np.float64]:
    return timeline.blocking


def _relative_errors(one: Outcome, base: Outcome) -> list[float] | None:
    """Return the confidence intervals relative to the baseline; None if there are none."""
    errors = []
    for key in RELATIVE:
        mine, other = one.figures[key], base.figures[key]
        if mine and other and other.mean:
            errors.append((mine.ci95 or 0.0) / other.mean)
    return errors if any(errors) else None


def _line_style(at: int) -> dict[str, Any]:
    """Return the style of a line. Later lines are thinner, so coinciding curves all stay visible."""
    return {"color": style.colour(at), "linestyle": style.dashes(at), "linewidth": max(2.4 - 0.2 * at, 1.2)}


def _add_legend(axes: Axes) -> None:
    """Add a legend outside the axes, where it hides nothing."""
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3.2)
