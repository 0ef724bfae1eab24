"""What no policy can beat: lower bounds on average JCT and makespan, interleaving allowed.

Derived and proved in docs/reference/report.md. In short: no job is done sooner than alone on the best GPUs; and all of
them together use up the GPUs, of which a solo second of a job costs at least its *price*, whomever it is woven with.
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
from weft.sim.costs.muri import makespan_since
from weft.sim.costs.speed import ACROSS_NODES, ACROSS_SWITCHES
from weft.sim.traces.trace import TraceJob
from weft.weaving.pace import FACTORS, GREEDY_FACTORS, cycle_s

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST_FACTOR: Final = {members: min(FACTORS[members], GREEDY_FACTORS[members]) for members in FACTORS}
MANY: Final = 10
"""Of more profiles on one number of GPUs not every weave is looked at."""
PIVOTS: Final = 500
SHORTEST_S: Final = 1e-9
"""A weave of profiles without stages would take no time."""


@dataclass(frozen=True)
class Bounds:
    avg_jct_s: float
    makespan_s: float
    alone_avg_jct_s: float
    """As if every job had the cluster to itself: holds also for those who share GPUs without weaving."""
    alone_makespan_s: float


@dataclass(frozen=True)
class _Need:
    submit_s: float
    ready_s: float
    """It does nothing before."""
    least_s: float
    """From there, at full speed."""
    price_s: float
    """Seconds of the whole cluster that it takes at least."""


def bounds(
    jobs: Sequence[TraceJob],
    nodes: Sequence[Node],
    model: Literal["real", "muri"],
    measured: Callable[[float], bool] = lambda _: True,
) -> Bounds:
    """For a trace of which every job gets done; the JCT of those that are measured, by their submission."""
    needs = sorted(_needs(jobs, nodes, model), key=lambda need: need.ready_s)
    some = [need for need in needs if measured(need.submit_s)]
    since_s = makespan_since(model)
    first_s = min(need.submit_s for need in needs) if since_s is None else since_s
    alone_s = max(need.ready_s + need.least_s for need in needs) - first_s
    submits_s = fsum(need.submit_s for need in some)
    alone_sum_s = fsum(need.ready_s + need.least_s for need in some) - submits_s
    middles_s = _serve(some, by_rest=False)[1] + fsum(need.least_s for need in some) / 2 - submits_s
    ends_s = _serve(some, by_rest=True)[0] - submits_s
    count = max(len(some), 1)
    return Bounds(
        avg_jct_s=max(alone_sum_s, middles_s, ends_s) / count,
        makespan_s=max(alone_s, _last_s(needs) - first_s),
        alone_avg_jct_s=alone_sum_s / count,
        alone_makespan_s=alone_s,
    )


# ---- what each job needs


def _needs(jobs: Sequence[TraceJob], nodes: Sequence[Node], model: str) -> Iterable[_Need]:
    gpus = sum(len(node.gpus) for node in nodes)
    real = model == "real"
    spread = _spread(nodes) if real else lambda _: 1.0
    buckets: dict[int, dict[Profile, float]] = {}
    for each in jobs:
        if each.job.profile is not None:
            bucket = buckets.setdefault(each.job.gpus, {})
            bucket[each.job.profile] = bucket.get(each.job.profile, 0.0) + each.work_s
    terms = {size: _terms(bucket) for size, bucket in buckets.items()}
    for each in jobs:
        job, profile = each.job, each.job.profile
        price, fastest = (1.0, 1.0) if profile is None else terms[job.gpus][profile]
        work_s = each.work_s * spread(job.gpus)
        held = job.gpus * min(job.share.request, 1.0)
        yield _Need(
            each.submit_s,
            each.submit_s + (profile.start_s if real and profile else 0.0),
            work_s * fastest,
            work_s * price * held / gpus if gpus else 0.0,
        )


def _spread(nodes: Sequence[Node]) -> Callable[[int], float]:
    """How much slower a gang is for not fitting on a node, or on the nodes of a switch."""
    switches: dict[str, int] = {}
    for node in nodes:
        switches[node.switch] = switches.get(node.switch, 0) + len(node.gpus)
    on_node = max((len(node.gpus) for node in nodes), default=0)
    on_switch = max(switches.values(), default=0)

    def factor(gpus: int) -> float:
        return 1.0 if gpus <= on_node else ACROSS_NODES if gpus <= on_switch else ACROSS_SWITCHES

    return factor


# ---- what a solo second costs


def _terms(work_s: dict[Profile, float]) -> dict[Profile, tuple[float, float]]:
    """For each profile of one number of GPUs: the price of a solo second in GPU-seconds, and its shortest duration."""
    if len(work_s) > MANY:
        return _rough_terms(work_s)
    profiles = sorted(work_s, key=lambda p: (p.model, p.iteration_s, p.data_s, p.gpu_s, p.network_s))
    rates, fastest = _rates(tuple(profiles))
    prices = _prices(rates, [work_s[profile] for profile in profiles])
    return {profile: (float(price), 1 / speed) for profile, price, speed in zip(profiles, prices, fastest, strict=True)}


def _rough_terms(work_s: dict[Profile, float]) -> dict[Profile, tuple[float, float]]:
    """Where there are too many weaves to look at: a weave has one GPU stage, and one network stage, at a time."""
    factor = min(LEAST_FACTOR.values())
    by_gpu = {p: min(1.0, factor * p.gpu_s / p.iteration_s) for p in work_s}
    by_network = {p: min(1.0, factor * p.network_s / p.iteration_s) for p in work_s}
    price = max(by_gpu, by_network, key=lambda found: fsum(found[p] * s for p, s in work_s.items()))
    stages = {p: p.data_s + p.gpu_s + p.network_s for p in work_s}
    return {p: (price[p], min(1.0, factor * stages[p] / 2 / p.iteration_s)) for p in work_s}


@cache
def _rates(profiles: tuple[Profile, ...]) -> tuple[NDArray[np.float64], tuple[float, ...]]:
    """A row for each weave there can be, and for each alone: solo seconds done per second, added up by profile.

    And how many a single job of each profile does at most.
    """
    import numpy as np

    kinds = range(len(profiles))
    rows: list[list[float]] = np.eye(len(profiles)).tolist()
    fastest = [1.0 for _ in kinds]
    for members in LEAST_FACTOR:
        for weave in combinations_with_replacement(kinds, members):
            stages = tuple((profiles[at].data_s, profiles[at].gpu_s, profiles[at].network_s) for at in weave)
            cycle = max(cycle_s(stages, "best") * LEAST_FACTOR[members], SHORTEST_S)
            rows.append([weave.count(at) * profiles[at].iteration_s / cycle for at in kinds])
            for at in weave:
                fastest[at] = max(fastest[at], profiles[at].iteration_s / cycle)
    return np.array(rows), tuple(fastest)


def _prices(rates: NDArray[np.float64], work_s: Sequence[float]) -> NDArray[np.float64]:
    """Prices at which no weave does more than a GPU-second's worth per second, and the work is worth most.

    A linear program, by the simplex method; whatever comes of it is scaled down to prices that do hold.
    """
    import numpy as np

    count, kinds = rates.shape
    table = np.zeros((count + 1, kinds + 1))
    table[:-1, :-1], table[:-1, -1], table[-1, :-1] = rates, 1.0, -np.asarray(work_s) / max(*work_s, 1e-300)
    basis, rest = list(range(kinds, kinds + count)), list(range(kinds))
    for _ in range(PIVOTS):
        column = int(table[-1, :-1].argmin())
        if table[-1, column] >= -1e-12:
            break
        ratios = np.full(count, np.inf)
        np.divide(table[:-1, -1], table[:-1, column], out=ratios, where=table[:-1, column] > 1e-12)
        row = int(ratios.argmin())
        if not np.isfinite(ratios[row]):
            break
        _pivot(table, row, column)
        basis[row], rest[column] = rest[column], basis[row]
    prices = np.zeros(kinds)
    for row, name in enumerate(basis):
        if name < kinds:
            prices[name] = max(table[row, -1], 0.0)
    return np.asarray(prices / max(1.0, float((rates @ prices).max())))


def _pivot(table: NDArray[np.float64], row: int, column: int) -> None:
    import numpy as np

    pivot, line, side = table[row, column], table[row].copy(), table[:, column].copy()
    table -= np.outer(side, line) / pivot
    table[row], table[:, column] = line / pivot, -side / pivot
    table[row, column] = 1 / pivot


# ---- one machine as fast as the cluster


def _serve(needs: Sequence[_Need], *, by_rest: bool) -> tuple[float, float]:
    """The sums of the jobs' ends and of the mean times at which they are served.

    The shortest goes first: by what is left, which makes the sum of ends least, or by what it was, which makes the sum
    of mean times least.
    """
    ends = middles = now = 0.0
    queue: list[tuple[float, int, float]] = []
    for at in range(len(needs) + 1):
        until = needs[at].ready_s if at < len(needs) else float("inf")
        while queue and now < until:
            key, who, rest = heappop(queue)
            served = min(rest, until - now)
            price = needs[who].price_s
            middles += (now + served / 2) * served / price if price else now
            now += served
            if rest - served > 0:
                heappush(queue, (rest - served if by_rest else key, who, rest - served))
            else:
                ends += now
        if at < len(needs):
            now = max(now, until)
            heappush(queue, (needs[at].price_s, at, needs[at].price_s))
    return ends, middles


def _last_s(needs: Iterable[_Need]) -> float:
    """When a machine that never rests while there is work has done all."""
    now = 0.0
    for need in needs:
        now = max(now, need.ready_s) + need.price_s
    return now
