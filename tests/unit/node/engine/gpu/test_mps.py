"""The variables of runs that share GPUs through Weft's MPS daemon, and how a node learns their shares."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.builders import Rig
from support.peers.driver_programs import driver_programs
from support.running.local_scheduler import until
from weft.access.wire.messages import NodeSpec
from weft.model import Gpu, Job, Node, Share, Submitted
from weft.node.engine.gpu import mps
from weft.server.nodes.registered_node import RegisteredNode
from weft.server.nodes.run_messages import start_run


@pytest.fixture
def root(tmp_path: Path) -> Iterator[str]:
    """A runtime folder whose daemon runs."""
    programs, root = driver_programs(tmp_path / "driver"), tmp_path / "run"
    env = {**mps.daemon_variables(str(root)), "PATH": programs.path}
    (root / "mps" / "pipe").mkdir(parents=True)
    program = str(programs.root / "bin" / mps.PROGRAM)
    subprocess.run([program, "-d"], env=env, check=True)
    until(lambda: mps.find_daemon(env[mps.PIPE_VARIABLE]))
    yield str(root)
    subprocess.run([program], env=env, input=b"quit\n", check=True)
    until(lambda: mps.find_daemon(env[mps.PIPE_VARIABLE]) is None)


def test_what_runs_of_each_kind_get(root: str) -> None:
    pipe = {mps.PIPE_VARIABLE: f"{root}/mps/pipe"}
    assert mps.run_variables(root, None, {}) == {}, "it has its GPUs alone"
    assert mps.run_variables(root, 1 / 3, {}) == {**pipe, mps.PERCENTAGE_VARIABLE: "33"}
    assert mps.run_variables(root, 0.001, {})[mps.PERCENTAGE_VARIABLE] == "1"
    assert mps.run_variables(root, 1.0, {}) == pipe, "a guest may use all of it"
    assert mps.run_variables(root, None, {mps.WEAVE_VARIABLE: "3"}) == pipe, "members of a weave take turns"
    assert mps.run_variables(root, 0.5, {mps.PIPE_VARIABLE: ""}) == {}, "the job opted out"
    assert mps.run_variables(f"{root}/other", 0.5, {}) == {}, "the daemon is not that one's"


@pytest.mark.parametrize(("share", "limit"), [(Share(), None), (Share(0.25, 0.5), 0.5), (Share(0.0, 1.0), 1.0)])
def test_a_node_learns_the_share_of_a_run(share: Share, limit: float | None) -> None:
    node = Node("n1", (Gpu("A100", 1000),))
    rig = Rig("fifo", [node])
    rig.tell(Submitted(rig.now, Job("1", gpus=1, share=share)))
    member = RegisteredNode(node, 0.0, spec=NodeSpec(id="n1", address="n1"))
    message = start_run(rig.job("1"), member, {"n1": member})
    assert message is not None
    assert (message.start.gpu_share if message.start.HasField("gpu_share") else None) == limit
