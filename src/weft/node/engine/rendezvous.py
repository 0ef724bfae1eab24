"""Rendezvous of a gang: the variables and the command with which its processes find each other.

Supports torchrun, mpirun and plain commands. Pure.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from weft.model import JobId, NodeId

Launcher = Literal["torchrun", "mpi", "none"]
DEFAULT_PORTS: Final = range(20000, 32000)
"""Rendezvous ports on nodes without a configured port: below the kernel's ephemeral range."""
PORTS_PER_NODE: Final = 100
"""Size of the port range that starts at a node's configured port."""
RANKS_SCRIPT: Final = str(Path(__file__).with_name("shim") / "ranks.py")
_HOSTFILE_VARIABLES: Final = ("WEFT_HOSTFILE", "OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile")
_MPI_PROGRAMS: Final = frozenset({"mpirun", "mpiexec", "orterun", "prterun"})
_TORCH_MODULES: Final = frozenset({"torch.distributed.run", "torch.distributed.launch"})
_PYTHON: Final = re.compile(r"python[0-9.]*")


@dataclass(frozen=True, slots=True)
class GangMember:
    """One node of a gang."""

    node: NodeId
    address: str
    """Address at which the other members reach this node."""
    gpus: int


@dataclass(frozen=True, slots=True)
class Gang:
    """The nodes of a run, seen from one of them."""

    members: tuple[GangMember, ...]
    """In rank order."""
    rank: int = 0
    """Position of this node in `members`."""
    port: int = 0
    """Rendezvous port on the first member."""

    @property
    def this_member(self) -> GangMember:
        return self.members[self.rank]

    @property
    def head(self) -> GangMember:
        return self.members[0]

    @property
    def processes(self) -> int:
        """Number of processes, with one per GPU."""
        return sum(max(member.gpus, 1) for member in self.members)

    @property
    def first_rank(self) -> int:
        """Rank of the first process on this node, with one per GPU."""
        return sum(max(member.gpus, 1) for member in self.members[: self.rank])


def rendezvous_port(job: JobId, run: int, first_port: int = 0) -> int:
    """Return the port of a run, which every node computes alike; the next run gets another.

    `first_port` is the configured port of the head node.
    """
    ports = range(first_port, min(first_port + PORTS_PER_NODE, 65536)) if first_port else DEFAULT_PORTS
    return ports[zlib.crc32(f"{job}/{run}".encode()) % len(ports)]


def detect_launcher(argv: tuple[str, ...]) -> Launcher:
    """Return the launcher that the command names, if any."""
    program = argv[0].rpartition("/")[2] if argv else ""
    if program == "torchrun" or (_PYTHON.fullmatch(program) and _module(argv[1:]) in _TORCH_MODULES):
        return "torchrun"
    return "mpi" if program in _MPI_PROGRAMS else "none"


def _module(words: tuple[str, ...]) -> str:
    """Return the module that `python -m` runs, or an empty string."""
    for position, word in enumerate(words):
        if word == "-m":
            return words[position + 1] if position + 1 < len(words) else ""
        if not word.startswith("-"):
            break
    return ""


def needs_port(argv: tuple[str, ...], gang: Gang, per_gpu: bool) -> bool:
    """Return whether the processes need a rendezvous port that is agreed beforehand."""
    kind = detect_launcher(argv)
    return kind != "mpi" and (len(gang.members) > 1 or (per_gpu and kind == "none"))


def node_command(argv: tuple[str, ...], gang: Gang, per_gpu: bool, python: str) -> tuple[str, ...]:
    """Return the command for this node; with one process per GPU, wrapped in the ranks script."""
    if not per_gpu or detect_launcher(argv) != "none":
        return argv
    return (python, "-I", "-S", RANKS_SCRIPT, str(gang.first_rank), str(max(gang.this_member.gpus, 1)), *argv)


def hostfile_text(gang: Gang) -> str:
    """Return a hostfile for mpirun with one slot per GPU. mpirun rejects duplicate hosts, so add up slots."""
    slots: dict[str, int] = {}
    for member in gang.members:
        slots[member.address] = slots.get(member.address, 0) + max(member.gpus, 1)
    return "".join(f"{address} slots={count}\n" for address, count in slots.items())


def gang_variables(
    argv: tuple[str, ...], gang: Gang, per_gpu: bool, grace_s: float, name: str, path: str
) -> dict[str, str]:
    """Return the rendezvous variables of a run. `name` identifies the run; `path` is its hostfile."""
    kind, several = detect_launcher(argv), len(gang.members) > 1
    env = {
        "WEFT_NODE_RANK": str(gang.rank),
        "WEFT_NUM_NODES": str(len(gang.members)),
        "WEFT_NODELIST": ",".join(member.node for member in gang.members),
    }
    if several:
        env["WEFT_HOSTFILE"] = path
    if kind == "mpi" and (several or gang.this_member.gpus):
        env |= dict.fromkeys(_HOSTFILE_VARIABLES, path)
    # a script may call torchrun itself, which then overrides the plain ranks
    if kind == "torchrun" or (kind == "none" and several and not per_gpu):
        env |= _torchrun_variables(gang, grace_s, name)
    if kind == "none" and (several or per_gpu):
        env |= _rank_variables(gang, per_gpu)
    return env


def _torchrun_variables(gang: Gang, grace_s: float, name: str) -> dict[str, str]:
    """Return the variables that torchrun reads for options that are not on its command line."""
    env = {
        "PET_NNODES": str(len(gang.members)),
        "PET_RDZV_ID": name,
        # Weft restarts the gang as a whole
        "PET_MAX_RESTARTS": "0",
        # shorter than the grace, so that torchrun can collect its processes before it is killed
        "PET_SHUTDOWN_TIMEOUT": str(max(int(grace_s - min(5.0, grace_s / 5)), 1)),
    }
    if gang.this_member.gpus:
        env["PET_NPROC_PER_NODE"] = str(gang.this_member.gpus)
    if len(gang.members) == 1:
        return {**env, "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "localhost:0"}
    return {
        **env,
        "PET_NODE_RANK": str(gang.rank),
        "PET_MASTER_ADDR": gang.head.address,
        "PET_MASTER_PORT": str(gang.port),
        "PET_LOCAL_ADDR": gang.this_member.address,
        "PET_RDZV_BACKEND": "static",
        "PET_RDZV_ENDPOINT": f"{_bracket_ipv6(gang.head.address)}:{gang.port}",
    }


def _rank_variables(gang: Gang, per_gpu: bool) -> dict[str, str]:
    """Return the plain rank variables. With a process per GPU they describe the first process on this node; the
    ranks script increments them."""
    return {
        "MASTER_ADDR": gang.head.address,
        "MASTER_PORT": str(gang.port),
        "WORLD_SIZE": str(gang.processes if per_gpu else len(gang.members)),
        "RANK": str(gang.first_rank if per_gpu else gang.rank),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": str(max(gang.this_member.gpus, 1) if per_gpu else 1),
        "NODE_RANK": str(gang.rank),
    }


def _bracket_ipv6(address: str) -> str:
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
