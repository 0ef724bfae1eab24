"""The Gantt chart: bars where runs are few, means per GPU or node where they are many."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from support.builders import node
from weft.lab.report.gantt import MAX_DRAWN_GPUS, MAX_DRAWN_RUNS, TIME_BINS, Bar, build_gantt
from weft.lab.report.gantt_picture import draw_gantt
from weft.model import WHOLE, Exited, Fact, NodeJoined, NodeLost, Share, Start

PNG = b"\x89PNG\r\n"


def join(*sizes: int) -> list[Fact]:
    return [NodeJoined(0.0, node(f"n{at}", size)) for at, size in enumerate(sizes)]


def test_a_run_is_a_bar_on_neighbouring_gpus() -> None:
    facts = [
        *join(2, 4),
        Start(1.0, "a", 1, (("n0", (1,)), ("n1", (0, 1, 3)))),
        Exited(5.0, "a", 1, "done"),
    ]
    found = build_gantt(facts)
    assert (found.until_s, found.gpus, found.nodes) == (5.0, 6, [("n0", 2), ("n1", 4)])
    assert found.bars == [Bar("a", 1, 1, 1, 5, 0, 1), Bar("a", 2, 2, 1, 5, 0, 1), Bar("a", 5, 1, 1, 5, 0, 1)]


def test_those_who_share_lie_in_lanes() -> None:
    weave = ("a", "b")
    facts: list[Fact] = [
        *join(1),
        *(Start(0.0, id, 1, (("n0", (0,)),), WHOLE, weave) for id in weave),
        *(Exited(2.0, id, 1, "done") for id in weave),
        Start(2.0, "guest", 1, (("n0", (0,)),), Share(0.0, 1.0)),
        Exited(3.0, "guest", 1, "done"),
    ]
    assert [(bar.job, bar.lane, bar.lanes) for bar in build_gantt(facts).bars] == [
        ("a", 0, 2),
        ("b", 1, 2),
        ("guest", 1, 2),
    ]


def test_stale_news_a_lost_node_and_a_run_without_end() -> None:
    facts: list[Fact] = [
        *join(1, 1),
        Start(0.0, "a", 1, (("n0", (0,)), ("n1", (0,)))),
        Exited(1.0, "a", 7, "done"),
        NodeLost(2.0, "n0"),
        Exited(3.0, "a", 1, "stopped"),
        Start(3.0, "a", 2, (("n1", (0,)),)),
        NodeJoined(9.0, node("n0", 1)),
    ]
    assert [(bar.row, bar.start_s, bar.end_s) for bar in build_gantt(facts).bars] == [(0, 0, 2), (1, 0, 3), (1, 3, 9)]


def many(gpus: int, runs: int) -> Iterator[Fact]:
    """One run after the other on all GPUs of the first node, a second each; the second node idles."""
    yield from join(gpus, gpus)
    for run in range(1, runs + 1):
        yield Start(run - 1.0, "a", run, (("n0", tuple(range(gpus))),))
        yield Exited(float(run), "a", run, "stopped")


@pytest.mark.parametrize(
    ("gpus", "runs", "rows"), [(2, MAX_DRAWN_RUNS + 1, 4), (MAX_DRAWN_GPUS, 10, 2)], ids=["runs", "GPUs"]
)
def test_many_become_means(gpus: int, runs: int, rows: int) -> None:
    found = build_gantt(many(gpus, runs))
    assert not found.bars
    assert found.density is not None
    assert found.density.shape == (rows, TIME_BINS)
    busy = rows // 2
    assert found.density[:busy] == pytest.approx(1.0, abs=1e-6)
    assert found.density[busy:] == pytest.approx(0.0, abs=1e-6)
    assert found.by_node == (gpus == MAX_DRAWN_GPUS)


def test_the_means_add_up_to_what_was_held() -> None:
    cuts = [0.0, 0.7, 31.2, 31.3, 500.0, 777.7, 1000.0]
    facts = [*join(MAX_DRAWN_GPUS + 1)]
    for run, (start, end) in enumerate(pairwise(cuts), start=1):
        facts += [Start(start, "a", run, (("n0", tuple(range(run))),)), Exited(end, "a", run, "stopped")]
    found = build_gantt(facts)
    assert found.density is not None
    held = sum(run * (end - start) for run, (start, end) in enumerate(pairwise(cuts), start=1))
    total = float(found.density.sum()) * found.until_s / TIME_BINS * (MAX_DRAWN_GPUS + 1)
    assert total == pytest.approx(held, rel=1e-5)


@pytest.mark.parametrize("facts", [[], join(3), list(many(2, 3)), list(many(2, MAX_DRAWN_RUNS + 1))])
def test_each_can_be_drawn(facts: list[Fact]) -> None:
    assert draw_gantt(build_gantt(facts)).startswith(PNG)
