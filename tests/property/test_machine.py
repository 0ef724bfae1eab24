"""Anything may happen in any order: the state stays sound, a restart changes nothing, no instant goes on for ever, and
what is counted of the journal is what the state says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from support.builders import Rig, node
from support.state_checks import check, check_tally, snapshot
from weft.model import (
    ANYWHERE,
    Alarm,
    BatchLimited,
    Blocked,
    Cancelled,
    Cordoned,
    Decision,
    Deployed,
    Edited,
    Event,
    Exited,
    GroupLimited,
    Held,
    Job,
    Limited,
    Measured,
    NodeJoined,
    NodeLost,
    Paused,
    PerRank,
    Profile,
    Profiled,
    Progressed,
    Purged,
    Ready,
    Released,
    ReplicaDrained,
    Resumed,
    ScaleRule,
    Service,
    Share,
    Start,
    Started,
    Stop,
    Submitted,
    Task,
    Unblocked,
    Uncordoned,
    Undeployed,
    Unready,
    Unwoven,
    Where,
)
from weft.model.profiles import key_of
from weft.scheduling.core.ports import Policy, Replanner
from weft.scheduling.core.queue.protection import Protection
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.apply.snapshots import snapshot as compact
from weft.scheduling.plugins import registry

NODES = (
    node("big", 8, model="A", memory_mb=80, cpus=32, ram_mb=512),
    node("small", 4, model="B", memory_mb=40),
    node("odd", 3, model="A", memory_mb=40, cpus=6),
)
PROFILES = (None, Profile("x", 1.0, 0.6, 0.2, 0.2), Profile("y", 1.0, 0.1, 0.8, 0.1))
POLICIES = sorted(registry.registered_plugins("weft.policies"))
KEYED = [name for name in POLICIES if not isinstance(registry.load_policy(name), Replanner)]
FORGETFUL = [name for name in KEYED if type(registry.load_policy(name)).key_from is Policy.key_from]
"""A snapshot does not have what others remember."""
EXAMPLES, SOAK_EXAMPLES = 12, 300

USERS = ("u", "v")
GROUPS = (None, Task(group="g"), Task(group="h"))
which = st.integers(0, 1000)
memory = st.one_of(st.just(0), st.sampled_from([10, 30, 50]))
shares = st.sampled_from([Share(), Share(), Share(0.5, 0.5), Share(1 / 3, 1 / 3), Share(0.5, 1.0)])
places = st.sampled_from([ANYWHERE, ANYWHERE, ANYWHERE, Where(gpu_model="A"), Where(gpu_model="B")])


class Anything(RuleBasedStateMachine):
    """One scheduler, to which anything may happen."""

    def __init__(self, rig: Rig) -> None:
        super().__init__()
        self.rig, self.tell = rig, rig.tell
        self.submitted = 0

    def pick(self, index: int) -> str | None:
        jobs = list(self.rig.state.jobs)
        return jobs[index % len(jobs)] if jobs else None

    # ---- what may happen

    @initialize()
    def nodes_join(self) -> None:
        self.tell(*(NodeJoined(0.0, each) for each in NODES))

    @rule(gpus=st.integers(0, 12), memory_mb=memory, share=shares, where=places, cpus=st.sampled_from([0, 0, 2]),
          length=st.one_of(st.none(), st.integers(1, 100)), profile=st.sampled_from(PROFILES),
          retries=st.integers(0, 1), opportunistic=st.booleans())  # fmt: skip
    def submit(
        self, gpus: int, memory_mb: int, share: Share, where: Where, cpus: int, length: int | None,
        profile: Profile | None, retries: int, opportunistic: bool,
    ) -> None:  # fmt: skip
        self.submitted += 1
        job = Job(f"j{self.submitted}", gpus, user=USERS[self.submitted % 2], memory_mb=PerRank(memory_mb),
                  cpus=cpus, share=share, where=where, declared_s=length, profile=profile, retries=retries,
                  opportunistic=opportunistic, task=GROUPS[self.submitted % 3])  # fmt: skip
        self.tell(Submitted(self.rig.now, job))

    @rule(gpus=st.integers(1, 12), data=st.data())
    def submit_with_memory_per_rank(self, gpus: int, data: st.DataObject) -> None:
        self.submitted += 1
        ranks = PerRank(*data.draw(st.lists(st.sampled_from([5, 30, 70]), min_size=gpus, max_size=gpus)))
        self.tell(Submitted(self.rig.now, Job(f"j{self.submitted}", gpus, memory_mb=ranks, declared_s=10.0)))

    @rule(gpus=st.integers(0, 4), first=which, second=which, limit=st.integers(0, 2), retries=st.integers(0, 1))
    def submit_after(self, gpus: int, first: int, second: int, limit: int, retries: int) -> None:
        """After others, or as one of a batch."""
        self.submitted += 1
        after = {name for name in (self.pick(first), self.pick(second)) if name is not None}
        job = Job(f"j{self.submitted}", gpus, after=tuple(sorted(after)), batch="b", batch_limit=limit, retries=retries)
        self.tell(Submitted(self.rig.now, job))

    @rule(gpus=st.integers(0, 4), first=which, second=which, batch=st.booleans())
    def submit_after_an_end(self, gpus: int, first: int, second: int, batch: bool) -> None:
        self.submitted += 1
        ended = {name for name in (self.pick(first), "b" if batch else None) if name is not None}
        failed = {name for name in (self.pick(second),) if name is not None and name not in ended}
        job = Job(f"j{self.submitted}", gpus, after_any=tuple(sorted(ended)), after_failed=tuple(failed))
        self.tell(Submitted(self.rig.now, job))

    @rule(gpus=st.integers(0, 4), first=which, limit=st.integers(0, 1))
    def submit_after_batch(self, gpus: int, first: int, limit: int) -> None:
        self.submitted += 1
        after = tuple(name for name in ("b", self.pick(first)) if name is not None)
        self.tell(Submitted(self.rig.now, Job(f"j{self.submitted}", gpus, after=after, batch="c", batch_limit=limit)))

    @rule(index=which, gpus=st.integers(0, 9), priority=st.integers(0, 3))
    def edit(self, index: int, gpus: int, priority: int) -> None:
        if (name := self.pick(index)) is not None:
            job = self.rig.job(name).job
            self.tell(
                Edited(self.rig.now, replace(job, gpus=gpus, memory_mb=PerRank(0), priority=priority, where=ANYWHERE))
            )

    @rule(index=which)
    def forget(self, index: int) -> None:
        """Purge a job, except where the journal is counted."""
        if (job := self.pick(index)) is not None and not isinstance(self, Counted):
            self.tell(Purged(self.rig.now, (job,)))

    @rule(what=st.sampled_from([Paused, Resumed, Resumed]))
    def pause(self, what: Callable[[float], Event]) -> None:
        self.tell(what(self.rig.now))

    @rule(index=st.integers(0, 2), gpu=st.integers(0, 8), why=st.sampled_from(["DirtyGpu", "Drained"]),
          memory_mb=st.sampled_from([None, 10]), ends=st.booleans())  # fmt: skip
    def block(self, index: int, gpu: int, why: str, memory_mb: int | None, ends: bool) -> None:
        node = NODES[index].id
        free = Unblocked(self.rig.now, node, gpu, why)
        self.tell(free if ends else Blocked(self.rig.now, node, gpu, why, memory_mb))

    @rule(index=st.integers(0, 2), why=st.sampled_from(["Drained", "ReqNodeNotAvail"]), ends=st.booleans())
    def close(self, index: int, why: str, ends: bool) -> None:
        node, now = NODES[index].id, self.rig.now
        before = {job.id for job in self.rig.state.active.values()}
        self.tell(Uncordoned(now, node, why) if ends else Cordoned(now, node, why, "told to"))
        if not ends:
            new = [job for job in self.rig.state.active.values() if job.id not in before]
            assert not any(place == node for job in new for place, _ in job.slots), "started on a closed node"

    @rule(user=st.sampled_from(["", "u"]), gpus=st.sampled_from([None, 2, 6]))
    def limit(self, user: str, gpus: int | None) -> None:
        self.tell(Limited(self.rig.now, user, gpus))

    @rule(
        group=st.sampled_from(["", "g"]),
        jobs=st.sampled_from([None, 1, 3]),
        paused=st.sampled_from([False, False, True]),
    )
    def limit_group(self, group: str, jobs: int | None, paused: bool) -> None:
        self.tell(GroupLimited(self.rig.now, group, jobs, paused))

    @rule(batch=st.sampled_from(["b", "c"]), limit=st.integers(0, 3))
    def limit_batch(self, batch: str, limit: int) -> None:
        self.tell(BatchLimited(self.rig.now, batch, limit))

    @rule(index=which, memory_mb=st.sampled_from([1, 5, 10]))
    def measured(self, index: int, memory_mb: int) -> None:
        if (job := self.pick(index)) is not None:
            asked = self.rig.job(job).job.memory_mb
            least = min(asked) if isinstance(asked, tuple) else asked
            self.tell(Measured(self.rig.now, job, self.rig.job(job).run, min(memory_mb, least)))

    @rule(index=which, how=st.sampled_from(["done", "failed", "stopped", "lost", "requeued"]),
          stale=st.sampled_from([0, 0, 0, 1]), why=st.sampled_from(["", "", "oom", "timeout"]),
          delay_s=st.sampled_from([0.0, 0.0, 3.0, 1000.0]))  # fmt: skip
    def exit(self, index: int, how: str, stale: int, why: str, delay_s: float) -> None:
        """A run ends, as it may at any time; or news of an old run comes late."""
        if (job := self.pick(index)) is not None:
            run = self.rig.job(job).run - stale
            before = snapshot(self.rig.state)["jobs"][job]
            self.tell(Exited(self.rig.now, job, run, how, why=why, delay_s=delay_s))  # type: ignore[arg-type]
            if stale:
                assert self.rig.job(job).run >= before["run"]

    @rule(index=which)
    def started(self, index: int) -> None:
        if (job := self.pick(index)) is not None:
            self.tell(Started(self.rig.now, job, self.rig.job(job).run))

    @rule(index=which, left=st.integers(0, 50), rate=st.sampled_from([0.5, 1.0]))
    def progressed(self, index: int, left: int, rate: float) -> None:
        if (job := self.pick(index)) is not None:
            self.tell(Progressed(self.rig.now, job, self.rig.job(job).run, float(left), rate))

    @rule(index=which, why=st.sampled_from(["hangs", "silent"]))
    def unwoven(self, index: int, why: str) -> None:
        """A run does not keep to its turns, and what watches it says so."""
        if (job := self.pick(index)) is not None and self.rig.job(job).weave:
            self.tell(Unwoven(self.rig.now, job, self.rig.job(job).run, why))

    @rule(profile=st.sampled_from(PROFILES[1:]), gpus=st.integers(1, 4), model=st.sampled_from(["", "A"]))
    def profiled(self, profile: Profile | None, gpus: int, model: str) -> None:
        """The jobs without a profile were measured: they have one command and no params."""
        assert profile is not None
        self.tell(Profiled(self.rig.now, key_of(Job("")), gpus, model, profile, "run"))

    @rule(name=st.sampled_from(["chat", "images"]), gpus=st.integers(0, 3), share=shares, version=st.integers(1, 3),
          least=st.integers(0, 2), memory_mb=memory)  # fmt: skip
    def deploy(self, name: str, gpus: int, share: Share, version: int, least: int, memory_mb: int) -> None:
        template = Job("", gpus, user="u", share=share, memory_mb=PerRank(memory_mb))
        scale = ScaleRule(min_replicas=least, max_replicas=least + 2)
        self.tell(Deployed(self.rig.now, Service(name, template, scale, version=version)))

    @rule(name=st.sampled_from(["chat", "images"]))
    def undeploy(self, name: str) -> None:
        self.tell(Undeployed(self.rig.now, name))

    @rule(index=which, replicas=st.integers(0, 4))
    def resize(self, index: int, replicas: int) -> None:
        if names := list(self.rig.state.services.by_name):
            self.rig.resize(names[index % len(names)], replicas)

    @rule(index=which, what=st.sampled_from([Ready, Ready, Ready, Unready, ReplicaDrained, ReplicaDrained]))
    def replica(self, index: int, what: Callable[[float, str, int], Event]) -> None:
        replicas = [job for job in self.rig.state.active.values() if job.job.replica is not None]
        if replicas:
            job = replicas[index % len(replicas)]
            self.tell(what(self.rig.now, job.id, job.run))

    @rule(index=which, what=st.sampled_from([Cancelled, Held, Released, Released]))
    def user(self, index: int, what: Callable[[float, str], Event]) -> None:
        if (job := self.pick(index)) is not None:
            self.tell(what(self.rig.now, job))

    @rule(index=st.integers(0, 2))
    def node_lost(self, index: int) -> None:
        self.tell(NodeLost(self.rig.now, NODES[index].id))

    @rule(index=st.integers(0, 2))
    def node_joined(self, index: int) -> None:
        self.tell(NodeJoined(self.rig.now, NODES[index]))

    @rule(seconds=st.integers(1, 5000))
    def time_passes(self, seconds: int) -> None:
        self.rig.later(float(seconds))

    @rule()
    def all_do_as_told(self) -> None:
        self.rig.settle()

    # ---- what must hold

    @invariant()
    def sound(self) -> None:
        check(self.rig.state, self.rig.facts)

    @invariant()
    def replicas_are_not_preempted(self) -> None:
        replicas = {job.id for job in self.rig.state.jobs.values() if job.job.replica is not None}
        wrong = [f for f in self.rig.facts if isinstance(f, Stop) and f.why == "preempted" and f.job in replicas]
        assert wrong == []

    @invariant()
    def services_have_no_more_replicas_than_wanted(self) -> None:
        for service in self.rig.state.services.by_name.values():
            current = [replica for replica in service.staying() if service.is_current(replica)]
            assert len(current) <= service.wanted, service.service.name

    @invariant()
    def runs_are_counted(self) -> None:
        runs: dict[str, int] = {}
        for fact in self.rig.facts:
            if isinstance(fact, Start):
                assert fact.run == runs.get(fact.job, 0) + 1
                runs[fact.job] = fact.run


class Counted(Anything):
    """At the end, what is counted of the journal is what the state says."""

    def teardown(self) -> None:
        check_tally(self.rig.state, self.rig.facts)


class Protected(Rig):
    """No run is preempted or moved before it has lasted long enough."""

    def tell(self, *events: Event) -> list[Decision]:
        decisions = super().tell(*events)
        for decision in decisions:
            if isinstance(decision, Stop) and decision.why == "preempted":
                assert self.now - self.job(decision.job).started_at >= 300, decision
        return decisions


class Restarted(Rig):
    """With a second scheduler that is restored from the journal before every step."""

    def tell(self, *events: Event) -> list[Decision]:
        twin = self.fresh()
        twin.replay(self.facts)
        assert snapshot(twin.state) == snapshot(self.state)
        decisions = super().tell(*events)
        assert list(twin.step(*events)) == decisions
        return decisions


class Compacted(Rig):
    """With a second scheduler that is restored from a snapshot before every step."""

    def tell(self, *events: Event) -> list[Decision]:
        twin = self.fresh()
        twin.replay([*compact(self.state), Alarm(self.state.now, self.scheduler.alarm)])
        settled = not self.state.stepped
        assert snapshot(twin.state) == snapshot(self.state)
        decisions = super().tell(*events)
        if settled:
            assert list(twin.step(*events)) == decisions
            assert snapshot(twin.state) == snapshot(self.state)
        return decisions


class Shortened(Rig):
    """Its journal is made shorter before every step, and it starts again from that."""

    def tell(self, *events: Event) -> list[Decision]:
        if not self.state.stepped:
            again = self.fresh()
            again.replay([*compact(self.state), Alarm(self.state.now, self.alarm)])
            assert snapshot(again.state) == snapshot(self.state)
            self.scheduler = again
        return super().tell(*events)


class Doubled(Rig):
    """With a second scheduler that sorts everything again at each step."""

    def __init__(self, policy: str) -> None:
        self.twin = Scheduler(
            registry.load_policy(policy), registry.load_placement("packed"), resort=True, interval_s=0.0
        )
        super().__init__(policy)

    def tell(self, *events: Event) -> list[Decision]:
        decisions = super().tell(*events)
        assert list(self.twin.step(*events)) == decisions
        return decisions

    def resize(self, service: str, replicas: int) -> list[Decision]:
        decisions = super().resize(service, replicas)
        assert list(self.twin.resize(self.now, service, replicas)) == decisions
        return decisions


def run(make: Callable[[], Rig], machine: type[Anything] = Anything, examples: int = EXAMPLES) -> None:
    budget = settings(
        max_examples=examples,
        stateful_step_count=30,
        derandomize=True,
        phases=(Phase.generate,),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(lambda: machine(make()), settings=budget)  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_state_stays_sound(policy: str) -> None:
    run(lambda: Rig(policy), Counted)


def test_protected_runs_are_rewoven_but_not_stopped() -> None:
    run(lambda: Protected("muri-l", protection=Protection(min_run_s=300.0)), Counted)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_restart_changes_nothing(policy: str) -> None:
    run(lambda: Restarted(policy))


@pytest.mark.parametrize("policy", FORGETFUL)
def test_a_snapshot_changes_nothing(policy: str) -> None:
    run(lambda: Compacted(policy))


@pytest.mark.parametrize("policy", [name for name in POLICIES if name not in FORGETFUL])
def test_whoever_remembers_goes_on_from_a_snapshot(policy: str) -> None:
    """With less to go by, but soundly."""
    run(lambda: Shortened(policy))


@pytest.mark.parametrize("policy", KEYED)
def test_sorting_anew_changes_nothing(policy: str) -> None:
    run(lambda: Doubled(policy))


@pytest.mark.soak
@pytest.mark.parametrize("policy", POLICIES)
def test_more_examples_change_nothing(policy: str) -> None:
    run(lambda: Rig(policy), Counted, SOAK_EXAMPLES)
    run(lambda: Restarted(policy), examples=SOAK_EXAMPLES)
    run(lambda: (Compacted if policy in FORGETFUL else Shortened)(policy), examples=SOAK_EXAMPLES)
    if policy in KEYED:
        run(lambda: Doubled(policy), examples=SOAK_EXAMPLES)
