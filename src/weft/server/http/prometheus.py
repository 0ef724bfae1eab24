"""The Prometheus metrics of the server: counters of its work, and gauges read from its state on demand."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import grpc.aio
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.metrics_core import Metric

from weft.model import Decision, Event
from weft.model.status import Reason
from weft.scheduling.core.state.job import JobState
from weft.server.admin.teams import team_views
from weft.server.controller import Controller
from weft.server.http.job_counters import JobCounters, UserFigures
from weft.server.http.team_counters import TeamGpuSeconds
from weft.server.process.event_loop import current_turns
from weft.views.from_state.weaves import members_by_weave

BUCKETS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
ACTIVE: Final = ("blocked", "held", "waiting", "starting", "running", "stopping")
ENDED: Final = ("done", "failed", "cancelled")
WEAVE_SIZES: Final = (1, 2, 3, 4)
"""Sizes that are always listed. A weave whose other members have ended has a size of 1."""
TEAM_GPUS: Final = ("held", "borrowed", "guaranteed", "max")
Sample = tuple[dict[str, str], float]


CORDON_REASONS: Final = (Reason.DRAINED, Reason.NODE_SILENT, Reason.NODE_LEAVING, Reason.NODE_UNHEALTHY)


class Metrics:
    """The metrics of one server, in a registry that no other server of this process shares."""

    def __init__(self, controller: Controller) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the text format has no place for them: each would be a gauge more
        self._registry = CollectorRegistry(auto_describe=False)
        self._controller = controller
        self._jobs = JobCounters(self._registry, controller.scheduler.state)
        self._teams = TeamGpuSeconds(controller.scheduler.state)
        self._registry.register(_State(controller, self._jobs, self._teams))
        self._calls = Counter("weft_rpc", "Calls accepted, by method.", ("method",), registry=self._registry)
        self._deciding = Histogram(
            "weft_decision_seconds",
            "Time to decide, for each batch of the loop.",
            buckets=BUCKETS_S,
            registry=self._registry,
        )
        self._committing = Histogram(
            "weft_journal_commit_seconds",
            "Time to write the facts of a batch to disk.",
            buckets=BUCKETS_S,
            registry=self._registry,
        )

    def record_step(self, deciding_s: float, committing_s: float) -> None:
        """Record how long a batch of the loop took."""
        self._deciding.observe(deciding_s)
        self._committing.observe(committing_s)

    def record_facts(self, events: Sequence[Event], decisions: Sequence[Decision]) -> None:
        """Count the jobs in the facts of a batch."""
        state = self._controller.scheduler.state
        self._jobs.record(state, events, decisions)
        self._teams.record(state, (*events, *decisions))

    def count_call(self, method: str) -> None:
        """Count a call of a method, named as gRPC names it."""
        self._calls.labels(method.removeprefix("/weft.v1.")).inc()

    def interceptor(self) -> grpc.aio.ServerInterceptor:
        return _CallCounter(self)

    def exposition(self) -> bytes:
        """Return all metrics in the text format of Prometheus, version 0.0.4."""
        return generate_latest(self._registry)


class _CallCounter(grpc.aio.ServerInterceptor):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        found = await continuation(details)
        if found is not None:  # a client that invents method names must not add label values
            self._metrics.count_call(details.method)
        return found


class _State:
    """Reads gauges from the scheduler's state each time they are collected."""

    def __init__(self, controller: Controller, counters: JobCounters, teams: TeamGpuSeconds) -> None:
        self._controller, self._counters, self._teams = controller, counters, teams

    def collect(self) -> Iterator[Metric]:
        controller = self._controller
        yield from _jobs(controller)
        yield from _users(self._counters.by_user(controller.scheduler.state.jobs.values()))
        if controller.scheduler.state.teams.by_name:
            yield from _teams(controller)
            yield _team_seconds(self._teams.totals(controller.loop.clock.now()))
        yield from _gpus(controller)
        yield from _weaves(controller)
        agents = Count(each.state for each in controller.inventory.nodes().values())
        yield _gauge(
            "weft_agents",
            "Registered nodes, by the state of their agent.",
            (({"state": each}, agents[each]) for each in ("connected", "silent")),
        )
        cordoned = Count(why for _, why in controller.scheduler.state.closed)
        yield _gauge(
            "weft_nodes_cordoned",
            "Nodes on which nothing new starts, by reason.",
            (({"reason": each}, cordoned[each]) for each in CORDON_REASONS),
        )
        paused = bool(controller.scheduler.state.paused)
        yield _gauge("weft_paused", "1 while no new job is started.", [({}, paused)])
        # The library renames counters to end in _total; as a gauge the metric keeps its name.
        yield _gauge(
            "weft_journal_facts", "Facts written since the journal was created.", [({}, len(controller.journal))]
        )
        accounts = controller.shares.accounts.items()
        yield _gauge(
            "weft_user_cpu_seconds",
            "CPU time that the requests of each user have taken.",
            (({"user": user}, account.used_s) for user, account in accounts),
        )
        yield _gauge(
            "weft_user_calls_waiting",
            "Calls of each user that wait for the user's share of the CPU.",
            (({"user": user}, account.waiting) for user, account in accounts),
        )
        turns = current_turns()
        yield _gauge(
            "weft_loop_longest_turn_seconds",
            "The longest turn of the server's loop in the last minute or two.",
            [({}, turns.longest_s)],
        )
        yield _gauge(
            "weft_loop_longest_turn_cpu_seconds",
            "The most CPU time that a turn of the server's loop took in the last minute or two.",
            [({}, turns.longest_cpu_s)],
        )
        yield _gauge("weft_journal_lag", "Events that are not on disk yet.", [({}, controller.loop.lag)])


