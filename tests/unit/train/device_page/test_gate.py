"""Gates and marks on a real page in a file, with a clock of the test's own."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.train.device_page import layout
from weft.train.device_page.batches import Batches
from weft.train.device_page.gate import Gate, gate_for
from weft.train.device_page.layout import INFERENCE, TRAINING, BadPage, Owner
from weft.train.device_page.page import Page, make, page_paths, start_of, this_owner
from weft.train.device_page.place import Place

SHARE = {"WEFT_GPU_REQUEST": "0.5", "WEFT_GPU_LIMIT": "0.9", "WEFT_JOB_ID": "train-1", "WEFT_RUN": "3"}


class Time:
    """A clock that moves when training sleeps. Events happen at their time."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, 0.0
        self.events: list[tuple[float, object]] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds
        while self.events and self.events[0][0] <= self.now:
            self.events.pop(0)[1]()  # type: ignore[operator]


@pytest.fixture
def path(tmp_path: Path) -> str:
    found = str(tmp_path / "gpu-0")
    make(found, "prio")
    return found


@pytest.fixture
def places(path: str) -> Iterator[tuple[Place, Place]]:
    made = Place(path, this_owner(TRAINING, SHARE)), Place(path, this_owner(INFERENCE, SHARE))
    yield made
    for place in made:
        place.leave()


def test_a_page_belongs_to_its_user_alone_and_a_second_make_keeps_its_slots(path: str) -> None:
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    place = Place(path, this_owner(TRAINING, SHARE))
    make(path, "dilu")
    assert layout.rule(place.memory) == layout.DILU
    assert [slot.owner.job for slot in layout.slots(place.memory)] == ["train-1"]
    place.leave()
    page = Page(path)
    assert not list(layout.slots(page.memory))
    page.close()


def test_a_damaged_page_is_refused_and_made_again(path: str) -> None:
    Path(path).write_bytes(b"x" * layout.SIZE)
    with pytest.raises(BadPage):
        Page(path)
    make(path, "prio")
    Page(path).close()


def test_slots_of_dead_processes_are_freed_by_pid_and_start(path: str) -> None:
    child = subprocess.Popen(["sleep", "600"])
    here = this_owner(INFERENCE, SHARE)
    page = Page(path)
    page.claim(Owner(child.pid, start_of(child.pid), here.namespace, INFERENCE, 0.3, 0.6, "svc.0", 1))
    page.claim(Owner(1 << 22, 5, here.namespace + 1, INFERENCE, 0.3, 0.6, "in a container", 1))
    page.claim(Owner(os.getpid(), here.start - 1, here.namespace, INFERENCE, 0.3, 0.6, "reused pid", 1))
    assert page.heal() == 1, "the pid lives, but its process is another one"
    child.kill()
    child.wait()
    assert page.heal() == 1
    assert [slot.owner.job for slot in layout.slots(page.memory)] == ["in a container"]
    page.release_run("in a container", 1)
    assert not list(layout.slots(page.memory))
    page.close()


def test_a_gate_is_open_while_no_batch_runs(places: tuple[Place, Place]) -> None:
    time = Time()
    gate = Gate(places[0], clock=time, sleep=time.sleep)
    for _ in range(100):
        gate()
    assert time.slept == 0


def test_training_waits_for_the_end_of_a_short_batch_and_no_longer(places: tuple[Place, Place]) -> None:
    time = Time()
    gate, batches = Gate(places[0], clock=time, sleep=time.sleep), Batches([places[1]], clock=time)
    for _ in range(10):  # layers of 4 ms
        gate()
        time.now += 0.004
    batches.begin()
    time.events = [(time.now + 0.002, batches.end)]
    gate()
    assert 0.002 <= time.slept <= 0.0026


def test_in_a_long_batch_training_goes_on_at_its_rate(places: tuple[Place, Place]) -> None:
    time = Time()
    gate, batches = Gate(places[0], clock=time, sleep=time.sleep), Batches([places[1]], clock=time)
    for _ in range(50):
        gate()
        time.now += 0.004
    batches.begin()
    began, worked = time.now, 0.0
    for _ in range(50):
        gate()
        time.now += 0.004
        worked += 0.004
    assert worked / (time.now - began) == pytest.approx(0.5, abs=0.05), "the factor is 1 and the request 0.5"
    training = next(slot for slot in layout.slots(places[0].memory) if slot.owner.kind == TRAINING)
    assert training.rate == pytest.approx(0.5)
    assert training.waited_s == pytest.approx(time.slept)


def test_a_replica_that_dies_in_a_batch_stops_training_for_a_tenth_of_a_second(path: str) -> None:
    time, train = Time(), Place(path, this_owner(TRAINING, SHARE))
    child = subprocess.Popen(["sleep", "600"])
    here = train.owner
    index = train.page.claim(Owner(child.pid, start_of(child.pid), here.namespace, INFERENCE, 0.3, 0.6, "svc.0", 1))
    layout.set_factor(train.memory, 0.001)
    layout.begin(train.memory, index, time.now)
    gate = Gate(train, clock=time, sleep=time.sleep)
    time.now += 1.0
    child.kill()
    child.wait()
    gate()
    assert time.slept < 0.2
    assert not layout.is_busy(train.memory)
    train.leave()


def test_by_dilus_rule_training_is_paced_after_a_batch_too(path: str) -> None:
    make(path, "dilu")
    train, serve = Place(path, this_owner(TRAINING, SHARE)), Place(path, this_owner(INFERENCE, SHARE))
    time = Time()
    gate, batches = Gate(train, clock=time, sleep=time.sleep), Batches([serve], clock=time)
    batches.begin()
    time.now += 0.01
    batches.end()

    def rate_over(layers: int) -> float:
        began, slept = time.now, time.slept
        for _ in range(layers):
            gate()
            time.now += 0.004
        return 1 - (time.slept - slept) / (time.now - began)

    assert rate_over(40) == pytest.approx(0.5, abs=0.06), "the request, for 0.6 s after the batch"
    time.now += 1.0
    assert rate_over(200) == pytest.approx(0.9, abs=0.07), "then the limit"
    train.leave()
    serve.leave()


def test_batches_of_several_threads_are_one_and_get_less_next_to_training(path: str) -> None:
    time, place = Time(), Place(path, this_owner(INFERENCE, SHARE))
    batches = Batches([place], clock=time)
    assert batches.begin() == pytest.approx(0.9)
    batches.begin()
    batches.end()
    assert layout.is_busy(place.memory)
    batches.end()
    assert not layout.is_busy(place.memory)
    train = Place(path, this_owner(TRAINING, SHARE))
    assert batches.begin() == pytest.approx(0.5)
    batches.end()
    train.leave()
    place.leave()


def test_a_process_for_each_gpu_uses_the_page_of_its_gpu() -> None:
    pages = {"WEFT_DEVICE_PAGE": "/a:/b"}
    assert page_paths(pages) == ["/a", "/b"]
    assert page_paths({**pages, "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}) == ["/b"]
    assert page_paths({}) == []


def test_a_gate_of_two_gpus_waits_for_both(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("a", "b")]
    for each in paths:
        make(each, "prio")
    train = [Place(each, this_owner(TRAINING, SHARE)) for each in paths]
    serve = Place(paths[1], this_owner(INFERENCE, SHARE))
    layout.begin(serve.memory, serve.index, 0.0)
    layout.set_factor(serve.memory, 0.02)
    gate_for(train)()
    waits = [slot.batches for each in train for slot in layout.slots(each.memory) if slot.owner.kind == TRAINING]
    assert waits == [0, 1]
    for place in (*train, serve):
        place.leave()
