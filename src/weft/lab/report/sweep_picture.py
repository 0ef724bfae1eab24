"""The picture of a sweep: the metric of each trial over each of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from weft.lab.report import style

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

MAX_PANELS: Final = 9
COLUMNS: Final = 3
PANEL_WIDTH: Final = 3.7
PANEL_HEIGHT: Final = 3.0
MAX_LINEAR_RATIO: Final = 20.0
"""Parameters and metrics whose values differ by a larger factor get a logarithmic axis."""
MAX_TICKS: Final = 12
MAX_PLACES: Final = 5
"""The most values of a parameter that each get a tick."""
KINDS: Final = {"finished": ("o", True, 0, 30), "not finished": ("o", False, 0, 30), "best": ("*", True, 1, 160)}
"""Kinds of trials: marker, whether it is filled, number of its colour, size."""


class TrialPoint(NamedTuple):
    params: Mapping[str, str | float]
    """Each value as a number, or as text."""
    value: float
    is_best: bool = False
    is_finished: bool = True


def draw_sweep(title: str, metric: str, trials: Sequence[TrialPoint], format: Literal["png", "svg"] = "png") -> bytes:
    """Return the picture as PNG or SVG: one panel for each parameter that varies."""
    names = _varying(trials)[:MAX_PANELS]
    columns = min(max(len(names), 1), COLUMNS)
    rows = -(-max(len(names), 1) // columns)
    with style.drawing_style():
        drawn = style.figure(max(PANEL_WIDTH * columns, 5.0), PANEL_HEIGHT * rows + 0.5)
        drawn.suptitle(f"{style.shorten_label(title)}: {len(trials):,} trials", fontsize=13)
        panels: list[Axes] = list(drawn.subplots(rows, columns, sharey=True, squeeze=False).flatten())
        for at, axes in enumerate(panels):
            if at < max(len(names), 1):
                _draw_panel(axes, names[at] if names else "", trials)
            else:
                axes.set_visible(False)
            if at % columns == 0:
                axes.set_ylabel(style.shorten_label(metric))
        values = [trial.value for trial in trials]
        if values and min(values) > 0 and max(values) / min(values) > MAX_LINEAR_RATIO:
            panels[0].set_yscale("log")
            _set_plain_ticks(panels[0].yaxis)
        handles, labels = _legend(panels[: max(len(names), 1)])
        drawn.legend(handles, labels, loc="outside lower center", ncols=3)
        return style.to_png(drawn, dpi=120) if format == "png" else style.to_svg(drawn).encode("utf-8")


def _varying(trials: Sequence[TrialPoint]) -> list[str]:
    names = dict.fromkeys(name for trial in trials for name in trial.params)
    return [name for name in names if len({trial.params.get(name) for trial in trials}) > 1]


def _legend(panels: Sequence[Axes]) -> tuple[list[Artist], list[str]]:
    found: dict[str, Artist] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)


def _kind(trial: TrialPoint) -> str:
    return "best" if trial.is_best else "finished" if trial.is_finished else "not finished"


def _draw_panel(axes: Axes, name: str, trials: Sequence[TrialPoint]) -> None:
    """Draw one parameter. Texts are places on the axis, in their order; without a name, the order of the trials."""
    values = [trial.params.get(name, at) if name else at for at, trial in enumerate(trials)]
    places = sorted({str(value) for value in values}) if any(isinstance(value, str) for value in values) else []
    xs = [places.index(str(value)) if places else float(value) for value in values]
    for kind, (marker, filled, at, size) in KINDS.items():
        points = [(x, trial.value) for x, trial in zip(xs, trials, strict=True) if _kind(trial) == kind]
        if points:
            colour = style.colour(at)
            axes.scatter(
                [x for x, _ in points], [y for _, y in points], s=size, marker=marker, label=kind, linewidths=1.2,
                edgecolors=colour, facecolors=colour if filled else "none", alpha=0.85, zorder=3,
            )  # fmt: skip
    axes.set_xlabel(style.shorten_label(name) if name else "trial")
    if places:
        shown = places if len(places) <= MAX_TICKS else places[:: -(-len(places) // MAX_TICKS)]
        axes.set_xticks([places.index(place) for place in shown], [style.shorten_label(place) for place in shown])
        return
    if xs and min(xs) > 0 and max(xs) / min(xs) > MAX_LINEAR_RATIO:
        axes.set_xscale("log")
    _set_plain_ticks(axes.xaxis, sorted(set(xs)))


def _set_plain_ticks(axis: Axis, values: Sequence[float] = ()) -> None:
    """Write numbers plainly; with few values, at these values."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
    if 0 < len(values) <= MAX_PLACES:
        axis.set_major_locator(FixedLocator(values))
