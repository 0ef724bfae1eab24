"""The variables that the processes of a gang get."""

from __future__ import annotations

import socket
import sys

import pytest

from weft.node.engine import free_ports
from weft.node.engine.rendezvous import (
    DEFAULT_PORTS,
    RANKS_SCRIPT,
    Gang,
    GangMember,
    Launcher,
    detect_launcher,
    gang_variables,
    hostfile_text,
    needs_port,
    node_command,
    rendezvous_port,
)

TWO = (GangMember("a", "10.0.0.1", 2), GangMember("b", "10.0.0.2", 4))
HEAD, SECOND = Gang(TWO, 0, 20001), Gang(TWO, 1, 20001)
ALONE = Gang((GangMember("a", "127.0.0.1", 2),), port=30000)


def told(gang: Gang, *argv: str, per_gpu: bool = False, grace_s: float = 60.0) -> dict[str, str]:
    return gang_variables(argv, gang, per_gpu, grace_s, "7-1", "/jobs/7/1/hostfile")


@pytest.mark.parametrize(
    ("argv", "kind"),
    [
        ("torchrun train.py", "torchrun"),
        ("/opt/bin/torchrun train.py", "torchrun"),
        ("python -m torch.distributed.run train.py", "torchrun"),
        ("/usr/bin/python3.11 -u -m torch.distributed.launch train.py", "torchrun"),
        ("python -m train", "none"),
        ("python train.py -m torch.distributed.run", "none"),
        ("python -m", "none"),
        ("pythonic -m torch.distributed.run", "none"),
        ("mpirun -np 4 train", "mpi"),
        ("/usr/bin/mpiexec train", "mpi"),
        ("sh -c torchrun", "none"),
    ],
)
def test_who_starts_the_processes(argv: str, kind: Launcher) -> None:
    assert detect_launcher(tuple(argv.split())) == kind


def test_every_run_is_told_its_nodes() -> None:
    assert told(ALONE, "train") == {"WEFT_NODE_RANK": "0", "WEFT_NUM_NODES": "1", "WEFT_NODELIST": "a"}
    env = told(SECOND, "train")
    assert (env["WEFT_NODE_RANK"], env["WEFT_NUM_NODES"], env["WEFT_NODELIST"]) == ("1", "2", "a,b")


def test_plain_ranks_one_for_each_node() -> None:
    env = told(SECOND, "python", "train.py")
    assert {key: env[key] for key in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK")} == {
        "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "NODE_RANK": "1",
    }  # fmt: skip
    assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("10.0.0.1", "20001")
    assert env["PET_NNODES"] == "2"  # for a script that calls torchrun


def test_plain_ranks_one_for_each_gpu() -> None:
    env = told(SECOND, "python", "train.py", per_gpu=True)
    assert (env["RANK"], env["WORLD_SIZE"], env["LOCAL_WORLD_SIZE"], env["NODE_RANK"]) == ("2", "6", "4", "1")
    assert "PET_NNODES" not in env
    assert node_command(("train", "-x"), SECOND, True, sys.executable) == (
        sys.executable, "-I", "-S", RANKS_SCRIPT, "2", "4", "train", "-x",
    )  # fmt: skip
    assert node_command(("train",), SECOND, False, sys.executable) == ("train",)
    alone = told(ALONE, "train", per_gpu=True)
    assert (alone["WORLD_SIZE"], alone["MASTER_ADDR"], alone["MASTER_PORT"]) == ("2", "127.0.0.1", "30000")


