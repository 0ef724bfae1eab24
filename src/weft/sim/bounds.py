"""Lower bounds on average JCT and makespan that no policy can beat, with or without weaving.

docs/reference/report.md derives and proves them. In short: no job finishes sooner than alone on the best GPUs, and all
jobs share the GPUs. A solo second of a job costs at least its *price* in GPU-seconds, whatever weave the job runs in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush
from itertools import combinations_with_replacement
from math import fsum
from typing import TYPE_CHECKING, Final, Literal

from weft.model import Node, Profile
from weft.scheduling.weaving.pace import FACTORS, GREEDY_FACTORS, cycle_s
from weft.scheduling.weaving.prices import price_work
from weft.scheduling.weaving.rates import DATA_LANES
from weft.sim.costs.muri import makespan_since
from weft.sim.costs.speed import ACROSS_NODES, ACROSS_SWITCHES
from weft.sim.traces.trace import TraceJob

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST_FACTOR: Final = {members: min(FACTORS[members], GREEDY_FACTORS[members]) for members in FACTORS}
MAX_EXACT_PROFILES: Final = 10
"""With more profiles for one GPU count, not every weave is examined."""
PRICE_STEPS: Final = 10
"""The steps of the search for prices that bound the average JCT best; each costs a simulation of one server."""
ROUNDED_STAGES: Final = 0.96
"""Rates under tokens come from rounded stage times, which may be this much shorter."""
MIN_CYCLE_S: Final = 1e-9
"""The lower limit of a cycle: profiles without stages would take no time."""


@dataclass(frozen=True)
class Bounds:
    avg_jct_s: float
    makespan_s: float
    alone_avg_jct_s: float
    """The bound if every job had the cluster to itself. It also holds for policies that share GPUs without weaving."""
    alone_makespan_s: float


@dataclass(frozen=True)
class WeaveRules:
    """The ways in which jobs may be woven."""

    tokens: bool = False
    """True if they may also take turns by tokens, besides in lock-step."""
    factors: bool = True
    """True if Muri's factors slow weaves in lock-step down."""


LOCK_STEP: Final = WeaveRules()
_Terms = dict[int, dict[Profile, tuple[float, float]]]
"""By GPU count and profile: the price of a solo second, and the least duration of one."""


@dataclass(frozen=True)
class _Need:
    """The least that a job needs of the cluster."""

    submit_s: float
    ready_s: float
    """The earliest time at which the job can work."""
    least_s: float
    """Its shortest duration after that."""
    price_s: float
    """Its least GPU-seconds, in seconds of the whole cluster."""


def compute_bounds(
    jobs: Sequence[TraceJob],
    nodes: Sequence[Node],
    model: Literal["real", "muri"],
    measured: Callable[[float], bool] = lambda _: True,
    weaves: WeaveRules = LOCK_STEP,
) -> Bounds:
    """Return the bounds for a trace whose jobs all finish.

    The bounds on the JCT are for the jobs whose submission time `measured` accepts.
    """
    terms = _terms_by_size(jobs, weaves, [each.work_s for each in jobs])
    needs = _sorted_needs(jobs, nodes, model, terms)
    counted = [need for need in needs if measured(need.submit_s)]
    since_s = makespan_since(model)
    first_s = min(need.submit_s for need in needs) if since_s is None else since_s
    alone_s = max(need.ready_s + need.least_s for need in needs) - first_s
    alone_sum_s = fsum(need.ready_s + need.least_s - need.submit_s for need in counted)
    least_sum_s = _least_sum_s(counted)
    for step in range(PRICE_STEPS if any(each.job.profile for each in jobs) else 0):
        terms = _towards(terms, _terms_by_size(jobs, weaves, _delays(jobs, terms)), 2 / (step + 3))
        priced = _sorted_needs(jobs, nodes, model, terms)
        least_sum_s = max(least_sum_s, _least_sum_s([need for need in priced if measured(need.submit_s)]))
    count = max(len(counted), 1)
    return Bounds(
        avg_jct_s=max(alone_sum_s, least_sum_s) / count,
        makespan_s=max(alone_s, _busy_until(needs) - first_s),
        alone_avg_jct_s=alone_sum_s / count,
        alone_makespan_s=alone_s,
    )


