"""What must hold of a state whatever happened, and a state as plain values, to compare two of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from weft.core.job import ACTIVE, ENDED, JobState
from weft.core.shapes import plain_shape
from weft.core.state import State
from weft.model import Exited, Fact, JobId, NodeId, NodeLost, Slots, Start

GpuId = tuple[NodeId, int]
PATIENCE = 1e-6
VALUES = (
    "status", "run", "slots", "reserved", "weave", "share", "stamp", "key", "attained_s", "remaining_s", "rate",
    "started_at", "first_start", "ended_at", "waiting_since", "preemptions", "failures", "moves", "leaving",
    "cancelling", "holding", "lost",
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
        assert (job.id in state.waiting) == (job.status == "waiting"), job.id
        assert (job.id in state.ended) == (job.status in ENDED), job.id
        assert job.leaving == (job.status == "stopping"), job.id
        if job.status not in ACTIVE:
            assert (job.slots, job.weave, job.rate) == ((), (), 0.0), f"{job.id} is {job.status} and holds {job.slots}"


def _seated(state: State, job: JobState) -> None:
    """On living nodes, on all its GPUs or on its way out, where it may be."""
    held, where = gpus_of(job.slots), job.job.where
    assert len(set(held)) == len(held), f"{job.id} has a GPU twice: {job.slots}"
    assert len(held) == job.gpus or (job.lost and len(held) < job.gpus), f"{job.id} has {len(held)} of {job.gpus} GPUs"
    assert not job.lost or job.status == "stopping", f"{job.id} goes on with a part of its gang lost"
    for node_id, gpus in job.slots:
        room = state.floor.by_id[node_id]
        assert room.alive, f"{job.id} is on {node_id}, which is gone"
        assert set(where.labels) <= set(room.node.labels)
        assert not where.pinned or set(gpus_of(((node_id, gpus),))) <= set(gpus_of(where.pinned))
        for gpu in gpus:
            assert where.gpu_model in ("", room.node.gpus[gpu].model), f"{job.id} is on the wrong GPU model"


def holders(state: State) -> dict[GpuId, list[JobState]]:
    found: dict[GpuId, list[JobState]] = {
        (room.node.id, gpu): [] for room in state.floor.rooms if room.alive for gpu in range(len(room.node.gpus))
    }
    for job in state.active.values():
        for gpu in gpus_of(job.slots):
            found[gpu].append(job)
    return found


def _shares(state: State, began: dict[JobId, Slots]) -> None:
    """No GPU is over its compute or its memory; a weave is one share."""
    for (node_id, gpu), jobs in holders(state).items():
        shares = {job.weave or job.id: job.share for job in jobs}
        assert sum(s.request for s in shares.values()) <= 1 + PATIENCE, f"{node_id}:{gpu} is over its share"
        assert sum(s.limit for s in shares.values()) <= state.floor.oversubscription + PATIENCE
        memory = sum(memory_on(job, (node_id, gpu), began) for job in jobs)
        has = state.floor.by_id[node_id].node.gpus[gpu].memory_mb
        assert memory <= has, f"{node_id}:{gpu} has {has} MB, and {[job.id for job in jobs]} hold {memory}"


def memory_on(job: JobState, gpu: GpuId, began: dict[JobId, Slots]) -> int:
    memory = job.job.memory_mb
    return memory[gpus_of(began.get(job.id, job.slots)).index(gpu)] if isinstance(memory, tuple) else memory


def _node_needs(state: State) -> None:
    for room in state.floor.rooms:
        if not room.alive:
            continue
        here = [(job.job, len(g) or 1) for job in state.active.values() for n, g in job.slots if n == room.node.id]
        assert not room.node.cpus or sum(job.cpus * units for job, units in here) <= room.node.cpus
        assert not room.node.ram_mb or sum(job.ram_mb * units for job, units in here) <= room.node.ram_mb


def _counts(state: State) -> None:
    """What the index of free GPUs says is what the jobs' slots say."""
    found = holders(state)
    assert state.gpus == len(found)
    idle, soon = (state.floor.free_for(plain_shape(1), soon=soon).count for soon in (False, True))
    for room in state.floor.rooms:
        on = [found[room.node.id, gpu] for gpu in range(len(room.node.gpus))] if room.alive else []
        assert idle[room.index] == sum(not jobs for jobs in on), f"idle GPUs of {room.node.id}"
        assert soon[room.index] == sum(all(job.leaving for job in jobs) for jobs in on), f"GPUs of {room.node.id} soon"


def snapshot(state: State) -> dict[str, Any]:
    """All that a state says, as plain values."""
    alive = {room.node.id: room.node for room in state.floor.rooms if room.alive}
    idle, soon = (state.floor.free_for(plain_shape(1), soon=soon).count for soon in (False, True))
    return {
        "now": state.now,
        "nodes": alive,
        "gpus": state.gpus,
        "active": list(state.active),
        "waiting": list(state.waiting),
        "ended": list(state.ended),
        "idle": list(idle),
        "soon": list(soon),
        "jobs": {job.id: {name: getattr(job, name) for name in VALUES} for job in state.jobs.values()},
    }


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
        elif isinstance(fact, Exited):
            for jobs in on.values():
                if fact.job in jobs and jobs[fact.job].run == fact.run:
                    del jobs[fact.job]
        elif isinstance(fact, NodeLost):
            on = {gpu: jobs for gpu, jobs in on.items() if gpu[0] != fact.node}
