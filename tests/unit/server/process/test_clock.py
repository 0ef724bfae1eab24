"""Time that never runs backwards."""

from __future__ import annotations

import time

from weft.server.process.clock import Clock


class Wall:
    """The clock on the wall, which may be set, and a steady one."""

    def __init__(self) -> None:
        self.wall_s, self.steady_s = 1000.0, 50.0

    def pass_s(self, seconds: float) -> None:
        self.wall_s += seconds
        self.steady_s += seconds

    def clock(self, at_least: float = 0.0) -> Clock:
        return Clock(at_least, wall=lambda: self.wall_s, steady=lambda: self.steady_s)


def test_a_wall_clock_that_jumps_does_not_matter() -> None:
    wall = Wall()
    clock = wall.clock()
    seen = [clock.now()]
    for jump in (-500.0, 3600.0, -86400.0, 0.0):
        wall.wall_s += jump
        wall.pass_s(10.0)
        seen.append(clock.now())
    assert seen == [1000.0, 1010.0, 1020.0, 1030.0, 1040.0]


def test_a_scheduler_that_starts_after_the_wall_clock_was_set_back_goes_on_from_its_last_fact() -> None:
    wall = Wall()
    first = wall.clock()
    wall.pass_s(100.0)
    last_fact = first.now()
    wall.wall_s -= 700.0
    second = wall.clock(at_least=last_fact)
    assert second.now() == last_fact
    wall.pass_s(5.0)
    assert second.now() == last_fact + 5.0


def test_a_scheduler_that_starts_after_the_wall_clock_was_set_forward_has_the_time_of_the_wall() -> None:
    wall = Wall()
    wall.pass_s(100.0)
    assert wall.clock(at_least=1050.0).now() == 1100.0


def test_time_goes_on_while_the_machine_sleeps() -> None:
    clock = Clock(wall=lambda: 0.0)
    made_at = time.clock_gettime(time.CLOCK_BOOTTIME) - clock.now()
    time.sleep(0.01)
    assert abs(time.clock_gettime(time.CLOCK_BOOTTIME) - clock.now() - made_at) < 0.005
