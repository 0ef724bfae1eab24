"""What a scheduler counts of itself, and all of it as Prometheus reads it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import grpc.aio

from weft.core.job import JobState

if TYPE_CHECKING:
    from weft.server.cluster import Cluster
    from weft.server.running import Running

BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
Labels = Mapping[str, str]
Sample = tuple[Labels, float]


class Histogram:
    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.sum += seconds

    def lines(self, name: str) -> Iterator[str]:
        total = 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self.sum:.6f}"
        yield f"{name}_count {total}"


class Counters:
    def __init__(self) -> None:
        self.deciding, self.committing = Histogram(), Histogram()
        self.calls: Counter[str] = Counter()

    def stepped(self, deciding_s: float, committing_s: float) -> None:
        """The loop has taken a turn in which something happened."""
        self.deciding.add(deciding_s)
        self.committing.add(committing_s)

    def interceptor(self) -> grpc.aio.ServerInterceptor:
        return _Counting(self)


class _Counting(grpc.aio.ServerInterceptor):
    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        found = await continuation(details)
        if found is not None:  # or whoever invents names would fill the memory
            self._counters.calls[details.method] += 1
        return found


def exposition(running: Running, cluster: Cluster, counters: Counters) -> str:
    """In the text format of Prometheus, version 0.0.4."""
    lines: list[str] = []
    for name, kind, about, samples in _gauges(running, cluster, counters):
        lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
        lines += [f"{name}{_labels(labels)} {value:g}" for labels, value in samples]
    for name, about, histogram in (
        ("weft_decision_seconds", "What deciding took, for each turn of the loop.", counters.deciding),
        ("weft_journal_commit_seconds", "What writing a turn's facts to disk took.", counters.committing),
    ):
        lines += [f"# HELP {name} {about}", f"# TYPE {name} histogram", *histogram.lines(name)]
    return "\n".join(lines) + "\n"


def _gauges(running: Running, cluster: Cluster, counters: Counters) -> Iterator[tuple[str, str, str, Iterable[Sample]]]:
    state, journal = running.scheduler.state, running.journal
    statuses, outcomes = Counter[str](), Counter[str]()
    for job in state.jobs.values():
        (outcomes if job.ended_at is not None else statuses)[job.status] += 1
    yield "weft_jobs", "gauge", "Jobs that have not ended, by state.", [
        ({"state": each}, statuses[each])
        for each in ("blocked", "held", "waiting", "starting", "running", "stopping")
    ]  # fmt: skip
    yield (
        "weft_jobs_ended",
        "gauge",
        "Jobs that have ended and are not forgotten, by outcome.",
        [({"outcome": each}, outcomes[each]) for each in ("done", "failed", "cancelled")],
    )
    yield from _gpus(running)
    agents = Counter(each["state"] for each in cluster.nodes().values())
    yield (
        "weft_agents",
        "gauge",
        "Nodes that count, by the state of their agent.",
        [({"state": each}, agents[each]) for each in ("connected", "silent")],
    )
    yield "weft_paused", "gauge", "1 where nothing new is started.", [({}, bool(state.paused))]
    yield "weft_journal_facts", "counter", "Facts written since the journal was begun.", [({}, len(journal))]
    yield "weft_journal_lag", "gauge", "What has happened and is not yet on disk.", [({}, running.loop.lag)]
    yield (
        "weft_rpc_total",
        "counter",
        "Calls taken, by method.",
        [({"method": method.removeprefix("/weft.v1.")}, count) for method, count in sorted(counters.calls.items())],
    )


def _gpus(running: Running) -> Iterator[tuple[str, str, str, Iterable[Sample]]]:
    rooms = [room for room in running.scheduler.state.floor.rooms if room.alive]
    yield "weft_gpus", "gauge", "GPUs of each node.", [({"node": r.node.id}, len(r.node.gpus)) for r in rooms]
    yield "weft_gpus_busy", "gauge", "GPUs of each node that jobs hold.", [
        ({"node": r.node.id}, sum(any(isinstance(h, JobState) for h in holders) for holders in r.holders))
        for r in rooms
    ]  # fmt: skip
    numbers = running.fleet.numbers
    readings = sorted(running.fleet.readings().items())
    yield "weft_gpu_utilisation", "gauge", "What the driver says of each GPU, in percent.", [
        ({"node": node, "gpu": str(numbers.number(node, gpu))}, reading["utilisation"])
        for (node, gpu), reading in readings if reading["utilisation"] is not None
    ]  # fmt: skip
    yield (
        "weft_gpu_memory_used_bytes",
        "gauge",
        "What the driver says of each GPU.",
        [
            ({"node": node, "gpu": str(numbers.number(node, gpu))}, reading["used_mb"] * (1 << 20))
            for (node, gpu), reading in readings
        ],
    )


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
