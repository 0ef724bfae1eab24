"""Batches of a server: how they fill, how long they wait, and what a failure does."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from weft_workloads.serving.batcher import AdaptiveWait, Batcher

PATIENCE_S = 60.0


def test_a_server_that_is_quicker_than_its_requests_does_not_wait() -> None:
    wait = AdaptiveWait()
    for second in range(3):
        wait.answered(float(second), [0.02] * 10)
    assert wait.seconds == 0.0


def test_a_busy_server_waits_a_sixth_of_the_mean_latency() -> None:
    wait = AdaptiveWait()
    for at in range(101):
        wait.answered(at / 100, [0.06])
    assert wait.seconds == pytest.approx(0.01)
    wait.answered(10.0, [0.06])
    assert wait.seconds == 0.0, "the load is gone"


def test_requests_that_come_while_a_batch_runs_are_the_next_batches_in_order() -> None:
    first, go = threading.Event(), threading.Event()
    seen: list[list[int]] = []

    def work(samples: list[int]) -> list[int]:
        seen.append(samples)
        first.set()
        assert go.wait(PATIENCE_S)
        return [2 * sample for sample in samples]

    batcher = Batcher(work, 4)
    answers: list[Future[Any]] = [batcher.submit(0)]
    assert first.wait(PATIENCE_S)
    answers += [batcher.submit(at) for at in range(1, 7)]
    go.set()
    assert [answer.result(PATIENCE_S) for answer in answers] == [0, 2, 4, 6, 8, 10, 12]
    assert seen == [[0], [1, 2, 3, 4], [5, 6]]
    batcher.close()
    assert (batcher.batches, batcher.requests) == (3, 7)


def test_a_failing_batch_fails_its_requests_and_the_next_goes_on() -> None:
    def work(samples: list[int]) -> list[int]:
        if 0 in samples:
            raise ZeroDivisionError
        return samples

    batcher = Batcher(work, 1)
    bad, good = batcher.submit(0), batcher.submit(1)
    with pytest.raises(ZeroDivisionError):
        bad.result(PATIENCE_S)
    assert good.result(PATIENCE_S) == 1
    batcher.close()


def test_closing_answers_what_is_queued() -> None:
    batcher = Batcher(lambda samples: samples, 2)
    answers = [batcher.submit(at) for at in range(20)]
    batcher.close()
    assert [answer.result(0) for answer in answers] == list(range(20))
