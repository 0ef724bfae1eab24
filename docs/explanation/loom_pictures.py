"""Draws the pictures of loom.md.

`python docs/explanation/loom_pictures.py` draws prices, densities and the Gantt chart. With a trace as argument it
draws the curve of the slow-down guard, which takes some minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from weft.lab.compare.trial import measure
from weft.lab.report import style
from weft.lab.report.gantt import build_gantt
from weft.lab.report.gantt_picture import draw_gantt
from weft.scheduling.weaving.groups import GroupRates, build_table
from weft.scheduling.weaving.pace import Pace
from weft.scheduling.weaving.prices import price_work
from weft.sim.clusters.reader import read_cluster
from weft.sim.simulation import Setting, simulate
from weft.sim.traces.generator import GANG_MIX, generate
from weft.sim.traces.profiles import profile
from weft.sim.traces.trace import read_trace

FOLDER = Path(__file__).parent
MODELS = ("bert", "gpt2", "vgg19", "vgg16", "resnet18", "shufflenet_v2_x1_0", "a2c", "dqn")
SIZES = (1, 2, 4, 8, 16, 32)
LIMITS = (0, 80, 40, 20, 10, 6, 4)
"""The values of max_rho; 0: no limit."""

DARK = 0.75
"""From this price on, cells are so dark that numbers on them are white."""


def draw_prices() -> None:
    """A matrix of prices: equal work of all models, in lock-step."""
    found = []
    for gpus in SIZES:
        table = build_table([profile(model, gpus) for model in MODELS], GroupRates(Pace()))
        found.append(price_work(table.rates_by_kind, np.ones(len(MODELS))))
    with style.drawing_style():
        drawn = style.figure(7.2, 2.9)
        axes = drawn.add_subplot()
        axes.imshow(np.array(found), cmap="YlOrBr", vmin=0, vmax=1.1, aspect="auto")
        for row, prices in enumerate(found):
            for column, price in enumerate(prices):
                ink = "white" if price > DARK else "black"
                axes.annotate(f"{price:.2f}", (column, row), ha="center", va="center", fontsize=7, color=ink)
        axes.set_xticks(range(len(MODELS)), [model.partition("_")[0] for model in MODELS])
        axes.set_yticks(range(len(SIZES)), [str(gpus) for gpus in SIZES])
        axes.set_ylabel("GPUs")
        axes.grid(visible=False)
        axes.set_title("price of a solo second, in GPU-seconds per GPU; equal work of all models", fontsize=8.5)
        (FOLDER / "loom-prices.png").write_bytes(style.to_png(drawn, dpi=100))


def draw_densities() -> None:
    """Each weave of 8-GPU jobs by its speed-up and its worth; jobs of all models wait, none is ahead of the others."""
    table = build_table([profile(model, 8) for model in MODELS], GroupRates(Pace()))
    prices = price_work(table.rates_by_kind, np.ones(len(MODELS)))
    speed, worth = table.rates.sum(axis=1), table.rates_by_kind @ prices
    with style.drawing_style():
        drawn = style.figure(7.2, 3.6)
        axes = drawn.add_subplot()
        for members in range(1, 5):
            own = table.sizes == members
            label = f"{members} jobs" if members > 1 else "alone"
            axes.scatter(speed[own], worth[own], s=14, color=style.colour(members - 1), label=label, alpha=0.7)
        axes.axhline(1.0, linewidth=0.8, color=style.INK, linestyle=":")
        axes.set_xlabel("speed-up: solo seconds done per second")
        axes.set_ylabel("worth: sum of price x rate")
        axes.legend(fontsize=7, loc="lower right")
        axes.set_title("weaves of 8-GPU jobs: equal speed-up, unequal worth", fontsize=8.5)
        (FOLDER / "loom-densities.png").write_bytes(style.to_png(drawn, dpi=100))


def draw_choice() -> None:
    """The runs of a short trace on two nodes."""
    jobs = generate(36, seed=11, gpus_in_cluster=16, load=2.0, mix=GANG_MIX, median_s=1800, mean_s=3600).jobs
    outcome = simulate(Setting(read_cluster("2x8"), jobs, "loom-s", order="slots"))
    (FOLDER / "loom-gantt.png").write_bytes(draw_gantt(build_gantt(outcome.journal.read())))


Point = tuple[int, float, float, float]
"""max_rho, average and median JCT, and the largest rho."""


def measure_guard(path: str) -> list[Point]:
    """Simulate with each limit; print the points as a table."""
    points = []
    for limit in LIMITS:
        setting = Setting(read_cluster("8x8"), read_trace(path).jobs, f"loom-s:max_rho={limit}", order="slots")
        values = measure(setting).values
        points.append((limit, values["avg_jct_s"], values["p50_jct_s"], values["fairness_max_rho"]))
        print("| {} | {:,.0f} | {:,.0f} | {:.1f} |".format(*points[-1]), flush=True)
    return points


def draw_guard(points: list[Point]) -> None:
    """Average JCT and largest slow-down against max_rho."""
    names = ["none" if limit == 0 else str(limit) for limit, *_ in points]
    with style.drawing_style():
        drawn = style.figure(7.2, 2.8)
        left, right = drawn.subplots(1, 2)
        left.plot(names, [point[1] / 1000 for point in points], marker="o", markersize=4, color=style.colour(0))
        right.plot(names, [point[3] for point in points], marker="o", markersize=4, color=style.colour(0))
        left.set_ylim(0, max(point[1] for point in points) * 1.15e-3)
        right.set_ylim(0, None)
        for axes, label in ((left, "average JCT (1,000 s)"), (right, "largest rho")):
            axes.set_xlabel("max_rho")
            axes.set_ylabel(label)
        (FOLDER / "loom-guard.png").write_bytes(style.to_png(drawn, dpi=100))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        draw_guard(measure_guard(sys.argv[1]))
    else:
        draw_prices()
        draw_densities()
        draw_choice()
