"""Invariants of a state, and a state as plain values, to compare two of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from weft.history.metrics.figures import figures, gather
from weft.model import Cancelled, Exited, Fact, JobId, NodeId, NodeLost, Rewoven, Slots, Start, Stop
from weft.model.status import ACTIVE, ENDED
from weft.scheduling.core.resources.shapes import plain_shape
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State

GpuId = tuple[NodeId, int]
PATIENCE = 1e-6
VALUES = (
    "status", "run", "slots", "reserved", "weave", "share", "tie_breaker", "key", "attained_s", "remaining_s", "rate",
    "started_at", "first_start", "ended_at", "waiting_since", "preemptions", "failures", "moves", "releasing",
    "cancelling", "held", "lost", "unmet_dependencies", "exclusive", "measured_mb", "requeues", "delays", "begin_at",
    "code", "why", "over_quota", "over_group_limit", "woven_at", "unwoven", "ready_at", "draining_since", "drained",
    "leaving", "address",
)  # fmt: skip


def gpus_of(slots: Slots) -> list[GpuId]:
    return [(node, gpu) for node, gpus in slots for gpu in gpus]


def seats(facts: Iterable[Fact]) -> dict[JobId, Slots]:
    """The GPUs that each job's latest run was started on."""
    return {fact.job: fact.slots for fact in facts if isinstance(fact, Start)}


def check(state: State, facts: Iterable[Fact] = ()) -> None:
    """Every invariant of a state; with the facts it came from, memory per rank too."""
    began = seats(facts)
    _statuses(state)
    for job in state.active.values():
        _seated(state, job)
    _shares(state, began)
    _node_needs(state)
    _counts(state)


def _statuses(state: State) -> None:
    for job in state.jobs.values():
        assert (job.id in state.active) == (job.status in ACTIVE), job.id
        replica = job.job.replica is not None
        assert (job.id in state.waiting) == (job.status == "waiting" and not replica), job.id
        assert (job.id in state.services.waiting) == (job.status == "waiting" and replica), job.id
        assert (job.id in state.ended) == (job.status in ENDED), job.id
        assert job.status == "blocked" or not job.unmet_dependencies, job.id
        assert job.status != "blocked" or job.begin_at is None or job.begin_at > state.now, job.id
        assert job.releasing == (job.status == "stopping"), job.id
        assert job.status == "blocked" or not (job.over_quota or job.over_group_limit), job.id
        if job.status not in ACTIVE:
            assert (job.slots, job.weave, job.rate) == ((), (), 0.0), f"{job.id} is {job.status} and holds {job.slots}"


def _seated(state: State, job: JobState) -> None:
    """On living nodes, on all its GPUs or on its way out, where it may be."""
    held, where = gpus_of(job.slots), job.job.where
    assert len(set(held)) == len(held), f"{job.id} has a GPU twice: {job.slots}"
    assert len(held) == job.gpus or (job.lost and len(held) < job.gpus), f"{job.id} has {len(held)} of {job.gpus} GPUs"
    assert not job.lost or job.status == "stopping", f"{job.id} goes on with a part of its gang lost"
    for node_id, gpus in job.slots:
        room = state.resources.by_id[node_id]
        assert room.alive, f"{job.id} is on {node_id}, which is gone"
        assert set(where.labels) <= set(room.node.labels)
        assert not where.pinned or set(gpus_of(((node_id, gpus),))) <= set(gpus_of(where.pinned))
        for gpu in gpus:
            assert where.gpu_model in ("", room.node.gpus[gpu].model), f"{job.id} is on the wrong GPU model"


def holders(state: State) -> dict[GpuId, list[JobState]]:
    found: dict[GpuId, list[JobState]] = {
        (room.node.id, gpu): [] for room in state.resources.nodes if room.alive for gpu in range(len(room.node.gpus))
    }
    for job in state.active.values():
        for gpu in gpus_of(job.slots):
            found[gpu].append(job)
    return found


