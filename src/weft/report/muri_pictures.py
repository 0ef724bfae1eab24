"""Muri's figures 9 to 13: policies on the variants of its traces, each relative to Muri."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.report import style
from weft.report.pictures import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KNOWN: Final = ("srtf", "srsf", "muri-s")
UNKNOWN: Final = ("tiresias", "themis", "antman", "muri-l")
PANELS: Final = {"avg_jct_s": "average JCT", "makespan_s": "makespan", "p99_jct_s": "99th percentile JCT"}

Ran = Mapping[tuple[str, str], Mapping[str, float]]
"""The figures of each variant and policy."""


class Plan(NamedTuple):
    number: int
    title: str
    policies: tuple[str, ...]
    mixes: bool = False
    """On the mixes of job types, not on the traces."""


PLANS: Final = (
    Plan(9, "durations known", KNOWN),
    Plan(10, "durations unknown", UNKNOWN),
    Plan(
        11, "without matching, and with the worst ordering", ("muri-l:blossom=off", "muri-l:ordering=worst", "muri-l")
    ),
    Plan(12, "jobs per weave", ("muri-l:packing=2", "muri-l:packing=3", "muri-l")),
    Plan(13, "number of job types", ("srsf", "muri-s", "tiresias", "muri-l"), mixes=True),
)


class Row(NamedTuple):
    figure: int
    variant: str
    policy: str
    baseline: str
    values: Mapping[str, float]
    relative: Mapping[str, float]


def baseline_of(policy: str) -> str:
    """Muri with as much knowledge as the policy has."""
    return "muri-s" if policy in KNOWN else "muri-l"


def rows(ran: Ran, traces: Sequence[str], mixes: Sequence[str]) -> Iterator[Row]:
    """Figure by figure; what was not run, or has nothing to be relative to, is left out."""
    for plan in PLANS:
        for variant in mixes if plan.mixes else traces:
            for policy in plan.policies:
                mine, base = ran.get((variant, policy)), ran.get((variant, baseline_of(policy)))
                if mine is not None and base is not None:
                    relative = {key: mine[key] / base[key] for key in PANELS if base[key]}
                    yield Row(plan.number, variant, policy, baseline_of(policy), mine, relative)


def muri_pictures(table: Sequence[Row]) -> Iterator[Picture]:
    with style.styled():
        for plan in PLANS:
            mine = [row for row in table if row.figure == plan.number]
            if mine:
                drawn = _draw(plan, mine)
                title = f"Figure {plan.number}: {plan.title}"
                yield Picture(f"figure-{plan.number}", title, style.as_png(drawn), style.as_svg(drawn))


def _draw(plan: Plan, mine: Sequence[Row]) -> Figure:
    variants = list(dict.fromkeys(row.variant for row in mine))
    wide = len(variants) > 4
    drawn = style.figure(8.6, 8.0 if wide else 3.6)
    panels = drawn.subplots(3, 1) if wide else drawn.subplots(1, 3)
    for axes, (key, name) in zip(panels, PANELS.items(), strict=True):
        _panel(axes, plan, mine, variants, key)
        axes.set_title(name, fontsize=9.5)
    bases = list(dict.fromkeys(row.baseline for row in mine))
    drawn.suptitle(f"Figure {plan.number}: {plan.title}", fontsize=11, x=0.01, ha="left")
    drawn.supylabel(f"times that of {' or '.join(bases)}", fontsize=9.5)
    handles, labels = panels[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=4, handlelength=2.4)
    return drawn


def _panel(axes: Axes, plan: Plan, mine: Sequence[Row], variants: Sequence[str], key: str) -> None:
    width = 0.84 / len(plan.policies)
    every = [1.0]
    for at, policy in enumerate(plan.policies):
        found = {row.variant: row.relative[key] for row in mine if row.policy == policy and key in row.relative}
        every += found.values()
        places = [variants.index(variant) - 0.42 + (at + 0.5) * width for variant in found]
        bars = axes.bar(
            places, list(found.values()), width * 0.9, label=style.label(policy), color=style.colour(at),
            edgecolor=style.PAPER, hatch=style.hatch(at), linewidth=0,
        )  # fmt: skip
        box = {"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.4}
        axes.bar_label(bars, fmt="%.2f", rotation=90, fontsize=6, padding=2.5, bbox=box)
    axes.axhline(1.0, color=style.INK, linewidth=0.8, zorder=0.9)
    style.ratios(axes, min(every), max(every))
    names = [style.label(variant.removeprefix("job_type_")) for variant in variants]
    axes.set_xticks(range(len(variants)), names, fontsize=8)
    axes.set_xlabel("number of job types" if plan.mixes else "trace", fontsize=8)
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