def _least_sum_s(needs: Sequence[_Need]) -> float:
    """Bound the sum of JCTs: by the ends on one server, and by the mean times of service plus half of the durations."""
    submits_s = fsum(need.submit_s for need in needs)
    halves_s = fsum(need.least_s for need in needs) / 2
    middles_s = _simulate_server(needs, by_remaining=False)[1] + halves_s
    return max(middles_s, _simulate_server(needs, by_remaining=True)[0]) - submits_s


# ---- prices for the sum of JCTs: every mean of valid prices is valid, so the search may stop anywhere (Frank-Wolfe)


def _terms_by_size(jobs: Sequence[TraceJob], weaves: WeaveRules, work: Sequence[float]) -> _Terms:
    """Return the terms of each GPU count that make this amount of work of each job dearest."""
    buckets: dict[int, dict[Profile, float]] = {}
    for each, amount in zip(jobs, work, strict=True):
        if each.job.profile is not None:
            bucket = buckets.setdefault(each.job.gpus, {})
            bucket[each.job.profile] = bucket.get(each.job.profile, 0.0) + amount
    return {size: _terms(bucket, weaves) for size, bucket in buckets.items()}


def _delays(jobs: Sequence[TraceJob], terms: _Terms) -> list[float]:
    """Return each job's work times the jobs that wait for it, in the order of priced work."""
    priced = [each.work_s * each.job.gpus * _price(each, terms) for each in jobs]
    order = sorted(range(len(jobs)), key=priced.__getitem__)
    found = [0.0] * len(jobs)
    for place, number in enumerate(order):
        found[number] = jobs[number].work_s * (len(jobs) - place)
    return found


def _price(each: TraceJob, terms: _Terms) -> float:
    return 1.0 if each.job.profile is None else terms[each.job.gpus][each.job.profile][0]


def _towards(terms: _Terms, goal: _Terms, part: float) -> _Terms:
    """Move prices a part of the way to others."""
    return {
        size: {
            profile: (price + part * (goal[size][profile][0] - price), fastest)
            for profile, (price, fastest) in bucket.items()
        }
        for size, bucket in terms.items()
    }


# ---- the needs of each job


def _sorted_needs(jobs: Sequence[TraceJob], nodes: Sequence[Node], model: str, terms: _Terms) -> list[_Need]:
    return sorted(_needs(jobs, nodes, model, terms), key=lambda need: need.ready_s)


def _needs(jobs: Sequence[TraceJob], nodes: Sequence[Node], model: str, terms: _Terms) -> Iterable[_Need]:
    gpus = sum(len(node.gpus) for node in nodes)
    real = model == "real"
    spread = _spread_factor(nodes) if real else lambda _: 1.0
    for each in jobs:
        job, profile = each.job, each.job.profile
        price, fastest = (1.0, 1.0) if profile is None else terms[job.gpus][profile]
        work_s = each.work_s * spread(job.gpus)
        gpus_held = job.gpus * min(job.share.request, 1.0)
        yield _Need(
            each.submit_s,
            each.submit_s + (profile.start_s if real and profile else 0.0),
            work_s * fastest,
            work_s * price * gpus_held / gpus if gpus else 0.0,
        )


def _spread_factor(nodes: Sequence[Node]) -> Callable[[int], float]:
    """Return a function that gives the slowdown of a gang that spans nodes or switches."""
    switches: dict[str, int] = {}
    for node in nodes:
        switches[node.switch] = switches.get(node.switch, 0) + len(node.gpus)
    on_node = max((len(node.gpus) for node in nodes), default=0)
    on_switch = max(switches.values(), default=0)

    def factor(gpus: int) -> float:
        return 1.0 if gpus <= on_node else ACROSS_NODES if gpus <= on_switch else ACROSS_SWITCHES

    return factor


# ---- the price of a solo second


def _terms(work_s: dict[Profile, float], weaves: WeaveRules) -> dict[Profile, tuple[float, float]]:
    """Return prices and least durations that hold for all weaves that the rules allow."""
    terms = _prices_and_speeds(work_s) if weaves.factors else _rough_prices_and_speeds(work_s, factor=1.0)
    if not weaves.tokens:
        return terms
    by_tokens = _token_prices(work_s)  # a job that takes turns by tokens is never faster than alone
    return {profile: (min(price, by_tokens[profile]), fastest) for profile, (price, fastest) in terms.items()}