def _jobs(controller: Controller) -> Iterator[Metric]:
    statuses, outcomes = Count[str](), Count[str]()
    for job in controller.scheduler.state.jobs.values():
        (outcomes if job.ended_at is not None else statuses)[job.status] += 1
    yield _gauge(
        "weft_jobs", "Jobs that have not ended, by state.", (({"state": each}, statuses[each]) for each in ACTIVE)
    )
    yield _gauge(
        "weft_jobs_ended",
        "Jobs that have ended and are not purged, by outcome.",
        (({"outcome": each}, outcomes[each]) for each in ENDED),
    )


def _users(figures: UserFigures) -> Iterator[Metric]:
    yield _gauge(
        "weft_user_jobs",
        "Jobs of each user that have not ended: waiting, held and blocked ones, and those with GPUs.",
        (
            ({"user": user, "state": state}, count)
            for user, counts in figures.items()
            for state, count in zip(("waiting", "active"), counts, strict=False)
        ),
    )
    yield _gauge(
        "weft_user_gpus_busy",
        "GPUs that the jobs of each user hold.",
        (({"user": u}, f[2]) for u, f in figures.items()),
    )


def _teams(controller: Controller) -> Iterator[Metric]:
    views = team_views(controller.scheduler.state)
    yield _gauge(
        "weft_team_gpus",
        "GPUs of each team: held, of these borrowed, guaranteed, and the most that it may hold.",
        (
            ({"team": each.team, "kind": kind}, gpus)
            for each in views
            for kind, gpus in zip(TEAM_GPUS, (each.held, each.borrowed, each.guaranteed, each.max), strict=True)
            if gpus is not None
        ),
    )
    yield _gauge(
        "weft_team_jobs",
        "Jobs of each team that have not ended.",
        (
            ({"team": each.team, "state": name}, count)
            for each in views
            for name, count in (("active", each.running), ("waiting", each.waiting))
        ),
    )


def _team_seconds(totals: Iterable[tuple[tuple[str, str], float]]) -> Metric:
    metric = Metric("weft_team_gpu_seconds", "GPU seconds of each team: held, and of these borrowed.", "counter")
    for (team, kind), seconds in totals:
        metric.add_sample("weft_team_gpu_seconds_total", {"team": team, "kind": kind}, seconds)
    return metric


def _gpus(controller: Controller) -> Iterator[Metric]:
    hosts = [host for host in controller.scheduler.state.resources.nodes if host.alive]
    yield _gauge("weft_gpus", "GPUs of each node.", (({"node": r.node.id}, len(r.node.gpus)) for r in hosts))
    busy = {r.node.id: sum(any(isinstance(h, JobState) for h in holders) for holders in r.holders) for r in hosts}
    yield _gauge("weft_gpus_busy", "GPUs of each node that jobs hold.", (({"node": n}, busy[n]) for n in busy))
    numbers = controller.inventory.numbers
    readings = [
        ({"node": node, "gpu": str(numbers.number(node, gpu))}, reading)
        for (node, gpu), reading in sorted(controller.inventory.readings().items())
    ]
    yield _gauge(
        "weft_gpu_utilisation",
        "Utilisation of each GPU in percent, from the driver.",
        ((gpu, reading.utilisation) for gpu, reading in readings if reading.utilisation is not None),
    )
    yield _gauge(
        "weft_gpu_memory_used_bytes",
        "Memory in use on each GPU, from the driver.",
        ((gpu, reading.used_mb * (1 << 20)) for gpu, reading in readings if reading.used_mb is not None),
    )


def _weaves(controller: Controller) -> Iterator[Metric]:
    woven = members_by_weave(controller.scheduler.state)
    sizes = Count(map(len, woven.values()))
    yield _gauge(
        "weft_weaves",
        "Weaves, by the number of jobs that run in them.",
        (({"size": str(size)}, sizes[size]) for size in sorted({*WEAVE_SIZES, *sizes})),
    )
    members = [job for jobs in woven.values() for job in jobs]
    known = [run for run in map(controller.weaves.of, members) if run is not None]
    yield _gauge("weft_woven_jobs", "Jobs that run in weaves.", [({}, len(members))])
    yield _gauge(
        "weft_woven_pace",
        "Sum of the paces of woven jobs, each against its pace alone.",
        [({}, sum(run.rate or 0.0 for run in known))],
    )
    totals = sorted(controller.weaves.totals().items())
    waits = {stage: (use.waited_s, use.grants) for stage, use in totals}
    yield _summary("weft_stage_wait_seconds", "Waits of woven jobs for their turns, by stage.", waits)
    times = {stage: (use.served_s, use.grants) for stage, use in totals}
    yield _summary("weft_stage_seconds", "Turns of woven jobs, by stage.", times)


def _summary(name: str, about: str, by_stage: Mapping[str, tuple[float, int]]) -> Metric:
    metric = Metric(name, about, "summary")
    for stage, (total, count) in by_stage.items():
        metric.add_sample(f"{name}_sum", {"stage": stage}, total)
        metric.add_sample(f"{name}_count", {"stage": stage}, count)
    return metric


def _gauge(name: str, about: str, samples: Iterable[Sample]) -> Metric:
    metric = Metric(name, about, "gauge")
    for labels, value in samples:
        metric.add_sample(name, labels, value)
    return metric