def _shares(state: State, began: dict[JobId, Slots]) -> None:
    """No GPU is over its compute or its memory; a weave is one share. A run that leaves its weave, or takes no more
    turns in it, still counts with it."""
    for (node_id, gpu), jobs in holders(state).items():
        left = [job for job in jobs if job.unwoven or (job.releasing and job.weave)]
        shares = {job.weave or job.id: job.share for job in jobs if job not in left or len(jobs) == 1}
        assert sum(s.request for s in shares.values()) <= 1 + PATIENCE, f"{node_id}:{gpu} is over its share"
        serves = any(job.job.replica is not None for job in jobs)
        host = state.resources.by_id[node_id]
        most = host.service_oversubscription if serves else state.resources.oversubscription
        assert sum(s.limit for s in shares.values()) <= most + PATIENCE
        memory = sum(memory_on(job, (node_id, gpu), began) for job in jobs)
        has = state.resources.by_id[node_id].node.gpus[gpu].memory_mb
        assert memory <= has, f"{node_id}:{gpu} has {has} MB, and {[job.id for job in jobs]} hold {memory}"


def memory_on(job: JobState, gpu: GpuId, began: dict[JobId, Slots]) -> int:
    memory = job.allocation.memory_mb
    return memory.of(gpus_of(began.get(job.id, job.slots)).index(gpu))


def _node_needs(state: State) -> None:
    for room in state.resources.nodes:
        if not room.alive:
            continue
        here = [(job.job, len(g) or 1) for job in state.active.values() for n, g in job.slots if n == room.node.id]
        assert not room.node.cpus or sum(job.cpus * units for job, units in here) <= room.node.cpus
        assert not room.node.ram_mb or sum(job.ram_mb * units for job, units in here) <= room.node.ram_mb


def _counts(state: State) -> None:
    """Check that the index of free GPUs agrees with the jobs' slots."""
    found = holders(state)
    assert state.gpus == len(found)
    idle, soon = (state.resources.free_for(plain_shape(1), after_release=soon).count for soon in (False, True))
    for room in state.resources.nodes:
        taken = {gpu for (node, gpu, _), by in state.occupants.items() if node == room.node.id and by.memory_mb is None}
        closed = any(node == room.node.id for node, _ in state.closed)
        taken |= set(range(len(room.node.gpus))) if closed else set()
        assert bool(room.closures) == (closed and room.alive), f"{room.node.id} is open or closed"
        usable = set(range(len(room.node.gpus))) - taken if room.alive else ()
        on = [found[room.node.id, gpu] for gpu in usable]
        assert idle[room.index] == sum(not jobs for jobs in on), f"idle GPUs of {room.node.id}"
        assert soon[room.index] == sum(all(job.releasing for job in jobs) for jobs in on), (
            f"GPUs of {room.node.id} soon"
        )


def snapshot(state: State) -> dict[str, Any]:
    """All that a state says, as plain values."""
    alive = {room.node.id: room.node for room in state.resources.nodes if room.alive}
    idle, soon = (state.resources.free_for(plain_shape(1), after_release=soon).count for soon in (False, True))
    return {
        "now": state.now,
        "nodes": alive,
        "gpus": state.gpus,
        "active": list(state.active),
        "waiting": list(state.waiting),
        "ended": list(state.ended),
        "services": {
            name: (each.service, each.wanted, each.undeployed, each.next_index, each.moved_at, list(each.replicas))
            for name, each in state.services.by_name.items()
        },
        "waiting replicas": sorted(state.services.waiting),
        "paused": state.paused,
        "occupants": {key: by.memory_mb for key, by in state.occupants.items()},
        "closed": {key: closure.detail for key, closure in state.closed.items()},
        "cleared": dict(state.cleared),
        "limits": dict(state.eligibility.limits),
        "groups": dict(state.eligibility.groups.settings),
        "idle": list(idle),
        "soon": list(soon),
        "jobs": {job.id: {name: getattr(job, name) for name in VALUES} for job in state.jobs.values()},
    }


