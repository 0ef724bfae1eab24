"""Filters and orders of the queue."""

from __future__ import annotations

import pytest

from support.screen_source import NOW
from weft.tui.model.board import Board
from weft.tui.model.job_list import SORTS, parse_filter, select
from weft.views.answers.changes import ChangesView
from weft.views.answers.jobs import JobView, ProgressView

JOBS = [
    JobView(id="1", name="train-a", user="ada", state="R", status="running", gpus=8, place="n1[0,1]", time_s=50.0,
            progress=ProgressView(1, 10, 90.0)),
    JobView(id="2", name="train-b", user="grace", state="PD", status="waiting", gpus=1, priority=5, time_s=10.0),
    JobView(id="3", name="eval", user="ada", state="PD", status="waiting", gpus=2, time_s=20.0),
    JobView(id="4", name="old", user="ada", state="F", status="failed", gpus=1, ended="2027-01-15T07:00:00.000Z"),
    JobView(id="5_2", name="Sweep [red]x", user="ada2", state="H", status="held", gpus=1, group="sweeps"),
    JobView(id="10", name="older", user="bob", state="CD", status="done", gpus=1, ended="2027-01-15T06:00:00.000Z"),
]  # fmt: skip


@pytest.fixture
def board() -> Board:
    made = Board()
    made.apply(ChangesView(now=NOW, jobs=JOBS, order=["3", "2"]), 0.0)
    return made


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", "1 3 2 5_2 4 10"),
        ("train", "1 2"),
        ("TRAIN", "1 2"),
        ("user:ada", "1 3 4"),
        ("user:ada*", "1 3 5_2 4"),
        ("state:running", "1"),
        ("state:r", "1"),
        ("state:pd,h", "3 2 5_2"),
        ("name:train-*", "1 2"),
        ("user:ada !state:failed", "1 3"),
        ("!train", "3 5_2 4 10"),
        ("group:sweep", "5_2"),
        ("id:5", "5_2"),
        ("node:n1", "1"),
        ("[red]", "5_2"),
        ("name:*[red]*", "5_2"),
        ("'sweep [red", "5_2"),
        ("nothing:here", ""),
        ("!", ""),
    ],
)
def test_filters(board: Board, text: str, ids: str) -> None:
    assert [job.id for job in select(board, parse_filter(text), "queue")] == ids.split()


@pytest.mark.parametrize(
    ("sort", "ids"),
    [
        ("queue", "1 3 2 5_2 4 10"), ("id", "1 2 3 4 5_2 10"), ("name", "3 4 10 5_2 1 2"), ("gpus", "1 3 2 4 5_2 10"),
        ("priority", "2 1 3 4 5_2 10"), ("progress", "1 2 3 4 5_2 10"), ("eta", "1 2 3 4 5_2 10"),
    ],
)  # fmt: skip
def test_orders(board: Board, sort: str, ids: str) -> None:
    assert [job.id for job in select(board, [], sort)] == ids.split()
    assert [job.id for job in select(board, [], sort, reverse=True)] == list(reversed(ids.split()))


@pytest.mark.parametrize("sort", SORTS)
def test_every_order_has_every_job(board: Board, sort: str) -> None:
    assert len(select(board, [], sort)) == len(JOBS)


def test_ended_jobs_can_be_left_out(board: Board) -> None:
    assert [job.id for job in select(board, [], "queue", ended=False)] == ["1", "3", "2", "5_2"]
