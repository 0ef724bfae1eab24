"""The picture of a load test: requests per second, latency over time, and the distribution of latency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.lab.report import style
from weft.lab.report.pictures import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH: Final = 7.6
HEIGHT: Final = 6.4


class LoadSeries(NamedTuple):
    """Figures of each second, and all latencies in order."""

    requests: Sequence[int]
    failed: Sequence[int]
    p50_s: Sequence[float]
    p99_s: Sequence[float]
    latencies_s: Sequence[float]
    slo_s: float | None


def draw_load(series: LoadSeries) -> Iterator[Picture]:
    """Draw requests and latency over time, and the distribution of latency."""
    with style.drawing_style():
        drawn = style.figure(WIDTH, HEIGHT)
        upper, middle, lower = drawn.subplots(3, 1)
        _draw_requests(upper, series)
        _draw_latency(middle, series)
        _draw_distribution(lower, series)
        yield Picture("load", "Requests and latency", style.to_png(drawn), style.to_svg(drawn))


def _hold(values: Sequence[float]) -> list[float]:
    """Return the values with the last one twice, so that its step has a width."""
    return [*values, *values[-1:]] if values else [0.0]


def _draw_requests(axes: Axes, series: LoadSeries) -> None:
    seconds = range(len(series.requests) + 1)
    axes.step(seconds, _hold(series.requests), where="post", color=style.colour(0), label="sent")
    if any(series.failed):
        axes.step(
            seconds,
            _hold(series.failed),
            where="post",
            color=style.colour(1),
            linestyle=style.dashes(1),
            label="failed",
        )
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, max(len(series.requests), 1))
    axes.set_ylabel("requests/s")


def _draw_latency(axes: Axes, series: LoadSeries) -> None:
    for at, (label, values) in enumerate((("p50", series.p50_s), ("p99", series.p99_s))):
        axes.step(
            range(len(values) + 1), [1e3 * value for value in _hold(values)], where="post", label=label,
            color=style.colour(at), linestyle=style.dashes(at),
        )  # fmt: skip
    if series.slo_s is not None:
        axes.axhline(1e3 * series.slo_s, color=style.INK, linestyle="dashed", linewidth=1.1, label="limit")
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, max(len(series.p50_s), 1))
    axes.set_xlabel("time (seconds)")
    axes.set_ylabel("latency (ms)")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _draw_distribution(axes: Axes, series: LoadSeries) -> None:
    ordered = [1e3 * each for each in series.latencies_s]
    parts = [100 * (at + 1) / len(ordered) for at in range(len(ordered))]
    axes.step(ordered, parts, where="post", color=style.colour(0))
    if series.slo_s is not None:
        axes.axvline(1e3 * series.slo_s, color=style.INK, linestyle="dashed", linewidth=1.1)
    axes.set_ylim(0, 100)
    axes.set_xlim(left=0)
    axes.set_xlabel("latency (ms)")
    axes.set_ylabel("answers (%)")
