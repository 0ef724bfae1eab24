"""Reports of runs on their way to the scheduler: the latest counts, and a new connection repeats it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from weft.access.wire.messages import AgentMessage
from weft.node.agent.progress import ProgressQueue

RUN = ("1", 1)
NO_JOBS = Path("/nonexistent")


def report(step: int) -> dict[str, object]:
    return {"job": "1", "run": 1, "step": step}


def steps(messages: list[AgentMessage]) -> list[int]:
    return [json.loads(message.progress.json)["step"] for message in messages]


def test_the_latest_is_sent_once_a_second() -> None:
    queue = ProgressQueue(NO_JOBS, lambda key: key == RUN)
    for step in (1, 2):
        queue.add(report(step))
    assert steps(queue.due_messages(100.0)) == [2]
    queue.add(report(3))
    assert queue.due_messages(100.5) == []
    assert steps(queue.due_messages(101.0)) == [3]
    assert queue.pop(RUN, 102.0) is None


def test_a_new_connection_repeats_the_latest_until_the_end_is_confirmed() -> None:
    queue = ProgressQueue(NO_JOBS, lambda key: key == RUN)
    queue.add(report(7))
    assert steps(queue.due_messages(100.0)) == [7]
    assert list(queue.repeat()) == [RUN]
    assert steps(queue.due_messages(100.1)) == [7]
    queue.forget(RUN)
    assert list(queue.repeat()) == []
    assert queue.due_messages(200.0) == []


def test_reports_of_unknown_runs_are_dropped() -> None:
    queue = ProgressQueue(NO_JOBS, lambda _: False)
    queue.add(report(1))
    assert queue.due_messages(100.0) == []


@pytest.mark.parametrize(
    ("left", "taken"),
    [(report(9), [9]), ({**report(9), "run": 2}, []), ({**report(9), "job": "2"}, []), ([], [])],
)
def test_only_the_report_that_the_run_itself_has_left_is_taken(tmp_path: Path, left: object, taken: list[int]) -> None:
    folder = tmp_path / "1" / "checkpoints"
    folder.mkdir(parents=True)
    (folder / "unsent.json").write_text(json.dumps(left))
    queue = ProgressQueue(tmp_path, lambda _: True)
    queue.take_left(RUN)
    assert steps(queue.due_messages(100.0)) == taken


def test_a_link_in_place_of_a_left_report_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "1" / "checkpoints"
    folder.mkdir(parents=True)
    (tmp_path / "secret").write_text(json.dumps(report(9)))
    (folder / "unsent.json").symlink_to(tmp_path / "secret")
    queue = ProgressQueue(tmp_path, lambda _: True)
    queue.take_left(RUN)
    assert queue.due_messages(100.0) == []


def test_a_report_that_came_after_another_was_left_stays(tmp_path: Path) -> None:
    folder = tmp_path / "1" / "checkpoints"
    folder.mkdir(parents=True)
    (folder / "unsent.json").write_text(json.dumps(report(9)))
    queue = ProgressQueue(tmp_path, lambda _: True)
    queue.add(report(12))
    os.utime(folder / "unsent.json", (1.0, 1.0))
    queue.take_left(RUN)
    assert steps(queue.due_messages(100.0)) == [12]
