"""The rates of woven jobs that take turns by tokens: each member has its own rate.

Three resources have room for a number of jobs: storage and CPUs (data) for two, the GPUs for one, the network for one.
A job loads one batch ahead, then uses the GPUs, then the network, and has done an iteration. The data stage is not
guarded: jobs share it. On the others one job works at a time, and the next is the one that was served least there
(`fair`) or the first in line (`fifo`); without tokens (`shared`) all work at once, and lose a part of the GPU to it.
The model advances from event to event, and counts iterations once it has settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, fsum, log
from typing import Final, Literal

from weft.model import Profile
from weft.model.profiles import MIN_STEP_S
from weft.scheduling.weaving.pace import FACTORS, GREEDY_FACTORS, Pace, Stages

Order = Literal["fair", "fifo", "slots"]
"""The order in which members of a weave take turns. `slots`: in lock-step, as Muri does."""
Contention = Literal["muri", "none"]
"""The slowdown of members by each other otherwise: by the factors that Muri measured, or not at all."""
Tokens = Literal["fair", "fifo", "shared"]

DATA_LANES: Final = 2
"""The number of jobs that the data stage serves at full speed."""
LEAST_TOTAL: Final = 1.1
"""A weave pays if its members together do this much of the work that they would do in turn. The excess pays for
restarts and hand-overs."""
MIN_ITERATIONS: Final = 12
"""The number of iterations of the slowest member that the model runs for, alone."""
MAX_EVENTS: Final = 6000
"""The most events of a set: members whose stages differ by a factor of a thousand have many."""
MANY: Final = 50
"""From this many iterations on, the ones in a span of time are counted; fewer are counted from one end to another."""
SETTLED: Final = 0.2
"""The part of the time after which iterations count."""
GRID: Final = log(1.04)
"""Stage times are rounded to steps of 4 %, so that a new measurement of the same job need not be computed again."""
MAX_REMEMBERED: Final = 20_000
TINY_S: Final = 1e-12


@dataclass(frozen=True)
class Rates:
    """The rates of weaves under tokens, cached by multiset of profiles."""

    tokens: Tokens = "fair"
    factors: dict[int, float] | None = None
    """The slowdown of weaves by number of members; None: none."""
    loss: float = 0.0
    """The part of a GPU that is lost while several jobs share it without tokens."""
    _known: dict[tuple[Stages, ...], tuple[float, ...]] = field(default_factory=dict, compare=False, repr=False)

    def iterations_s(self, members: Sequence[Profile]) -> tuple[float, ...]:
        """Return the seconds per iteration of each member. None is faster than alone."""
        if len(members) == 1:
            return (members[0].iteration_s,)
        factor = 1.0 if self.factors is None else self.factors[len(members)]
        return tuple(
            max(profile.iteration_s, factor / max(rate, TINY_S))
            for profile, rate in zip(members, self._iterations_per_s(members), strict=True)
        )

    def total(self, members: Sequence[Profile]) -> float:
        """Return the work of all members per second, in seconds of their work alone: 1 is as much as in turn."""
        times = self.iterations_s(members)
        return fsum(profile.iteration_s / time for profile, time in zip(members, times, strict=True))

    def value(self, members: Sequence[Profile]) -> float | None:
        """Return the worth of a weave to the matching; None if it does not pay."""
        total = self.total(members)
        return total if total >= LEAST_TOTAL else None

    def pays(self, members: Sequence[Profile]) -> bool:
        return len(members) == 1 or self.total(members) >= LEAST_TOTAL

    def places(self, members: Sequence[Profile]) -> tuple[int, ...]:
        """Return the members, by number, in the order of their places: under tokens any order is as good."""
        return tuple(range(len(members)))

    def is_known(self, members: Sequence[Profile]) -> bool:
        """Return whether the rates of these members were computed before."""
        return tuple(sorted(map(_rounded_stages, members))) in self._known

    def estimate(self, members: Sequence[Profile]) -> float | None:
        """Return about what `value` returns, in a hundredth of the time: within 5 % for most sets."""
        times = self.estimated_iterations_s(members)
        total = fsum(p.iteration_s / time for p, time in zip(members, times, strict=True))
        return total if total >= LEAST_TOTAL else None

    def estimated_iterations_s(self, members: Sequence[Profile]) -> tuple[float, ...]:
        """Return about what `iterations_s` returns, in a hundredth of the time."""
        factor = 1.0 if self.factors is None else self.factors[len(members)]
        rates = estimated_rates([_rounded_stages(profile) for profile in members])
        return tuple(max(p.iteration_s, factor / max(rate, TINY_S)) for p, rate in zip(members, rates, strict=True))

    def _iterations_per_s(self, members: Sequence[Profile]) -> list[float]:
        stages = [_rounded_stages(profile) for profile in members]
        key = tuple(sorted(stages))
        rates = self._known.get(key)
        if rates is None:
            if len(self._known) > MAX_REMEMBERED:
                self._known.clear()
            rates = self._known[key] = _alike(key, iteration_rates(key, self.tokens, self.loss))
        of = dict(zip(key, rates, strict=True))
        return [of[each] for each in stages]


def pacing(order: Order, contention: Contention, *, ordering: Literal["best", "worst"], matched: bool) -> Pace | Rates:
    """Return how fast weaves are in this order; `matched`: the weaves come from a matching, not from the list."""
    factors = FACTORS if matched else GREEDY_FACTORS
    if order == "slots":
        return Pace(ordering, factors if contention == "muri" else dict.fromkeys(factors, 1.0))
    return Rates(order, factors if contention == "muri" else None)


def _rounded_stages(profile: Profile) -> Stages:
    found = _rounded(profile.data_s), _rounded(profile.gpu_s), _rounded(profile.network_s)
    return found if any(found) else (0.0, MIN_STEP_S, 0.0)  # without any stage, iterations would take no time


def _rounded(seconds: float) -> float:
    return exp(round(log(seconds) / GRID) * GRID) if seconds > TINY_S else 0.0


def _alike(stages: Sequence[Stages], rates: Sequence[float]) -> tuple[float, ...]:
    """Give members of equal stages equal rates: which of them is first in line is chance."""
    sums: dict[Stages, list[float]] = {}
    for each, rate in zip(stages, rates, strict=True):
        sums.setdefault(each, []).append(rate)
    return tuple(fsum(sums[each]) / len(sums[each]) for each in stages)


def estimated_rates(stages: Sequence[Stages]) -> list[float]:
    """Return about the rates of members under tokens. Each waits for half of another one's stage when it finds it
    taken, and no stage serves more than it can: the least served first."""
    alone = [1.0 / max(data, gpu + net) for data, gpu, net in stages]
    waits = [rate * (gpu * gpu + net * net) / 2 for rate, (_, gpu, net) in zip(alone, stages, strict=True)]
    every = sum(waits)
    rates = [1.0 / max(data, gpu + net + every - own) for (data, gpu, net), own in zip(stages, waits, strict=True)]
    for stage, lanes in ((1, 1.0), (2, 1.0), (0, float(DATA_LANES))):
        loads = [rate * each[stage] for rate, each in zip(rates, stages, strict=True)]
        if sum(loads) > lanes:
            share = _fair_share(loads, lanes)
            rates = [
                min(rate, share / each[stage]) if each[stage] else rate
                for rate, each in zip(rates, stages, strict=True)
            ]
    return rates


def _fair_share(loads: Sequence[float], capacity: float) -> float:
    """Return the most that each load may have, so that all together have the capacity."""
    left, count = capacity, len(loads)
    for load in sorted(loads):
        if load >= left / count:
            break
        left, count = left - load, count - 1
    return left / max(count, 1)


def iteration_rates(stages: Sequence[Stages], tokens: Tokens, loss: float = 0.0) -> tuple[float, ...]:
    """Return the iterations per second of each member."""
    return _Model(stages, tokens, loss).run()


class _Model:
    """The members at work. A stage of no length takes no time and no turn."""

    def __init__(self, stages: Sequence[Stages], tokens: Tokens, loss: float) -> None:
        self.stages, self.tokens, self.loss = stages, tokens, loss
        count = len(stages)
        self.now = 0.0
        self.loading = [0.0] * count
        """Work left of the batch that a member loads; negative: it has one ready."""
        self.left = [0.0] * count
        self.at: list[int] = [0] * count
        """0: waits for a batch; 1: in its GPU stage; 2: in its network stage."""
        self.on: tuple[list[int], list[int], list[int]] = ([], [], [])
        """The members that work in each stage; the first list is of those that load."""
        self.line: tuple[list[int], list[int], list[int]] = ([], [], [])
        """The members that wait for each stage."""
        self.served = [[0.0] * count for _ in range(3)]
        self.ends: list[list[float]] = [[] for _ in range(count)]

    def run(self) -> tuple[float, ...]:
        for member in range(len(self.stages)):
            self._load(member)
            if self.loading[member] < 0:
                self._take_batch(member)
        for stage in (1, 2):
            self._admit(stage)
        until = MIN_ITERATIONS * max(sum(stages) for stages in self.stages) * (1 + len(self.stages)) / 2
        for _ in range(MAX_EVENTS):
            if self.now >= until:
                break
            self._advance()
        return tuple(self._rate(ends) for ends in self.ends)

    def _rate(self, ends: list[float]) -> float:
        """Return the iterations per second, given the ends of a member's iterations."""
        settled = self.now * SETTLED
        counted = [end for end in ends if end > settled]
        if len(counted) >= MANY:
            return len(counted) / (self.now - settled)
        if len(counted) < 2:
            return max(len(ends), 1) / self.now
        return (len(counted) - 1) / (counted[-1] - counted[0])

    def _advance(self) -> None:
        """Go to the next end of a stage."""
        data, gpu, network = self.on
        loading, left = self.loading, self.left
        data_speed = min(1.0, DATA_LANES / len(data)) if data else 1.0
        gpu_speed = self._shared_speed(len(gpu), self.loss)
        net_speed = self._shared_speed(len(network), 0.0)
        step = min(
            [loading[m] / data_speed for m in data]
            + [left[m] / gpu_speed for m in gpu]
            + [left[m] / net_speed for m in network]
        )
        self.now += step
        ended: list[tuple[int, int]] = []
        for stage, speed, rest in ((0, data_speed, loading), (1, gpu_speed, left), (2, net_speed, left)):
            work = step * speed
            for member in self.on[stage]:
                rest[member] -= work
                if rest[member] <= TINY_S:
                    ended.append((stage, member))
        for stage, member in ended:
            self.on[stage].remove(member)
            self.served[stage][member] += self.stages[member][stage]
        for stage, member in ended:
            self._end(stage, member)
        for stage in (1, 2):
            self._admit(stage)

    def _shared_speed(self, jobs: int, loss: float) -> float:
        return 1.0 if jobs <= 1 else (1.0 - loss) / jobs

    def _load(self, member: int) -> None:
        """Begin to load the next batch."""
        need = self.stages[member][0]
        self.loading[member] = need if need > 0 else -1.0
        if need > 0:
            self.on[0].append(member)

    def _end(self, stage: int, member: int) -> None:
        """Go on after a stage."""
        if stage == 0:
            self.loading[member] = -1.0
            if self.at[member] == 0:
                self._take_batch(member)
        elif stage == 1:
            self._enter(2, member)
        else:
            self._finish(member)

    def _take_batch(self, member: int) -> None:
        """Go on with the batch that is ready, and load the next meanwhile."""
        self._load(member)
        self._enter(1, member)

    def _enter(self, stage: int, member: int) -> None:
        self.at[member] = stage
        need = self.stages[member][stage]
        self.left[member] = need
        if need <= 0:
            self._end(stage, member)
        elif self.tokens == "shared":
            self.on[stage].append(member)
        else:
            self.line[stage].append(member)

    def _finish(self, member: int) -> None:
        self.ends[member].append(self.now)
        self.at[member] = 0
        if self.loading[member] < 0:
            self._take_batch(member)

    def _admit(self, stage: int) -> None:
        """Give the stage to the next in line."""
        line, on = self.line[stage], self.on[stage]
        if on or not line:
            return
        chosen = line[0]
        if self.tokens == "fair":
            served = self.served[stage]
            chosen = min(line, key=lambda member: served[member])
        line.remove(chosen)
        on.append(chosen)
