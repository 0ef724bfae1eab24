"""Jobs that may use any of some GPUs: only these, and the emptiest first."""

from __future__ import annotations

from support.builders import Rig, node, part
from weft.model import Job, Where
from weft.scheduling.core.planning.feasibility import Feasible
from weft.scheduling.plugins.registry import load_placement

POOL = Where(choice=(("n0", (1, 2)),))


def shared(id: str, k: int = 2) -> Job:
    return Job(id, share=part(k), where=POOL)


def test_the_emptiest_first_and_no_others() -> None:
    rig = Rig("fifo", [node(gpus=4)])
    rig.submit(*(shared(id) for id in "abcde"))
    assert rig.active == {"a": (("n0", (1,)),), "b": (("n0", (2,)),), "c": (("n0", (1,)),), "d": (("n0", (2,)),)}
    rig.exit("b")
    assert rig.active["e"] == (("n0", (2,)),)


def test_whole_gpus_of_a_pool_and_others_beside_it() -> None:
    rig = Rig("priority:preempts=on", [node(gpus=3)])
    rig.submit(Job("a", where=POOL), Job("b", where=POOL), Job("c", where=POOL), Job("d"))
    assert rig.active == {"a": (("n0", (1,)),), "b": (("n0", (2,)),), "d": (("n0", (0,)),)}


def test_what_a_pool_can_never_hold() -> None:
    feasible = Feasible([node(gpus=4)], [load_placement("packed")])
    assert feasible.why_not(Job("a", gpus=2, where=POOL)) == ()
    assert feasible.why_not(Job("a", gpus=3, where=POOL))
