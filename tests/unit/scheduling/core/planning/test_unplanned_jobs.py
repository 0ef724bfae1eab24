"""A job whose run was stopped for others: it is planned again, whatever became of them."""

from __future__ import annotations

import pytest

from support.builders import Rig, node, profile, starts
from weft.model import Cordoned, Exited, Job, NodeJoined, Started, Stop, Submitted, Unwoven

STAGES = profile(0.5, 0.5, 0.5)


@pytest.fixture
def woven() -> Rig:
    """Two jobs of the same size, woven on all GPUs of a node."""
    rig = Rig("muri-l:autopack=off")
    rig.tell(NodeJoined(0.0, node(gpus=2)))
    rig.tell(*(Submitted(0.0, Job(name, 2, profile=STAGES, declared_s=100.0)) for name in "ab"))
    assert {job.weave for job in rig.state.active.values()} == {("a", "b")}
    rig.tell(*(Started(0.0, name, 1) for name in "ab"))
    return rig


def test_a_job_stopped_for_one_that_ends_first_runs_again(woven: Rig) -> None:
    woven.tell(Unwoven(1.0, "a", 1, "hangs"))
    decisions = woven.tell(Submitted(1.0, Job("c", 0)))
    (victim,) = [decision.job for decision in decisions if isinstance(decision, Stop)]
    other = "b" if victim == "a" else "a"
    woven.tell(Exited(2.0, other, 1, "done"))
    assert starts(woven.tell(Exited(3.0, victim, 1, "stopped"))) == {victim: (("n0", (0, 1)),)}


def test_a_job_without_gpus_does_not_start_on_a_cordoned_node() -> None:
    rig = Rig("muri-l:autopack=off")
    rig.tell(NodeJoined(0.0, node("n0", gpus=1, cpus=4)), NodeJoined(0.0, node("n1", gpus=1, cpus=4)))
    rig.tell(Cordoned(1.0, "n0", "Drained"))
    assert starts(rig.tell(Submitted(2.0, Job("a", 0, cpus=1)))) == {"a": (("n1", ()),)}
    rig.tell(Cordoned(3.0, "n1", "Drained"))
    assert starts(rig.tell(Submitted(4.0, Job("b", 0, cpus=1)))) == {}
