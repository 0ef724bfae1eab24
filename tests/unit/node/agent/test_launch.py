"""From the wire's orders to the engine's."""

from __future__ import annotations

import pytest

from weft.access.wire.messages import GangMember, StartRun, Variable
from weft.errors import InputError
from weft.node.agent.launch import merge_environment, to_launch_spec, working_directory
from weft.node.engine import rendezvous
from weft.node.engine.gpu.discovery import DeclaredGpus, discover
from weft.node.engine.gpu.nvml import NoDriver
from weft.node.engine.launch_spec import GRACE_S, PREEMPT_GRACE_S, LaunchSpec
from weft.node.engine.rendezvous import Gang, rendezvous_port

MACHINE = discover("n1", NoDriver("none"), DeclaredGpus((4, 6)))


def made(launch: StartRun, tree: str = "") -> LaunchSpec:
    return to_launch_spec(launch, MACHINE, env={}, tree=tree, socket="/run/progress.sock", lease="/state/lease")


def test_all_that_an_order_says_reaches_the_engine() -> None:
    launch = StartRun(
        job="7", run=3, name="train", command=["train", "-x"], chdir="/data", gpus=[1], memory_mb=4096,
        env=[Variable(name="LR", value="1")], params=[Variable(name="epochs", value="3")], array_index=0, array_size=5,
        time_limit_s=60.0, grace_s=0.0, per_gpu=True,
    )  # fmt: skip
    assert made(launch) == LaunchSpec(
        "7", 3, ("train", "-x"), env=(("LR", "1"),), chdir="/data", name="train", gpus=(6,), memory_mb=4096,
        params=(("epochs", "3"),), restarts=2, array_index=0, array_size=5, time_limit_s=60.0, grace_s=0.0,
        preempt_grace_s=0.0, socket="/run/progress.sock", per_gpu=True, lease="/state/lease",
    )  # fmt: skip


def test_what_is_not_said_is_as_usual() -> None:
    launch = made(StartRun(job="7", run=1, command=["true"]))
    assert (launch.time_limit_s, launch.grace_s, launch.preempt_grace_s) == (None, GRACE_S, PREEMPT_GRACE_S)
    assert (launch.array_index, launch.array_size, launch.gang, launch.gpus) == (None, None, None, ())


def test_a_gang_meets_at_the_first_of_its_nodes() -> None:
    gang = [GangMember(node=name, address=f"10.0.0.{at}", port=7000, gpus=2) for at, name in enumerate("ab")]
    launch = StartRun(job="7", run=1, command=["true"], gang=gang, rank=1)
    members = (rendezvous.GangMember("a", "10.0.0.0", 2), rendezvous.GangMember("b", "10.0.0.1", 2))
    assert made(launch).gang == Gang(members, 1, rendezvous_port("7", 1, 7000))
    assert made(StartRun(job="7", run=1, command=["true"], gang=gang[:1])).gang is None


@pytest.mark.parametrize(
    "launch",
    [StartRun(job="7", run=1, gpus=[2]), StartRun(job="7", run=1, gang=[GangMember(node=n) for n in "ab"], rank=2)],
)
def test_what_this_node_does_not_have_is_refused(launch: StartRun) -> None:
    with pytest.raises(InputError):
        made(launch)


def test_the_worker_fills_in_what_belongs_to_a_machine_and_nothing_else() -> None:
    own = {"PATH": "/w", "XDG_CACHE_HOME": "/c", "LR": "9", "AWS_SECRET_KEY": "s", "http_proxy": "http://u:p@proxy"}
    assert merge_environment({"PATH": "/s", "A": "b"}, own) == {"PATH": "/s", "A": "b", "XDG_CACHE_HOME": "/c"}


@pytest.mark.parametrize(
    ("chdir", "tree", "expected"),
    [
        ("/data", "", "/data"),
        ("", "", ""),
        ("", "/run/tree", "/run/tree"),
        ("src/a", "/run/tree", "/run/tree/src/a"),
        ("../../etc", "/run/tree", "/run/tree/etc"),
        (".", "/run/tree", "/run/tree"),
    ],
)
def test_where_it_works(chdir: str, tree: str, expected: str) -> None:
    assert working_directory(chdir, tree) == expected