def test_torchrun_on_several_nodes_is_told_through_its_own_variables() -> None:
    for per_gpu in (False, True):
        env = told(SECOND, "torchrun", "train.py", per_gpu=per_gpu)
        assert {key: value for key, value in env.items() if not key.startswith("WEFT_")} == {
            "PET_NNODES": "2",
            "PET_NODE_RANK": "1",
            "PET_NPROC_PER_NODE": "4",
            "PET_MASTER_ADDR": "10.0.0.1",
            "PET_MASTER_PORT": "20001",
            "PET_LOCAL_ADDR": "10.0.0.2",
            "PET_RDZV_BACKEND": "static",
            "PET_RDZV_ENDPOINT": "10.0.0.1:20001",
            "PET_RDZV_ID": "7-1",
            "PET_MAX_RESTARTS": "0",
            "PET_SHUTDOWN_TIMEOUT": "55",
        }
        assert node_command(("torchrun", "train.py"), SECOND, per_gpu, sys.executable) == ("torchrun", "train.py")


def test_torchrun_on_one_node_finds_a_port_by_itself() -> None:
    env = told(ALONE, "torchrun", "train.py")
    assert (env["PET_RDZV_BACKEND"], env["PET_RDZV_ENDPOINT"]) == ("c10d", "localhost:0")
    assert (env["PET_NNODES"], env["PET_NPROC_PER_NODE"]) == ("1", "2")
    assert not {"RANK", "WORLD_SIZE", "PET_NODE_RANK"} & env.keys()
    assert "PET_NPROC_PER_NODE" not in told(Gang((GangMember("a", "127.0.0.1", 0),)), "torchrun")


@pytest.mark.parametrize(("grace_s", "timeout"), [(60.0, "55"), (10.0, "8"), (1.0, "1"), (0.0, "1")])
def test_torchrun_gives_up_before_we_do(grace_s: float, timeout: str) -> None:
    assert told(ALONE, "torchrun", grace_s=grace_s)["PET_SHUTDOWN_TIMEOUT"] == timeout


def test_mpirun_is_given_a_hostfile() -> None:
    env = told(HEAD, "mpirun", "train")
    assert env["WEFT_HOSTFILE"] == env["OMPI_MCA_orte_default_hostfile"] == "/jobs/7/1/hostfile"
    assert not {"RANK", "MASTER_ADDR", "PET_NNODES"} & env.keys()
    assert hostfile_text(HEAD) == "10.0.0.1 slots=2\n10.0.0.2 slots=4\n"
    assert (
        hostfile_text(Gang((GangMember("a", "localhost", 2), GangMember("b", "localhost", 1)))) == "localhost slots=3\n"
    )
    assert "WEFT_HOSTFILE" not in told(Gang((GangMember("a", "127.0.0.1", 0),)), "mpirun")


def test_an_address_with_colons_stands_in_brackets() -> None:
    gang = Gang((GangMember("a", "fd00::1", 1), GangMember("b", "fd00::2", 1)), 0, 20001)
    assert told(gang, "torchrun")["PET_RDZV_ENDPOINT"] == "[fd00::1]:20001"


def test_where_they_meet_is_reckoned_the_same_everywhere() -> None:
    assert rendezvous_port("7", 1) == rendezvous_port("7", 1) in DEFAULT_PORTS
    assert len({rendezvous_port("7", run) for run in range(1, 20)}) > 10
    assert all(6000 <= rendezvous_port(str(job), 1, 6000) < 6100 for job in range(50))
    assert all(65500 <= rendezvous_port(str(job), 1, 65500) < 65536 for job in range(50))


def test_who_needs_to_meet() -> None:
    assert needs_port(("train",), HEAD, False)
    assert needs_port(("torchrun",), HEAD, False)
    assert not needs_port(("mpirun",), HEAD, True)
    assert needs_port(("train",), ALONE, True)
    assert not needs_port(("train",), ALONE, False)
    assert not needs_port(("torchrun",), ALONE, True)


def test_a_port_is_free_until_somebody_listens() -> None:
    port = free_ports.find_free_port()
    assert free_ports.is_free("127.0.0.1", port)
    with socket.create_server(("127.0.0.1", port)):
        assert not free_ports.is_free("127.0.0.1", port)
        assert not free_ports.is_free("localhost", port)