def _token_prices(work_s: dict[Profile, float]) -> dict[Profile, float]:
    """Bound prices under tokens: each resource does at most what it has room for, and a weave has few members."""
    members = max(LEAST_FACTOR)
    uses: list[Callable[[Profile], float]] = [
        lambda p: p.gpu_s / p.iteration_s,
        lambda p: p.network_s / p.iteration_s,
        lambda p: p.data_s / p.iteration_s / DATA_LANES,
        lambda _: 1 / members,
    ]
    found = [{p: min(1.0, use(p) * ROUNDED_STAGES) for p in work_s} for use in uses]
    return max(found, key=lambda price: fsum(price[p] * s for p, s in work_s.items()))


def _prices_and_speeds(work_s: dict[Profile, float]) -> dict[Profile, tuple[float, float]]:
    """Return, for each profile of one GPU count, the price of a solo second in GPU-seconds and its least duration."""
    if len(work_s) > MAX_EXACT_PROFILES:
        return _rough_prices_and_speeds(work_s)
    import numpy as np

    profiles = sorted(work_s, key=lambda p: (p.model, p.iteration_s, p.data_s, p.gpu_s, p.network_s))
    rates, fastest = _rates(tuple(profiles))
    prices = price_work(rates, np.array([work_s[profile] for profile in profiles]))
    return {profile: (float(price), 1 / speed) for profile, price, speed in zip(profiles, prices, fastest, strict=True)}


def _rough_prices_and_speeds(
    work_s: dict[Profile, float], factor: float = min(LEAST_FACTOR.values())
) -> dict[Profile, tuple[float, float]]:
    """Bound prices without examining weaves: a weave runs one GPU stage and one network stage at a time."""
    by_gpu = {p: min(1.0, factor * p.gpu_s / p.iteration_s) for p in work_s}
    by_network = {p: min(1.0, factor * p.network_s / p.iteration_s) for p in work_s}
    price = max(by_gpu, by_network, key=lambda found: fsum(found[p] * s for p, s in work_s.items()))
    stages = {p: p.data_s + p.gpu_s + p.network_s for p in work_s}
    return {p: (price[p], min(1.0, factor * stages[p] / 2 / p.iteration_s)) for p in work_s}


@cache
def _rates(profiles: tuple[Profile, ...]) -> tuple[NDArray[np.float64], tuple[float, ...]]:
    """Return the rates of all weaves, and the highest rate of a job of each profile.

    A row for each possible weave, and for each job alone, holds the solo seconds done per second, summed by profile.
    """
    import numpy as np

    kinds = range(len(profiles))
    rows: list[list[float]] = np.eye(len(profiles)).tolist()
    fastest = [1.0 for _ in kinds]
    for members in LEAST_FACTOR:
        for weave in combinations_with_replacement(kinds, members):
            stages = tuple((profiles[at].data_s, profiles[at].gpu_s, profiles[at].network_s) for at in weave)
            cycle = max(cycle_s(stages, "best") * LEAST_FACTOR[members], MIN_CYCLE_S)
            rows.append([weave.count(at) * profiles[at].iteration_s / cycle for at in kinds])
            for at in weave:
                fastest[at] = max(fastest[at], profiles[at].iteration_s / cycle)
    return np.array(rows), tuple(fastest)


# ---- a single server as fast as the cluster


def _simulate_server(needs: Sequence[_Need], *, by_remaining: bool) -> tuple[float, float]:
    """Return the sum of the jobs' ends, and the sum of the mean times at which they are served.

    The server serves the shortest job first. With `by_remaining` that is the least remaining work, which minimises the
    sum of ends; otherwise the least total work, which minimises the sum of mean times.
    """
    ends = middles = now = 0.0
    queue: list[tuple[float, int, float]] = []
    for at in range(len(needs) + 1):
        until = needs[at].ready_s if at < len(needs) else float("inf")
        while queue and now < until:
            key, index, rest = heappop(queue)
            served = min(rest, until - now)
            price = needs[index].price_s
            middles += (now + served / 2) * served / price if price else now
            now += served
            if rest - served > 0:
                heappush(queue, (rest - served if by_remaining else key, index, rest - served))
            else:
                ends += now
        if at < len(needs):
            now = max(now, until)
            heappush(queue, (needs[at].price_s, at, needs[at].price_s))
    return ends, middles


def _busy_until(needs: Iterable[_Need]) -> float:
    """Return the time at which a server that is never idle while there is work finishes."""
    now = 0.0
    for need in needs:
        now = max(now, need.ready_s) + need.price_s
    return now
