"""Processor sharing of the emulated device, computed by hand."""

from __future__ import annotations

import pytest

from weft.train.emulated.sharing import INFINITE, Resource


def test_tasks_within_the_capacity_run_at_full_speed() -> None:
    data = Resource(2.0)
    data.add("a", 3.0, 10.0)
    data.add("b", 1.0, 10.0)
    assert (data.speed, data.next_end()) == (1.0, 11.0)
    assert data.finished(11.0) == ["b"]
    assert data.next_end() == 13.0


def test_more_tasks_share_evenly_and_speed_up_when_one_ends() -> None:
    gpu = Resource(1.0)
    gpu.add("a", 1.0, 0.0)
    gpu.add("b", 2.0, 0.0)
    assert gpu.next_end() == pytest.approx(2.0)
    assert gpu.finished(2.0) == ["a"]
    assert gpu.next_end() == pytest.approx(3.0), "a second of work is left, alone"


def test_sharing_loses_speed() -> None:
    gpu = Resource(1.0, loss=0.2)
    gpu.add("a", 1.0, 0.0)
    assert gpu.speed == 1.0
    gpu.add("b", 1.0, 0.0)
    assert gpu.speed == pytest.approx(0.4)
    assert gpu.next_end() == pytest.approx(2.5)


def test_a_task_that_ends_early_tells_what_it_was_served() -> None:
    gpu = Resource(1.0)
    gpu.add("a", 5.0, 0.0)
    gpu.add("b", 5.0, 1.0)
    assert gpu.remove("a", 3.0) == pytest.approx(2.0), "a second alone, two seconds shared"
    assert gpu.remove("a", 3.0) == 0.0
    assert gpu.next_end() == pytest.approx(7.0)
    gpu.remove("b", 3.0)
    assert (gpu.tasks, gpu.next_end()) == (0, INFINITE)
