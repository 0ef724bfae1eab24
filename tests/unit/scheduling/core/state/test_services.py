"""Services: replicas come before training, follow what is wanted, and are replaced without a gap."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.builders import Rig, grid, node, part, starts, stops
from support.state_checks import check, snapshot
from weft.errors import UnknownName
from weft.model import (
    Cancelled,
    Cordoned,
    Decision,
    Deployed,
    DrainReplica,
    Evicted,
    Exited,
    Fact,
    Job,
    NodeLost,
    PerRank,
    Ready,
    ReplicaDrained,
    RolledBack,
    ScaleRule,
    Service,
    Share,
    Timeouts,
    Uncordoned,
    Undeployed,
    Unready,
    Wake,
)
from weft.model.status import Reason
from weft.scheduling.core.explain import explain
from weft.scheduling.core.explain_services import explain_service
from weft.scheduling.core.queue.protection import Protection
from weft.scheduling.core.state.apply.snapshots import snapshot as summed_up
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.services import ServiceState
from weft.scheduling.core.state.state import State


def chat(replicas: int = 2, version: int = 1, **template: object) -> Service:
    scale = ScaleRule(min_replicas=replicas, max_replicas=8)
    return Service("chat", Job("chat", **template), scale, version=version, timeouts=Timeouts(drain_s=30.0))  # type: ignore[arg-type]


class Serving(Rig):
    """A rig with words for services."""

    def deploy(self, service: Service) -> list[Decision]:
        return self.tell(Deployed(self.now, service))

    def ready(self, *replicas: str) -> list[Decision]:
        self.settle()
        return self.tell(*(Ready(self.now, each, self.job(each).run) for each in replicas))

    def drained(self, replica: str) -> list[Decision]:
        return self.tell(ReplicaDrained(self.now, replica, self.job(replica).run))

    @property
    def chat(self) -> ServiceState:
        return self.state.services.by_name["chat"]

    def active_replicas(self) -> list[JobState]:
        self.settle()
        return [each for each in self.chat.replicas.values() if each.active]

    @property
    def serving(self) -> list[str]:
        return [each.id for each in self.state.services.by_name["chat"].ready()]


def summed_up_again(rig: Rig) -> list[Fact]:
    """Return the snapshot of a state that was restored from the snapshot."""
    state = State()
    for fact in summed_up(rig.state):
        state.apply(fact)
    return list(summed_up(state))


def drains(decisions: list[Decision]) -> list[str]:
    return [d.job for d in decisions if isinstance(d, DrainReplica)]


def ends(decisions: list[Decision]) -> list[str]:
    return [d.job for d in decisions if isinstance(d, Cancelled)]


def test_a_service_gets_its_replicas() -> None:
    rig = Serving("fifo", grid(1, 4))
    assert starts(rig.deploy(chat(2))) == {"chat.0": (("n0", (0,)),), "chat.1": (("n0", (1,)),)}
    replica = rig.job("chat.0").job
    assert (replica.group, replica.name) == ("chat", "0")
    assert replica.replica is not None
    assert (replica.replica.index, replica.replica.version) == (0, 1)
    check(rig.state)


def test_the_same_service_again_changes_nothing() -> None:
    rig = Serving("fifo", grid(1, 4))
    rig.deploy(chat(2))
    assert rig.deploy(chat(2)) == []


def test_replicas_come_before_training_that_waits_longer() -> None:
    rig = Serving("fifo", grid(1, 4))
    rig.submit(Job("first", 4))
    rig.settle()
    rig.submit(Job("second", 4))
    rig.deploy(chat(2))
    assert starts(rig.exit("first")).keys() == {"chat.0", "chat.1"}
    assert rig.job("second").status == "waiting"


def test_a_policy_that_does_not_preempt_leaves_runs_alone() -> None:
    rig = Serving("fifo", grid(1, 2))
    rig.submit(Job("train", 2))
    rig.settle()
    assert stops(rig.deploy(chat(1))) == {}


@pytest.mark.parametrize("policy", ["srsf", "tiresias", "themis", "muri-s", "muri-l"])
def test_a_policy_that_preempts_gives_replicas_the_gpus_of_runs(policy: str) -> None:
    rig = Serving(policy, grid(1, 2))
    rig.submit(Job("train", 2, declared_s=100.0))
    rig.settle()
    assert stops(rig.deploy(chat(1))) == {"train": "preempted"}
    rig.leave("train")
    rig.settle()
    assert rig.active.keys() == {"chat.0"}


@pytest.mark.parametrize("policy", ["srsf", "priority:preempts=on", "tiresias", "themis", "muri-s", "antman"])
def test_replicas_are_not_preempted(policy: str) -> None:
    rig = Serving(policy, grid(1, 2))
    rig.deploy(chat(2))
    rig.ready("chat.0", "chat.1")
    assert stops(rig.submit(Job("urgent", 1, priority=100, declared_s=0.1))) == {}
    rig.later(10_000)
    rig.settle()
    assert rig.active.keys() == {"chat.0", "chat.1"}


def test_gpus_that_are_released_for_a_replica_go_to_no_other_job() -> None:
    rig = Serving("srsf", grid(1, 4))
    rig.submit(Job("long", 4, declared_s=1000.0))
    rig.settle()
    rig.deploy(chat(1, gpus=4))
    assert rig.submit(Job("short", 4, declared_s=1.0)) == []
    assert starts(rig.leave("long")).keys() == {"chat.0"}


def test_replicas_share_a_gpu_by_request_limit_and_memory() -> None:
    rig = Serving("fifo", [node("n0", 2, memory_mb=40_000)])
    service = chat(3, share=Share(0.4, 0.6))
    rig.deploy(service)
    assert [slots for _, slots in rig.active.items()] == [(("n0", (0,)),), (("n0", (0,)),), (("n0", (1,)),)]
    check(rig.state)


def test_training_shares_a_gpu_with_a_service_up_to_one_and_a_half_limits() -> None:
    rig = Serving("fifo", grid(1, 1))
    rig.deploy(chat(1, share=Share(0.3, 0.6)))
    rig.submit(Job("too-much", share=Share(0.5, 1.0)))
    assert rig.job("too-much").status == "waiting"
    rig.cancel("too-much")
    rig.submit(Job("train", share=Share(0.5, 0.9)))
    assert rig.job("train").status == "starting"
    check(rig.state)


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (Job("j", share=Share(0.1, 0.4)), "the limits on a GPU of n0 would add up to 1.6, more than 1.5"),
        (Job("j", share=Share(0.5, 0.5)), "the requests on a GPU of n0 would add up to 1.1, more than 1; the limits"),
        (Job("j", share=Share(0.1, 0.2), memory_mb=PerRank(9_000)), "a GPU of n0 has 7,000 MB free"),
    ],
)
def test_what_a_gpu_lacks_for_a_share_is_named(job: Job, says: str) -> None:
    rig = Serving("fifo", [node("n0", 1, memory_mb=10_000)])
    rig.deploy(chat(4, share=Share(0.2, 0.4), memory_mb=PerRank(1_000)))
    rig.submit(job)
    (reason, *_) = explain(rig.scheduler, "j").reasons
    share = f"{job.share.request:g}/{job.share.limit:g}"
    assert reason.text.startswith(f"needs 1 GPU with a share of {share} on one node; none is free: {says}")
    lines = explain_service(rig.scheduler, "chat").lines()
    assert "free for a share of 0.2/0.4: the limits on a GPU of n0 would add up to 1.6, more than 1.5" in str(lines)


def test_training_without_a_service_shares_without_oversubscription() -> None:
    rig = Serving("fifo", grid(1, 1))
    rig.submit(Job("one", share=Share(0.3, 0.6)), Job("two", share=Share(0.3, 0.6)))
    assert rig.active.keys() == {"one"}


def test_scaling_out_adds_replicas_and_stays_within_bounds() -> None:
    rig = Serving("fifo", grid(2, 8))
    rig.deploy(chat(1))
    assert starts(rig.resize("chat", 3)).keys() == {"chat.1", "chat.2"}
    rig.resize("chat", 100)
    assert rig.state.services.by_name["chat"].wanted == 8
    assert rig.resize("chat", 8) == []


def test_scaling_in_cancels_what_does_not_serve_yet_and_drains_the_newest() -> None:
    rig = Serving("fifo", grid(1, 3))
    rig.deploy(chat(1))
    rig.resize("chat", 4)
    rig.ready("chat.0", "chat.1")
    assert rig.job("chat.3").status == "waiting"
    decisions = rig.resize("chat", 1)
    assert ends(decisions) == ["chat.2", "chat.3"] or ends(decisions) == ["chat.3", "chat.2"]
    assert drains(decisions) == ["chat.1"]
    assert rig.serving == ["chat.0"]
    rig.later(1)
    assert ends(rig.drained("chat.1")) == ["chat.1"]
    rig.settle()
    assert rig.active.keys() == {"chat.0"}
    assert rig.job("chat.1").status == "cancelled"


def test_a_replica_that_does_not_drain_ends_at_its_deadline() -> None:
    rig = Serving("fifo", grid(1, 2))
    rig.deploy(chat(1))
    rig.resize("chat", 2)
    rig.ready("chat.0", "chat.1")
    rig.resize("chat", 1)
    assert ends(rig.later(29)) == []
    assert ends(rig.later(2)) == ["chat.1"]


def test_a_new_version_replaces_replicas_one_after_the_other() -> None:
    rig = Serving("fifo", grid(1, 4))
    rig.deploy(chat(2))
    rig.ready("chat.0", "chat.1")
    assert starts(rig.deploy(chat(2, version=2))).keys() == {"chat.2"}
    assert len(rig.serving) == 2
    assert drains(rig.ready("chat.2")) == ["chat.0"]
    rig.drained("chat.0")
    rig.settle()
    assert rig.active.keys() == {"chat.1", "chat.2", "chat.3"}
    assert drains(rig.ready("chat.3")) == ["chat.1"]
    rig.drained("chat.1")
    rig.settle()
    assert rig.serving == ["chat.2", "chat.3"]


def test_a_new_version_that_never_gets_ready_leaves_the_old_one_serving() -> None:
    rig = Serving("fifo", grid(1, 4))
    rig.deploy(chat(1))
    rig.ready("chat.0")
    rig.deploy(chat(1, version=2))
    for _ in range(5):
        rig.settle()
        rig.exit("chat.1", "failed")
        rig.later(100)
    assert rig.serving == ["chat.0"]


def test_a_replica_that_ends_by_itself_runs_again_after_growing_delays() -> None:
    rig = Serving("fifo", grid(1, 2))
    rig.deploy(chat(1))
    delays = []
    for how in ("failed", "done", "failed"):
        rig.settle()
        rig.tell(Exited(rig.now, "chat.0", rig.job("chat.0").run, how))
        begin_at = rig.job("chat.0").begin_at
        assert begin_at is not None
        delays.append(begin_at - rig.now)
        rig.later(delays[-1])
    assert delays == [1.0, 2.0, 4.0]
    rig.ready("chat.0")
    rig.exit("chat.0", "failed")
    assert rig.job("chat.0").begin_at == rig.now + 1.0


def test_a_replica_that_fails_its_probes_is_stopped_and_runs_again() -> None:
    rig = Serving("fifo", grid(1, 2))
    rig.deploy(chat(1))
    rig.ready("chat.0")
    assert stops(rig.tell(Unready(rig.now, "chat.0", 1, "3 probes failed"))) == {"chat.0": "unready"}
    assert starts(rig.leave("chat.0")) == {"chat.0": (("n0", (0,)),)}


def test_a_lost_node_costs_no_replica() -> None:
    rig = Serving("fifo", grid(2, 1))
    rig.deploy(chat(1))
    rig.ready("chat.0")
    assert starts(rig.lose("n0")) == {"chat.0": (("n1", (0,)),)}


def test_an_evicted_replica_serves_until_its_successor_does() -> None:
    rig = Serving("fifo", grid(2, 1))
    rig.deploy(chat(1))
    rig.ready("chat.0")
    assert starts(rig.tell(Evicted(rig.now, "chat.0", 1))).keys() == {"chat.1"}
    assert rig.serving == ["chat.0"]
    assert drains(rig.ready("chat.1")) == ["chat.0"]


def test_an_undeployed_service_is_gone_with_its_last_replica() -> None:
    rig = Serving("fifo", grid(1, 2))
    rig.deploy(chat(3))
    rig.ready("chat.0")
    decisions = rig.tell(Undeployed(rig.now, "chat"))
    assert (drains(decisions), sorted(ends(decisions))) == (["chat.0"], ["chat.1", "chat.2"])
    rig.drained("chat.0")
    rig.settle()
    assert rig.state.services.by_name == {}
    assert rig.active == {}
    with pytest.raises(UnknownName):
        rig.scheduler.resize(rig.now, "chat", 1)


def test_a_replay_and_a_snapshot_restore_services() -> None:
    rig = Serving("srsf", grid(1, 4))
    rig.submit(Job("train", 2, declared_s=100.0))
    rig.deploy(chat(2))
    rig.ready("chat.0", "chat.1")
    rig.resize("chat", 4)
    rig.deploy(chat(2, version=2))
    rig.later(1)
    replayed = rig.fresh()
    replayed.replay(rig.facts)
    assert snapshot(replayed.state) == snapshot(rig.state)
    restored = rig.fresh()
    restored.replay(summed_up(rig.state))
    assert snapshot(restored.state) == snapshot(rig.state)
    assert restored.step(Wake(5.0)) == replayed.step(Wake(5.0))


def test_half_a_gpu_of_training_goes_beside_half_a_gpu_of_a_service() -> None:
    rig = Serving("srsf", grid(1, 1))
    rig.submit(Job("train", share=part(2), declared_s=10.0))
    rig.settle()
    assert stops(rig.deploy(chat(1, share=part(2)))) == {}
    assert rig.active.keys() == {"train", "chat.0"}


def test_a_replica_that_a_user_cancels_is_replaced_at_once() -> None:
    """As a scheduler that starts again at that moment would do."""
    rig = Serving("fifo", grid(1, 4))
    rig.deploy(chat(2))
    rig.ready("chat.0", "chat.1")
    again = rig.fresh()
    again.replay(rig.facts)
    cancelled = Cancelled(rig.now, "chat.1")
    decisions = rig.tell(cancelled)
    assert "chat.2" in starts(decisions)
    assert list(again.step(cancelled)) == decisions


def broken(rig: Serving, times: int) -> list[Decision]:
    """Let a replica of the present version fail before it is ready, as often as this."""
    found: list[Decision] = []
    for _ in range(times):
        rig.settle()
        version = rig.state.services.by_name["chat"].service.version
        replicas = list(rig.state.services.by_name["chat"].replicas.values())
        new = next(r for r in replicas if r.job.replica is not None and r.job.replica.version == version and r.active)
        found = rig.tell(Unready(rig.now, new.id, new.run, "/health did not answer"))
        if any(isinstance(each, RolledBack) for each in found):
            return found
        found = rig.tell(Exited(rig.now, new.id, new.run, "stopped"))
        rig.later(1)
    return found


def test_a_version_that_never_gets_ready_is_rolled_back_and_old_replicas_go_on() -> None:
    rig = Serving("fifo", grid(1, 4))
    rig.deploy(chat(2))
    rig.ready("chat.0", "chat.1")
    rig.deploy(chat(2, version=2))
    assert not any(isinstance(each, RolledBack) for each in broken(rig, 2))
    (back,) = [each for each in broken(rig, 1) if isinstance(each, RolledBack)]
    assert (back.service.version, "/health did not answer" in back.why) == (3, True)
    rig.settle()
    service = rig.state.services.by_name["chat"]
    assert rig.serving == ["chat.0", "chat.1"], "replicas that served all the time stay"
    assert "version 2 was rolled back" in service.failing()
    check(rig.state)


def test_a_version_after_one_that_was_never_ready_is_not_rolled_back() -> None:
    rig = Serving("fifo", grid(1, 4))
    rig.deploy(chat(1))
    rig.deploy(chat(1, version=2))
    assert not any(isinstance(each, RolledBack) for each in broken(rig, 5))
    assert "version 2 failed to start 5 times" in rig.state.services.by_name["chat"].failing()


def test_replicas_of_the_version_before_are_current_again_after_a_rollback() -> None:
    rig = Serving("fifo", grid(1, 4))
    rig.deploy(chat(1))
    rig.ready("chat.0")
    rig.deploy(chat(1, version=2, gpus=2))
    decisions = rig.deploy(chat(1, version=3))
    assert ends(decisions) == ["chat.1"]
    assert drains(decisions) == []
    assert rig.serving == ["chat.0"]


def good(rig: Serving) -> int | None:
    """Return the version that a rollback goes to."""
    target = rig.state.services.by_name["chat"].last_good()
    return None if target is None else target.service.version


def test_a_rollback_skips_versions_that_were_never_ready_or_were_rolled_back() -> None:
    rig = Serving("fifo", grid(1, 8))
    for version, user in enumerate("abc", start=1):
        rig.deploy(chat(1, version, user=user))
        rig.ready(next(each.id for each in rig.active_replicas() if each.job.user == user))
    rig.deploy(chat(1, 4, user="broken"))
    assert good(rig) == 3
    rig.tell(Deployed(rig.now, chat(1, 5, user="b"), "ada", rollback=True))
    outcomes = [(each.rollout.ready_at is not None, each.rollout.rolled_back) for each in rig.chat.revisions]
    assert outcomes == [(True, False), (True, False), (True, False), (False, True)]
    assert (rig.chat.rollout.who, rig.chat.rollout.versions, good(rig)) == ("ada", (2,), 3)
    rig.tell(Deployed(rig.now, chat(1, 6, user="a"), rollback=True))
    assert good(rig) == 3, "version 4 was never ready, and a rollback replaced version 5"
    assert summed_up_again(rig) == list(summed_up(rig.state))
    for version in range(7, 27):
        rig.deploy(chat(1, version, user=str(version)))
    assert [each.service.version for each in rig.chat.revisions] == list(range(16, 26))
    assert good(rig) is None


def test_a_version_that_was_rolled_back_must_get_ready_again() -> None:
    rig = Serving("fifo", grid(1, 4))
    rig.deploy(chat(1, user="a"))
    rig.ready("chat.0")
    rig.deploy(chat(1, 2, user="b"))
    rig.ready("chat.1")
    rig.tell(Deployed(rig.now, chat(1, 3, user="a"), rollback=True))
    assert rig.chat.rollout.ready_at == 0.0, "it was ready as version 1"
    rig.deploy(chat(1, 4, user="b"))
    assert rig.chat.rollout.ready_at is None


def test_a_deployment_that_waits_starts_one_replica_of_a_service_that_may_have_none() -> None:
    rig = Serving("fifo", grid(1, 4))
    assert rig.deploy(chat(0)) == []
    assert starts(rig.tell(Deployed(rig.now, chat(0), start=True))).keys() == {"chat.0"}
    assert rig.tell(Deployed(rig.now, chat(0), start=True)) == []


def test_the_reason_of_a_number_goes_with_the_bounds_that_it_was_about() -> None:
    rig = Serving("fifo", grid(1, 4))
    rig.deploy(chat(1))
    rig.scheduler.resize(rig.now, "chat", 3, "a request waits")
    rig.deploy(replace(chat(3), scale=ScaleRule(min_replicas=3, max_replicas=3)))
    assert explain_service(rig.scheduler, "chat").lines()[0].endswith("3 replicas wanted")


def silent(node: str, *, heard: bool = False) -> list[Cordoned | Uncordoned]:
    """Return the events of a node that is silent for longer than the lease of its replicas, or that reports again."""
    whys = (Reason.NODE_SILENT, Reason.NODE_UNREACHABLE)
    return [Uncordoned(0.0, node, why) if heard else Cordoned(0.0, node, why) for why in whys]


def on_two_nodes() -> Serving:
    """A service with two replicas on n0, next to training, and a free node."""
    rig = Serving("fifo", grid(2, 3))
    rig.submit(Job("train", 1))
    rig.deploy(chat(2))
    rig.ready("chat.0", "chat.1")
    assert {slots[0][0] for slots in rig.active.values()} == {"n0"}
    return rig


def test_replicas_of_a_silent_node_get_substitutes_at_once_and_keep_their_gpus() -> None:
    rig = on_two_nodes()
    held = rig.active
    assert starts(rig.tell(*silent("n0"))) == {"chat.2": (("n1", (0,)),), "chat.3": (("n1", (1,)),)}
    assert {job: rig.active[job] for job in held} == held, "no run is stopped, none is doubled"
    assert rig.serving == []
    rig.ready("chat.2", "chat.3")
    assert rig.serving == ["chat.2", "chat.3"]
    assert summed_up_again(rig) == list(summed_up(rig.state))
    assert drains(rig.tell(*silent("n0", heard=True))) == ["chat.2", "chat.3"], "those that were there first stay"
    assert rig.serving == ["chat.0", "chat.1"]
    check(rig.state)


def test_replicas_of_a_lost_node_are_surplus() -> None:
    rig = on_two_nodes()
    rig.tell(*silent("n0"))
    rig.ready("chat.2", "chat.3")
    assert ends(rig.tell(NodeLost(rig.now, "n0"))) == ["chat.0", "chat.1"]
    assert (rig.job("train").status, rig.serving) == ("starting", ["chat.2", "chat.3"])
    check(rig.state)


def test_an_unreachable_replica_of_a_version_that_is_gone_answers_no_more() -> None:
    rig = on_two_nodes()
    rig.tell(*silent("n0"))
    rig.ready("chat.2", "chat.3")
    assert drains(rig.deploy(chat(2, version=2))) == ["chat.0", "chat.1"]
    assert rig.serving == ["chat.2", "chat.3"]
    rig.tell(Undeployed(rig.now, "chat"))
    assert {"chat.0", "chat.1"} <= stops(rig.later(31)).keys(), "they stop when their node reports"


def test_a_waiting_replica_is_explained_by_the_replicas_ahead_of_it() -> None:
    rig = Serving("srsf", grid(1, 2))
    rig.deploy(chat(2))
    rig.ready("chat.0", "chat.1")
    rig.submit(Job("train", 1))
    rig.deploy(chat(4))
    first, second = explain(rig.scheduler, "chat.2"), explain(rig.scheduler, "chat.3")
    assert (first.position, first.ahead) == (1, ())
    assert (second.position, second.waiting, [each.job for each in second.ahead]) == (2, 2, ["chat.2"])
    assert [cause.code for cause in second.reasons] == ["Resources", "Priority"]


@pytest.mark.parametrize(("policy", "preempted"), [("fifo", ()), ("srsf", ("train",)), ("muri-s", ("train",))])
def test_a_waiting_replica_names_the_training_that_gives_way(policy: str, preempted: tuple[str, ...]) -> None:
    rig = Serving(policy, grid(1, 1), protection=Protection(min_run_s=60.0))
    rig.submit(Job("train", 1, declared_s=1000.0))
    rig.settle()
    rig.deploy(chat(1))
    unblock = explain(rig.scheduler, "chat.0").unblock
    assert unblock is not None
    assert (unblock.jobs, unblock.preempted) == (("train",), preempted)


def test_a_waiting_replica_without_gpus_names_the_cpus_it_lacks() -> None:
    rig = Serving("fifo", [node("n0", 1, cpus=4)])
    rig.submit(Job("train", 1, cpus=3))
    rig.settle()
    rig.deploy(chat(1, gpus=0, cpus=2))
    lines = explain_service(rig.scheduler, "chat").lines()
    assert "  chat.0: no node has 2 CPUs free" in lines
    assert "  held by training with 3 CPUs" in lines
