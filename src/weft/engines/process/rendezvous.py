"""What the processes of a gang are told, so that they find each other: torchrun, mpirun and everybody else.

Pure: who is in the gang goes in, variables and the command come out.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from weft.model import JobId, NodeId

Launcher = Literal["torchrun", "mpi", "none"]
PORTS: Final = range(20000, 32000)
"""Where gangs meet on nodes that leave it open: below the ports that the kernel gives away by itself."""
PORTS_OF_A_NODE: Final = 100
"""So many from the port on that a node was given."""
RANKS: Final = str(Path(__file__).with_name("shim") / "ranks.py")
_HOSTFILES: Final = ("WEFT_HOSTFILE", "OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile")
_MPI: Final = frozenset({"mpirun", "mpiexec", "orterun", "prterun"})
_TORCH: Final = frozenset({"torch.distributed.run", "torch.distributed.launch"})
_PYTHON: Final = re.compile(r"python[0-9.]*")


@dataclass(frozen=True, slots=True)
class GangMember:
    """One node of a gang."""

    node: NodeId
    address: str
    """How the others reach it."""
    gpus: int


@dataclass(frozen=True, slots=True)
class Gang:
    members: tuple[GangMember, ...]
    """In rank order."""
    rank: int = 0
    """Which of them this node is."""
    port: int = 0
    """On the first of them: where they meet."""

    @property
    def here(self) -> GangMember:
        return self.members[self.rank]

    @property
    def head(self) -> GangMember:
        return self.members[0]

    @property
    def processes(self) -> int:
        """With one for each GPU."""
        return sum(max(member.gpus, 1) for member in self.members)

    @property
    def first_rank(self) -> int:
        """Of the processes here, with one for each GPU."""
        return sum(max(member.gpus, 1) for member in self.members[: self.rank])


def rendezvous_port(job: JobId, run: int, first_port: int = 0) -> int:
    """The same on all nodes without a word between them; another for the next run. `first_port`: of the head node."""
    ports = range(first_port, min(first_port + PORTS_OF_A_NODE, 65536)) if first_port else PORTS
    return ports[zlib.crc32(f"{job}/{run}".encode()) % len(ports)]


def launcher(argv: tuple[str, ...]) -> Launcher:
    """Who starts the processes of a node: a launcher that the command names, or nobody but us."""
    program = argv[0].rpartition("/")[2] if argv else ""
    if program == "torchrun" or (_PYTHON.fullmatch(program) and _module(argv[1:]) in _TORCH):
        return "torchrun"
    return "mpi" if program in _MPI else "none"


def _module(words: tuple[str, ...]) -> str:
    """What `python -m` runs; empty: a script or something else."""
    for place, word in enumerate(words):
        if word == "-m":
            return words[place + 1] if place + 1 < len(words) else ""
        if not word.startswith("-"):
            break
    return ""


def meets(argv: tuple[str, ...], gang: Gang, per_gpu: bool) -> bool:
    """Whether its processes need a port to meet at that is agreed beforehand."""
    kind = launcher(argv)
    return kind != "mpi" and (len(gang.members) > 1 or (per_gpu and kind == "none"))


def command(argv: tuple[str, ...], gang: Gang, per_gpu: bool, python: str) -> tuple[str, ...]:
    """What is started on this node: the command, or with one process for each GPU something that starts it so often."""
    if not per_gpu or launcher(argv) != "none":
        return argv
    return (python, "-I", "-S", RANKS, str(gang.first_rank), str(max(gang.here.gpus, 1)), *argv)


def hostfile(gang: Gang) -> str:
    """For mpirun: one process for each GPU, as torchrun has it. It takes no machine twice."""
    slots: dict[str, int] = {}
    for member in gang.members:
        slots[member.address] = slots.get(member.address, 0) + max(member.gpus, 1)
    return "".join(f"{address} slots={count}\n" for address, count in slots.items())


def variables(argv: tuple[str, ...], gang: Gang, per_gpu: bool, grace_s: float, name: str, path: str) -> dict[str, str]:
    """`name` tells this run from others; `path` is where its hostfile is."""
    kind, several = launcher(argv), len(gang.members) > 1
    env = {
        "WEFT_NODE_RANK": str(gang.rank),
        "WEFT_NUM_NODES": str(len(gang.members)),
        "WEFT_NODELIST": ",".join(member.node for member in gang.members),
    }
    if several:
        env["WEFT_HOSTFILE"] = path
    if kind == "mpi" and (several or gang.here.gpus):
        env |= dict.fromkeys(_HOSTFILES, path)
    # a script may call torchrun itself, which then overrules the plain ranks
    if kind == "torchrun" or (kind == "none" and several and not per_gpu):
        env |= _for_torchrun(gang, grace_s, name)
    if kind == "none" and (several or per_gpu):
        env |= _plain_ranks(gang, per_gpu)
    return env


def _for_torchrun(gang: Gang, grace_s: float, name: str) -> dict[str, str]:
    """What torchrun reads where its own options are not given."""
    env = {
        "PET_NNODES": str(len(gang.members)),
        "PET_RDZV_ID": name,
        # the gang is started anew as a whole: see to it ourselves
        "PET_MAX_RESTARTS": "0",
        # a little less than we give it, or it would be killed before it has collected its processes
        "PET_SHUTDOWN_TIMEOUT": str(max(int(grace_s - min(5.0, grace_s / 5)), 1)),
    }
    if gang.here.gpus:
        env["PET_NPROC_PER_NODE"] = str(gang.here.gpus)
    if len(gang.members) == 1:
        return {**env, "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "localhost:0"}
    return {
        **env,
        "PET_NODE_RANK": str(gang.rank),
        "PET_MASTER_ADDR": gang.head.address,
        "PET_MASTER_PORT": str(gang.port),
        "PET_LOCAL_ADDR": gang.here.address,
        "PET_RDZV_BACKEND": "static",
        "PET_RDZV_ENDPOINT": f"{_bracketed(gang.head.address)}:{gang.port}",
    }


def _plain_ranks(gang: Gang, per_gpu: bool) -> dict[str, str]:
    """With one process for each GPU these are of the first on this node: whoever starts them counts on."""
    return {
        "MASTER_ADDR": gang.head.address,
        "MASTER_PORT": str(gang.port),
        "WORLD_SIZE": str(gang.processes if per_gpu else len(gang.members)),
        "RANK": str(gang.first_rank if per_gpu else gang.rank),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": str(max(gang.here.gpus, 1) if per_gpu else 1),
        "NODE_RANK": str(gang.rank),
    }


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