def check_tally(state: State, facts: Iterable[Fact]) -> None:
    """Check that the figures of a journal agree with those of the state, and with the journal itself."""
    facts = list(facts)
    record = gather(facts)
    preempted = _preemptions(facts)
    jobs = [job for job in state.jobs.values() if job.job.replica is None]  # figures are of jobs that end
    assert [job.id for job in record.jobs] == [job.id for job in jobs]
    for job in record.jobs:
        known = state.jobs[job.id]
        status = "running" if known.status in ACTIVE else known.status
        assert (job.status, job.runs, job.end) == (status, known.run, known.ended_at), job.id
        assert (job.submit, job.first_start) == (known.submitted_at, known.first_start), job.id
        assert job.preemptions == preempted.get(job.id, 0) == known.preemptions, job.id
        spent_s = job.queue_s + known.attained(state.now)
        ended_at = state.now if job.end is None else job.end
        assert spent_s <= ended_at - job.submit + PATIENCE, "the rest it was held by its user"
    counts = Counter(job.status for job in record.jobs)
    found = figures(record)
    assert (found.jobs, found.finished, found.failed) == (len(jobs), counts["done"], counts["failed"])
    assert found.unfinished == sum(job.status not in ENDED for job in jobs)
    assert (record.rows[-1][2], record.rows[-1][3], record.rows[-1][4]) == (
        *(state.gpus, len(state.waiting), len(state.active)),
    )


def _preemptions(facts: Iterable[Fact]) -> Counter[JobId]:
    """Return for each job the runs that were preempted and then left."""
    told: dict[JobId, Stop] = {}
    running: dict[JobId, int] = {}
    cancelled: set[JobId] = set()
    slots: dict[JobId, Slots] = {}
    preempted: Counter[JobId] = Counter()
    for fact in facts:
        if isinstance(fact, Start):
            running[fact.job], slots[fact.job] = fact.run, fact.slots
            told.pop(fact.job, None)
        elif isinstance(fact, Stop) and running.get(fact.job) == fact.run:
            told.setdefault(fact.job, fact)
        elif isinstance(fact, Cancelled):
            cancelled.add(fact.job)
        elif isinstance(fact, NodeLost):
            slots = {job: tuple(part for part in held if part[0] != fact.node) for job, held in slots.items()}
            running = {job: run for job, run in running.items() if slots[job]}
        elif isinstance(fact, Exited) and running.get(fact.job) == fact.run:
            del running[fact.job]
            if fact.how in ("stopped", "requeued") and fact.job not in cancelled:
                stop = told.get(fact.job)
                preempted[fact.job] += stop is not None and stop.why == "preempted"
    return preempted


def double_booked(facts: Iterable[Fact]) -> Iterator[str]:
    """Walks a journal and tells of every GPU given to more than it can carry."""
    on: dict[GpuId, dict[JobId, Start]] = {}
    for fact in facts:
        if isinstance(fact, Start):
            for gpu in gpus_of(fact.slots):
                on.setdefault(gpu, {})[fact.job] = fact
                shares = {start.weave or start.job: start.share for start in on[gpu].values()}
                if sum(share.request for share in shares.values()) > 1 + PATIENCE:
                    yield f"{fact.at}: {gpu} carries {list(on[gpu])}"
        elif isinstance(fact, Rewoven):
            for jobs in on.values():
                if fact.job in jobs and jobs[fact.job].run == fact.run:
                    jobs[fact.job] = replace(jobs[fact.job], weave=fact.weave)
        elif isinstance(fact, Exited):
            for jobs in on.values():
                if fact.job in jobs and jobs[fact.job].run == fact.run:
                    del jobs[fact.job]
        elif isinstance(fact, NodeLost):
            on = {gpu: jobs for gpu, jobs in on.items() if gpu[0] != fact.node}
