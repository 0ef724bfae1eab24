"""Figures 9 to 13 of the Muri paper: policies on variants of its traces, relative to Muri."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.lab.report import style
from weft.lab.report.pictures import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KNOWN: Final = ("srtf", "srsf", "muri-s")
UNKNOWN: Final = ("tiresias", "themis", "antman", "muri-l")
PANELS: Final = {"avg_jct_s": "average JCT", "makespan_s": "makespan", "p99_jct_s": "99th percentile JCT"}

Results = Mapping[tuple[str, str], Mapping[str, float]]
"""Figures by variant and policy."""


class FigurePlan(NamedTuple):
    number: int
    title: str
    policies: tuple[str, ...]
    mixes: bool = False
    """Uses the mixes of job types instead of the traces."""


PLANS: Final = (
    FigurePlan(9, "durations known", KNOWN),
    FigurePlan(10, "durations unknown", UNKNOWN),
    FigurePlan(
        11, "without matching, and with the worst ordering", ("muri-l:blossom=off", "muri-l:ordering=worst", "muri-l")
    ),
    FigurePlan(12, "jobs per weave", ("muri-l:packing=2", "muri-l:packing=3", "muri-l")),
    FigurePlan(13, "number of job types", ("srsf", "muri-s", "tiresias", "muri-l"), mixes=True),
)


class Row(NamedTuple):
    figure: int
    variant: str
    policy: str
    baseline: str
    values: Mapping[str, float]
    relative: Mapping[str, float]


def baseline_of(policy: str) -> str:
    """Return the variant of Muri that knows as much about durations as the policy."""
    return "muri-s" if policy in KNOWN else "muri-l"


def relative_rows(ran: Results, traces: Sequence[str], mixes: Sequence[str]) -> Iterator[Row]:
    """Yield the rows, figure by figure. Skip rows without a result or a baseline."""
    for plan in PLANS:
        for variant in mixes if plan.mixes else traces:
            for policy in plan.policies:
                mine, base = ran.get((variant, policy)), ran.get((variant, baseline_of(policy)))
                if mine is not None and base is not None:
                    relative = {key: mine[key] / base[key] for key in PANELS if base[key]}
                    yield Row(plan.number, variant, policy, baseline_of(policy), mine, relative)


def draw_figures(table: Sequence[Row]) -> Iterator[Picture]:
    with style.drawing_style():
        for plan in PLANS:
            mine = [row for row in table if row.figure == plan.number]
            if mine:
                drawn = _draw_figure(plan, mine)
                title = f"Figure {plan.number}: {plan.title}"
                yield Picture(f"figure-{plan.number}", title, style.to_png(drawn), style.to_svg(drawn))


def _draw_figure(plan: FigurePlan, mine: Sequence[Row]) -> Figure:
    variants = list(dict.fromkeys(row.variant for row in mine))
    wide = len(variants) > 4
    drawn = style.figure(8.6, 8.0 if wide else 3.6)
    panels = drawn.subplots(3, 1) if wide else drawn.subplots(1, 3)
    for axes, (key, name) in zip(panels, PANELS.items(), strict=True):
        _draw_panel(axes, plan, mine, variants, key)
        axes.set_title(name, fontsize=9.5)
    bases = list(dict.fromkeys(row.baseline for row in mine))
    drawn.suptitle(f"Figure {plan.number}: {plan.title}", fontsize=11, x=0.01, ha="left")
    drawn.supylabel(f"times that of {' or '.join(bases)}", fontsize=9.5)
    handles, labels = panels[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=4, handlelength=2.4)
    return drawn


def _draw_panel(axes: Axes, plan: FigurePlan, mine: Sequence[Row], variants: Sequence[str], key: str) -> None:
    width = 0.84 / len(plan.policies)
    every = [1.0]
    for at, policy in enumerate(plan.policies):
        found = {row.variant: row.relative[key] for row in mine if row.policy == policy and key in row.relative}
        every += found.values()
        positions = [variants.index(variant) - 0.42 + (at + 0.5) * width for variant in found]
        bars = axes.bar(
            positions, list(found.values()), width * 0.9, label=style.shorten_label(policy), color=style.colour(at),
            edgecolor=style.PAPER, hatch=style.hatch(at), linewidth=0,
        )  # fmt: skip
        box = {"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.4}
        axes.bar_label(bars, fmt="%.2f", rotation=90, fontsize=6, padding=2.5, bbox=box)
    axes.axhline(1.0, color=style.INK, linewidth=0.8, zorder=0.9)
    style.set_ratio_axis(axes, min(every), max(every))
    names = [style.shorten_label(variant.removeprefix("job_type_")) for variant in variants]
    axes.set_xticks(range(len(variants)), names, fontsize=8)
    axes.set_xlabel("number of job types" if plan.mixes else "trace", fontsize=8)
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
