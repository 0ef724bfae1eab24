"""A weave when a member is killed, hangs, is preempted, ends, or loses the directory: real processes."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from support.programs import weave_member
from weft.train.weave import directory, state
from weft.train.weave.directory import MemberCounters, read_counters
from weft.train.weave.layout import View
from weft.train.weave.member import PATIENCE_S, Member

PROGRAM = str(Path(weave_member.__file__))
HOLD_S = 0.01
LIMIT_S = 1.0
WAIT_S = 60.0
SLACK_S = 2.0
"""Delays of a busy machine, on top of the times of the protocol."""


class Turn(NamedTuple):
    begin: float
    end: float
    place: int
    stage: str
    passed_over: bool


class Weave:
    def __init__(self, folder: Path, order: str = "fair", limit_s: float = LIMIT_S, size: int = 3) -> None:
        self.folder, self.path = folder, folder / "weave"
        self.living: dict[int, subprocess.Popen[bytes]] = {}
        directory.make(str(self.path), order, size, limit_s)

    def start(self, place: int, hold_s: float = HOLD_S, stages: str = "gpu") -> subprocess.Popen[bytes]:
        words = [str(self.path), str(place), str(self.folder / f"log{place}"), str(hold_s), stages]
        self.living[place] = started = subprocess.Popen([sys.executable, PROGRAM, *words])
        return started

    def end(self, place: int, number: int) -> None:
        process = self.living.pop(place)
        process.send_signal(number)
        process.wait(WAIT_S)

    def counters(self, place: int) -> MemberCounters | None:
        return next((each for each in read_counters(self.path) if each.place == place), None)

    def grants(self, place: int) -> int:
        found = self.counters(place)
        return found.stages["gpu"].grants if found else 0

    def lines(self, place: int) -> list[list[str]]:
        log = self.folder / f"log{place}"
        return [line.split(" ") for line in log.read_text().splitlines()] if log.exists() else []

    def turns(self, place: int) -> list[Turn]:
        """The turns that a member has ended; those during which it was killed have no end."""
        found, begun = [], dict[str, float]()
        for stage, what, at, passed_over in self.lines(place):
            if what == "begin":
                begun[stage] = float(at)
            elif what == "end":
                found.append(Turn(begun.pop(stage), float(at), place, stage, passed_over == "1"))
        return found

    def wait_for_turns(self, *places: int, more: int = 5) -> None:
        before = {place: self.grants(place) for place in places}
        until(lambda: all(self.grants(place) >= count + more for place, count in before.items()))

    def wait_for_holder(self, place: int) -> None:
        until(lambda: (last := self.lines(place)[-1:]) != [] and last[0][1] == "begin")

    def longest_gap_s(self, place: int) -> float:
        return max(later.begin - earlier.end for earlier, later in pairwise(self.turns(place)))

    def overlaps(self, stage: str = "gpu") -> list[tuple[Turn, Turn]]:
        """Pairs of turns in one stage at the same time, apart from members that were passed over."""
        every = sorted(turn for place in range(8) for turn in self.turns(place) if turn.stage == stage)
        kept = [turn for turn in every if not turn.passed_over]
        return [(one, other) for one, other in pairwise(kept) if other.begin < one.end]


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


@pytest.fixture
def weave(tmp_path: Path) -> Iterator[Weave]:
    made = Weave(tmp_path)
    yield made
    for process in made.living.values():
        process.kill()
        process.send_signal(signal.SIGCONT)
        process.wait(WAIT_S)


def test_members_have_even_turns_that_never_overlap(weave: Weave) -> None:
    for place in range(3):
        weave.start(place)
    weave.wait_for_turns(0, 1, 2, more=30)
    for place in range(3):
        weave.end(place, signal.SIGTERM)
    served = [weave.counters(place).stages["gpu"].served_s for place in range(3)]  # type: ignore[union-attr]
    assert min(served) > 0.25 * max(served), "they began one after the other"
    assert weave.overlaps() == []
    assert not any(turn.passed_over for place in range(3) for turn in weave.turns(place))


def test_a_killed_holder_costs_the_others_no_more_than_their_patience(weave: Weave) -> None:
    for place in range(3):
        weave.start(place)
    weave.wait_for_turns(0, 1, 2)
    weave.wait_for_holder(0)
    weave.end(0, signal.SIGKILL)
    weave.wait_for_turns(1, 2)
    assert max(weave.longest_gap_s(1), weave.longest_gap_s(2)) < PATIENCE_S + SLACK_S
    until(lambda: not weave.counters(0).present)  # type: ignore[union-attr]
    assert weave.overlaps() == []


def test_a_killed_member_in_line_does_not_stop_the_others(weave: Weave) -> None:
    holder = Member(str(weave.path), 0)
    assert holder.acquire("gpu", lambda: False)
    for place in (1, 2):
        weave.start(place)
        until(lambda place=place: weave.lines(place) != [])  # type: ignore[misc]
    weave.end(1, signal.SIGKILL)
    holder.release("gpu")
    weave.wait_for_turns(2)
    assert weave.turns(1) == []
    holder.leave()


def test_a_hung_holder_is_passed_over_after_its_limit_and_goes_on_later(weave: Weave) -> None:
    weave.start(0, hold_s=0.05)
    for place in (1, 2):
        weave.start(place)
    weave.wait_for_turns(0, 1, 2)
    frozen = weave.living[0]
    while True:  # it may have ended its turn when the signal arrives
        weave.wait_for_holder(0)
        frozen.send_signal(signal.SIGSTOP)
        time.sleep(0.05)
        if weave.lines(0)[-1][1] == "begin":
            break
        frozen.send_signal(signal.SIGCONT)
    weave.wait_for_turns(1, 2)
    assert weave.counters(0).stages["gpu"].passed_over == 1  # type: ignore[union-attr]
    gap_s = max(weave.longest_gap_s(1), weave.longest_gap_s(2))
    assert 0.5 * LIMIT_S < gap_s < LIMIT_S + PATIENCE_S + SLACK_S
    frozen.send_signal(signal.SIGCONT)
    weave.wait_for_turns(0)
    assert [turn.passed_over for turn in weave.turns(0)].count(True) == 1
    assert weave.overlaps() == []


def test_a_member_that_must_stop_ends_its_wait_and_does_not_begin(weave: Weave) -> None:
    holder = Member(str(weave.path), 0)
    assert holder.acquire("gpu", lambda: False)
    waiting = weave.start(1)
    until(lambda: len(weave.lines(1)) == 1)
    until(lambda: waiting_in_line(weave, 1))
    waiting.send_signal(signal.SIGTERM)
    waiting.wait(WAIT_S)
    assert [line[1] for line in weave.lines(1)] == ["joined", "gave-up", "closed"]
    weave.start(2)
    until(lambda: waiting_in_line(weave, 2))
    holder.release("gpu")
    weave.wait_for_turns(2)
    holder.leave()


def test_a_member_that_insists_goes_first_when_it_must_stop(weave: Weave) -> None:
    holder, first, last = (Member(str(weave.path), place) for place in range(3))
    assert holder.acquire("gpu", lambda: False)
    assert not first.acquire("gpu", lambda: True), "it does not insist"
    stopping = iter([False, True])

    def stop() -> bool:
        """The holder ends its turn when this member has said that it must stop."""
        if not next(stopping, True):
            return False
        first._change(lambda raw: state.want(raw, 1, 1, time.monotonic()))
        return True

    def release_later() -> None:
        until(lambda: waiting_in_line(weave, 1) and waiting_in_line(weave, 2))
        holder.release("gpu")

    import threading

    thread = threading.Thread(target=release_later)
    thread.start()
    assert last.acquire("gpu", stop, insist=True)
    thread.join()
    assert weave.grants(1) == 0, "the other one waits until this one has ended"
    last.release("gpu")
    assert weave.grants(1) == 1
    for member in (holder, first, last):
        member.leave()


def test_the_others_go_on_when_a_member_finishes(weave: Weave) -> None:
    for place in range(3):
        weave.start(place)
    weave.wait_for_turns(0, 1, 2)
    weave.end(0, signal.SIGTERM)
    weave.wait_for_turns(1, 2)
    assert not weave.counters(0).present  # type: ignore[union-attr]
    assert weave.lines(0)[-1][1] == "closed"


def test_a_new_process_in_a_place_is_not_behind_and_not_ahead(weave: Weave) -> None:
    for place in range(2):
        weave.start(place)
    weave.wait_for_turns(0, 1, more=20)
    weave.end(0, signal.SIGKILL)
    weave.wait_for_turns(1, more=40)
    weave.start(0)
    before = weave.grants(1)
    weave.wait_for_turns(0, more=20)
    assert weave.grants(1) - before > 5, "the newcomer starves the other member"


def test_members_go_on_without_turns_when_the_directory_is_removed(weave: Weave) -> None:
    for place in range(3):
        weave.start(place)
    weave.wait_for_turns(0, 1, 2)
    shutil.rmtree(weave.path)
    before = [len(weave.turns(place)) for place in range(3)]
    until(lambda: all(len(weave.turns(place)) > before[place] + 20 for place in range(3)))


def test_a_member_that_never_joins_has_no_turns(weave: Weave) -> None:
    weave.start(0)
    weave.wait_for_turns(0)
    assert [each.place for each in read_counters(weave.path)] == [0]


@pytest.mark.parametrize("order", ["fifo", "slots"])
def test_other_orders_keep_turns_apart_too(tmp_path: Path, order: str) -> None:
    weave = Weave(tmp_path, order, limit_s=30.0)
    try:
        for place in range(3):
            weave.start(place, 0.002, "data,gpu,net")
        weave.wait_for_turns(0, 1, 2, more=15)
        weave.end(1, signal.SIGKILL)
        weave.wait_for_turns(0, 2, more=10)
        for place in (0, 2):
            weave.end(place, signal.SIGTERM)
        assert weave.overlaps("gpu") == []
        assert weave.overlaps("net") == []
        counts = [len([turn for turn in weave.turns(place) if turn.stage == "gpu"]) for place in (0, 2)]
        if order == "slots":
            assert abs(counts[0] - counts[1]) <= counts[0] // 2 + 10, "all members advance in step"
    finally:
        for process in weave.living.values():
            process.kill()
            process.wait(WAIT_S)


def test_chaos(tmp_path: Path) -> None:
    """Members are killed, frozen and started again: all make progress, and no two GPU turns overlap."""
    weave, chance = Weave(tmp_path, size=6), random.Random(7)
    try:
        for place in range(6):
            weave.start(place, 0.003, "gpu,net")
        weave.wait_for_turns(*range(6), more=2)
        for _ in range(12):
            place = chance.randrange(6)
            if chance.random() < 0.5:
                weave.end(place, signal.SIGKILL)
                weave.start(place, 0.003, "gpu,net")
            else:
                weave.living[place].send_signal(signal.SIGSTOP)
                time.sleep(0.05)
                weave.living[place].send_signal(signal.SIGCONT)
            time.sleep(chance.random() * 0.2)
        weave.wait_for_turns(*range(6), more=10)
        for place in range(6):
            weave.end(place, signal.SIGTERM)
        assert sum(len(weave.turns(place)) for place in range(6)) > 100
        assert weave.overlaps("gpu") == []
        assert weave.overlaps("net") == []
    finally:
        for process in weave.living.values():
            process.kill()
            process.wait(WAIT_S)


def waiting_in_line(weave: Weave, place: int) -> bool:
    file = directory.StateFile(str(weave.path))
    try:
        return place in file.change(lambda raw: (raw, View(raw).stage(1)[1]))[1]
    finally:
        file.close()
