"""The scheduler's end of the agents' streams: messages in, `==` on what comes out."""

from __future__ import annotations

from builders import Rig
from weft.agent.machine import Agent
from weft.agent.machine import Send as Say
from weft.local.identity import Identity
from weft.local.reports import RunExited, RunStarted
from weft.model import Exited, Job, NodeJoined, Started, Submitted
from weft.server.replies import Close, Send
from weft.server.roster import Roster
from weft.wire.messages import GpuSpec, NodeSpec

NOBODY = Identity("boot", 1, 1)


def test_a_job_runs_on_a_node_and_its_end_is_confirmed_once_it_is_known() -> None:
    rig = Rig("fifo")
    roster = Roster(rig.state, 0.0, lease_s=60, beat_s=5, margin_s=10)
    agent = Agent(NodeSpec(id="n0", gpus=[GpuSpec(index=0, memory_mb=100)]), "i", "h")
    done: list[object] = []

    def tell(now: float) -> None:
        """All that is under way arrives, from both sides, until nobody has anything to say."""
        said = [action for action in done if isinstance(action, Say)]
        done[:] = [action for action in done if not isinstance(action, Say)]
        for action in said:
            events, replies = roster.take(1, action.message, now)
            decisions = rig.tell(*events) if events else []
            replies += [reply for decision in decisions for reply in roster.carry_out(decision)]
            assert not any(isinstance(reply, Close) for reply in replies)
            for reply in replies:
                assert isinstance(reply, Send)
                done.extend(agent.take(reply.message, now))
        if said:
            tell(now)

    rig.tell(Submitted(0.0, Job("1", 1, command=("true",))))
    done += agent.connected(0.0)
    tell(0.0)
    assert [type(action).__name__ for action in done] == ["Lease", "Start"]
    done[:] = agent.report(RunStarted(1.0, "1", 1, NOBODY, NOBODY), 1.0)
    tell(1.0)
    assert rig.job("1").status == "running"
    done[:] = agent.report(RunExited(2.0, "1", 1, code=0), 2.0)
    tell(2.0)
    assert rig.job("1").status == "done"
    assert [type(action).__name__ for action in done] == ["Told"]
    assert [type(fact) for fact in rig.facts if isinstance(fact, NodeJoined | Started | Exited)] == [
        NodeJoined, Started, Exited,
    ]  # fmt: skip
