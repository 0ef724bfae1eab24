"""Why a job waits: each reason, its position, who is ahead, and what would let it run."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from support.builders import Rig, grid, node
from weft.errors import UnknownName
from weft.model import Cordoned, Gpu, Job, Node, NodeLost, PerRank, Profile, Unwoven, Wake, Where
from weft.scheduling.core.explain import Explanation, explain
from weft.scheduling.core.ports import Ask, Replanner, View
from weft.scheduling.core.queue.protection import Protection

WOVEN = Profile("data", 1.0, 0.8, 0.1, 0.1)


class EachAlone(Replanner):
    """Has no key: no job starts between two plans."""

    preempts = True

    def rank(self, view: View) -> Iterable[Ask]:
        return [Ask((job.id,), job.gpus) for job in (*view.active, *view.waiting)]


def why(rig: Rig, job: str) -> Explanation:
    return explain(rig.scheduler, job)


def codes(found: Explanation) -> list[str]:
    return [reason.code for reason in found.reasons]


def test_too_few_gpus_and_whose_end_would_help() -> None:
    rig = Rig("srtf", grid(1, 4))
    rig.submit(Job("a", 3, declared_s=10.0, user="ann"))
    rig.submit(Job("b", 1, declared_s=20.0))
    rig.settle()
    rig.submit(Job("c", 2, declared_s=500.0))
    rig.settle()
    found = why(rig, "c")
    assert codes(found) == ["Resources"]
    assert (found.position, found.waiting, found.ahead) == (1, 1, ())
    assert found.unblock is not None
    assert (found.unblock.jobs, found.unblock.nodes, found.unblock.in_s) == (("a",), ("n0",), 10.0)
    assert found.lines()[-1] == "  would fit on n0 once a has ended, in about 10 s"


def test_a_run_that_may_be_preempted_soon_is_not_waited_for_to_end() -> None:
    rig = Rig("priority:preempts=on", grid(1, 2), protection=Protection(min_run_s=60.0))
    rig.submit(Job("a", 2))
    rig.settle()
    rig.later(10.0)
    rig.submit(Job("b", 2, priority=1), Job("c", 2))
    urgent, other = why(rig, "b").unblock, why(rig, "c").unblock
    assert urgent is not None
    assert other is not None
    assert (urgent.jobs, urgent.preempted, urgent.in_s) == (("a",), ("a",), 50.0)
    assert (other.jobs, other.preempted, other.in_s) == (("a",), (), None)
    assert why(rig, "b").lines()[-1] == "  would fit on n0 once a may be preempted, in about 50 s"


def test_strictly_behind_others() -> None:
    rig = Rig("fifo", grid(1, 2))
    for job in (Job("a", 1), Job("b", 2, user="bob"), Job("c", 1)):
        rig.submit(job)
    rig.settle()
    found = why(rig, "c")
    assert codes(found) == ["Priority"]
    assert found.position == 2
    assert [(a.job, a.user, a.gpus) for a in found.ahead] == [("b", "bob", 2)]
    assert found.unblock is None


@pytest.mark.parametrize(
    ("job", "code", "words"),
    [
        (Job("j", 9), "ReqNodeNotAvail", "needs 9 GPUs"),
        (Job("j", 1, memory_mb=PerRank(90_000)), "GpuMemory", "the largest GPU has 40000 MB"),
        (Job("j", 1, where=Where(gpu_model="H100")), "ReqNodeNotAvail", "of model H100"),
    ],
)
def test_no_node_could_ever_hold_it(job: Job, code: str, words: str) -> None:
    rig = Rig("fifo", [Node("n0", (Gpu("A100", 40_000),) * 4)])
    rig.submit(job)
    found = why(rig, "j")
    assert codes(found) == [code]
    assert words in found.reasons[0].text


def test_the_nodes_that_could_hold_it_are_lost() -> None:
    rig = Rig("fifo", [node("n0", 8), node("n1", 2)])
    rig.tell(NodeLost(rig.now, "n0"))
    rig.submit(Job("j", 4))
    assert codes(why(rig, "j")) == ["NodeLost"]


def test_a_node_that_a_pool_gave_back_is_not_called_lost() -> None:
    rig = Rig("fifo", [Node("a100-0", (Gpu(),) * 8, labels=(("pool", "a100"),)), node("n1", 2)])
    rig.tell(NodeLost(rig.now, "a100-0"))
    rig.submit(Job("j", 4))
    found = why(rig, "j")
    assert codes(found) == ["ReqNodeNotAvail"]
    assert "the cluster has 2" in found.reasons[0].text


def test_held_running_and_ended_jobs_say_so() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(Job("a"))
    rig.settle()
    rig.submit(Job("b"))
    rig.hold("b")
    assert codes(why(rig, "b")) == ["JobHeldUser"]
    assert "run 1 on n0[0]" in why(rig, "a").reasons[0].text
    rig.exit("a")
    assert "it ended" in why(rig, "a").reasons[0].text


def test_a_replanner_that_waits_for_its_next_plan() -> None:
    rig = Rig("muri-s", grid(1, 1), interval_s=360.0)
    rig.submit(Job("a", declared_s=100.0))
    rig.settle()
    rig.later(5.0)
    rig.submit(Job("b", declared_s=1.0))
    assert codes(why(rig, "b")) == ["Resources", "NotWoven"]
    assert rig.scheduler.next_plan_at() == 360.0


def test_when_the_next_plan_is_due_is_said_as_seconds_from_now() -> None:
    rig = Rig(EachAlone(), grid(1, 2), interval_s=360.0)
    rig.now = 1_700_000_000.0
    rig.submit(Job("a", declared_s=100.0))
    rig.settle()
    rig.later(60.0)
    rig.submit(Job("b", declared_s=1.0))
    found = explain(rig.scheduler, "b", at=rig.now + 20.0)
    assert [(each.code, each.text) for each in found.reasons] == [("NextRound", "the scheduler plans next in 280 s")]


def test_an_unknown_job() -> None:
    with pytest.raises(UnknownName, match="known: a"):
        why(_with_a(), "aa")


def _with_a() -> Rig:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(Job("a"))
    return rig


MIXED = [
    Node("a", (Gpu("A100", 80_000),) * 2, labels=(("node", "a"), ("rack", "3"))),
    Node("v", (Gpu("V100", 16_000),) * 4, labels=(("node", "v"), ("rack", "4"))),
    Node("bare", (), labels=(("node", "bare"),)),
]


@pytest.mark.parametrize(
    ("job", "code", "text"),
    [
        (Job("j", 7), "ReqNodeNotAvail", "needs 7 GPUs; the cluster has 6"),
        (
            Job("j", 3, where=Where(gpu_model="A100")),
            "ReqNodeNotAvail",
            "needs 3 GPUs of model A100; the cluster has 2",
        ),
        (Job("j", 1, where=Where(labels=(("node", "gone"),))), "ReqNodeNotAvail", "no node has node=gone"),
        (
            Job("j", 3, where=Where(labels=(("rack", "3"),))),
            "ReqNodeNotAvail",
            "needs 3 GPUs with rack=3; the cluster has 2",
        ),
        (
            Job("j", 1, memory_mb=PerRank(20_000), where=Where(gpu_model="V100")),
            "GpuMemory",
            "needs a GPU with 20000 MB; the largest GPU has 16000 MB",
        ),
    ],
)
def test_a_job_that_fits_nowhere_is_told_what_is_missing(job: Job, code: str, text: str) -> None:
    rig = Rig("fifo", MIXED)
    rig.submit(job)
    assert [(reason.code, reason.text) for reason in why(rig, "j").reasons] == [(code, text)]


def test_who_can_never_run_holds_up_nobody_and_nodes_that_could_not_help_are_not_named() -> None:
    rig = Rig("fifo", MIXED)
    rig.submit(Job("never", 100))
    rig.submit(Job("first", 2, where=Where(gpu_model="A100")))
    rig.settle()
    rig.tell(Cordoned(rig.now, "bare", "Drained"), Cordoned(rig.now, "v", "Drained"))
    rig.submit(Job("next", 2, where=Where(gpu_model="A100")))
    found = why(rig, "next")
    assert [(reason.code, reason.text) for reason in found.reasons] == [
        ("Resources", "needs 2 GPUs of model A100 on one node; none is free")
    ]
    assert [ahead.job for ahead in found.ahead] == ["never"]


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (Job("b"), "not woven: it has no profile; weft profile run"),
        (Job("b", profile=WOVEN, where=Where(pinned=(("n0", (0,)),))), "not woven: it shares or names its GPUs"),
    ],
)
def test_a_job_that_cannot_be_woven_is_told_why_and_what_to_do(job: Job, says: str) -> None:
    rig = Rig("muri-l", grid(1, 1))
    rig.submit(Job("a", profile=WOVEN))
    rig.settle()
    rig.submit(job)
    found = why(rig, "b")
    assert codes(found)[-1] == "NotWoven"
    assert any(says in line for line in found.lines())
    rig = Rig("srtf", grid(1, 1))
    rig.submit(Job("a"), Job("b"))
    assert "NotWoven" not in codes(why(rig, "b")), "the policy does not weave"


def test_a_run_names_its_present_partners_and_why_it_has_none() -> None:
    rig = Rig("muri-l", grid(1, 1))
    rig.submit(Job("a", profile=WOVEN), Job("b", profile=Profile("gpu", 1.0, 0.1, 0.8, 0.1)))
    rig.settle()
    assert "woven with b" in why(rig, "a").lines()[-1]
    rig.exit("b")
    rig.now = 400.0
    rig.tell(Wake(400.0))
    assert "woven" not in "".join(why(rig, "a").lines()), "it was rewoven, and runs alone"
    rig.tell(Unwoven(401.0, "a", 1, "hangs"))
    assert codes(why(rig, "a")) == ["None"], "it was not woven"


def test_an_unwoven_run_says_so() -> None:
    rig = Rig("muri-l", grid(1, 1), interval_s=360.0)
    rig.submit(Job("a", profile=WOVEN), Job("b", profile=Profile("gpu", 1.0, 0.1, 0.8, 0.1)))
    rig.settle()
    rig.tell(Unwoven(1.0, "a", 1, "hangs"))
    found = why(rig, "a")
    assert codes(found) == ["None", "NotWoven"]
    assert "not woven any more: it held a stage for too long" in found.lines()[-1]
