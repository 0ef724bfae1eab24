"""The lines that the monitor draws."""

from __future__ import annotations

from typing import Any

import pytest

from weft.cli.views.monitor import Screen, bar, combine, draw, is_on
from weft.text import display_width
from weft.views.answers.base import replace_fields
from weft.views.answers.jobs import JobView, ProgressView, QueueView
from weft.views.answers.nodes import BlockView, GpusView, GpuView, MonitorView, NodesView, NodeView

QUEUE = QueueView(
    now="2030-01-01T00:00:00Z", policy="balanced", running=1, waiting=1,
    jobs=[
        JobView(id="1", name="train", user="a", state="R", time_s=61, gpus=2, place="n1[0],n2[0,1]",
                progress=ProgressView(3, 4, 20.0)),
        JobView(id="2", name="next", user="a", state="PD", time_s=5, gpus=1, reason="Resources"),
    ],
)  # fmt: skip


def gpus(nodes: int, each: int) -> GpusView:
    return GpusView(
        gpus=[
            GpuView(node=f"n{node}", gpu=gpu, model="A100", memory_mb=1000, reserved_mb=500,
                    blocked=[BlockView("Drained")] if gpu else [])
            for node in range(1, nodes + 1)
            for gpu in range(each)
        ]
    )  # fmt: skip


def nodes(count: int, **more: Any) -> NodesView:
    usual = NodeView(alive=True, gpus=2, busy=1, jobs=1, ram_mb=8, ram_used_mb=4)
    return NodesView(nodes=[replace_fields(usual, node=f"n{at}", **more) for at in range(1, count + 1)])


def drawn(seen: MonitorView) -> str:
    return "\n".join(draw(seen, colour=False, narrow=False))


def test_workers_gpus_and_jobs_are_drawn() -> None:
    text = drawn(combine(QUEUE, gpus(2, 2), nodes(2, state="silent", beat_s=12.3, load=1.25), None))
    assert "2 workers (2 silent), 0 of 4 GPUs busy, 1 job running, 1 waiting" in text
    assert text.count("SILENT  12 s ago   1.2   1/2") == 2
    assert "500/1000  ######......" in text
    assert "(Drained)" in text
    assert "75%" in text
    assert "20s" in text
    assert "n1[0],n2[0,1]" in text
    assert "(Resources)" in text


def test_who_is_away_is_counted_and_why_nothing_comes_to_a_worker_is_said() -> None:
    first, second, third = nodes(3, state="connected", beat_s=1.0, load=0.0).nodes
    seen = [
        replace_fields(first, node="n10", closed=["Drained"]),
        replace_fields(second, state="silent", beat_s=130.0, closed=["ReqNodeNotAvail"], lost_in_s=485.0),
        replace_fields(third, alive=False, state="lost"),
    ]
    text = drawn(combine(QUEUE, gpus(1, 1), NodesView(nodes=seen), None))
    assert "3 workers (1 silent, 1 lost, 1 closed), " in text
    lines = [line.split()[:2] for line in text.splitlines()[3:6]]
    assert lines == [["n2", "SILENT"], ["n3", "LOST"], ["n10", "UP"]]
    assert "SILENT (lost in 8:05)" in text
    assert "2:10 ago" in text
    assert "UP (Drained)" in text


def test_one_worker_has_its_own_gpus_and_jobs() -> None:
    seen = combine(QUEUE, gpus(3, 2), nodes(3), "n2")
    assert {gpu.node for gpu in seen.gpus} == {"n2"}
    assert [node.node for node in seen.nodes] == ["n2"]
    assert [job.id for job in seen.jobs] == ["1"]
    assert combine(QUEUE, gpus(3, 2), nodes(3), "n3").jobs == []


def test_many_gpus_take_a_line_per_worker() -> None:
    text = drawn(combine(QUEUE, gpus(4, 8), nodes(4), None))
    assert text.count(".xxxxxxx") == 4


def test_nothing_there_is_said() -> None:
    text = drawn(combine(replace_fields(QUEUE, jobs=[]), GpusView(), NodesView(), None))
    assert all(f"no {what}" in text for what in ("workers", "GPUs", "jobs"))


def test_where_a_job_is() -> None:
    assert is_on("n1[0,1],n22[3]", "n22")
    assert is_on("n1", "n1")
    assert not is_on("n1[0,1],n22[3]", "n2")
    assert not is_on("", "n1")


def test_a_bar_is_never_longer_than_itself() -> None:
    assert bar(-1) == "." * 12
    assert bar(2) == "#" * 12
    assert bar(0.5) == "######......"


def many_workers(count: int) -> MonitorView:
    """All workers are well but n40, which is lost, n77, which is silent, and n90, which is drained."""
    well = nodes(count, state="connected", beat_s=1.0, load=0.0).nodes
    sick: dict[str, dict[str, Any]] = {
        "n40": {"state": "lost", "alive": False}, "n77": {"state": "silent", "beat_s": 130.0},
        "n90": {"closed": ["Drained"]},
    }  # fmt: skip
    seen = NodesView(nodes=[replace_fields(node, **sick.get(node.node, {})) for node in well])
    jobs = [JobView(id=str(at), name=f"job-{at}", user="a", state="R", time_s=61, gpus=2) for at in range(200)]
    queue = replace_fields(QUEUE, jobs=jobs, running=200, waiting=1234, more=1234)
    return combine(queue, gpus(count, 8), seen, None)


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (100, 30), (160, 60)])
def test_a_screen_shows_totals_sick_workers_and_jobs(columns: int, lines: int) -> None:
    found = draw(many_workers(100), colour=False, narrow=True, screen=Screen(columns, lines - 1))
    assert len(found) <= lines - 1
    assert max(map(display_width, found)) <= columns
    text = "\n".join(found)
    assert "100 workers (1 silent, 1 lost, 1 closed), 0 of 800 GPUs busy" in text
    assert "200 jobs running, 1,234 waiting" in text
    workers = next(at for at, line in enumerate(found) if line.startswith("WORKER  ST"))
    assert [line.split()[0] for line in found[workers + 1 : workers + 4]] == ["n40", "n77", "n90"]
    assert any(line.startswith("... and ") and line.endswith(" more workers") for line in found)
    shown = [line for line in found if " job-" in line]
    assert len(shown) >= 3
    assert f"... and {200 - len(shown) + 1234:,} more jobs" in found


def test_a_screen_with_room_shows_everything() -> None:
    found = draw(combine(QUEUE, gpus(2, 2), nodes(2), None), colour=False, narrow=True, screen=Screen(100, 40))
    assert not [line for line in found if line.startswith("... and")]


def test_one_worker_counts_its_own_jobs() -> None:
    seen = combine(replace_fields(QUEUE, running=65, waiting=9, more=5), gpus(3, 2), nodes(3), "n2")
    assert "1 job running, 0 waiting" in drawn(seen)
    assert "more" not in drawn(seen)
