"""The checks that a job must pass to be accepted.

On one machine it must be able to run there. In a cluster, where nodes come and go, it must only be valid.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final, Protocol

from weft.errors import InputError, NotPermitted, UnknownName
from weft.history.journal.postgres.blobs import BlobTable
from weft.model import Job, Node, NodeId, Task
from weft.model.node import CONTAINERS
from weft.model.slots import format_message
from weft.scheduling.core.planning.feasibility import Feasible
from weft.scheduling.core.ports import Placement
from weft.scheduling.core.state.state import State
from weft.scheduling.core.state.teams import Teams
from weft.views.from_state.gpu_numbers import GpuNumbers

MAX_GPUS: Final = 100_000
MAX_MB: Final = 1 << 40
MAX_CPUS: Final = 1 << 20


def check_team(teams: Teams, name: str, user: str, *, is_admin: bool = False) -> None:
    """Raise unless a user may submit jobs for this team: as a member of it, or of its department, or as an admin. A
    team without members is open to all users."""
    if name not in teams.by_name:
        if not teams.by_name:
            raise InputError(f"there is no team {name[:80]!r}", hint="weft team add NAME adds one", key="team")
        raise UnknownName("team", name[:80], teams.by_name)
    members = [member for each in teams.path(name) for member in teams.by_name[each].members]
    if members and user not in members and not is_admin:
        raise NotPermitted(f"{user} is no member of team {name}\n  weft team list shows the members of teams")


class AdmissionRules(Protocol):
    """The rules for requests of jobs, and the meaning of names of nodes and GPUs in them."""

    numbers: GpuNumbers

    def begin(self) -> None:
        """Start checking a request: forget what the last one found."""

    def check(self, job: Job) -> None:
        """Raise if the job cannot be accepted."""

    def node(self, name: str) -> NodeId:
        """Return the node whose GPUs a job names by number."""

    def labels(self, name: str) -> tuple[tuple[str, str], ...]:
        """Return the labels that restrict a job to the node of this name."""

    def container_labels(self) -> tuple[tuple[str, str], ...]:
        """Return the labels of nodes that run containers."""

    def largest_mb(self) -> int | None:
        """Return the memory of the largest GPU; None if no GPU is known."""

    def has_gpus(self) -> bool:
        """Return whether a job that does not say how many GPUs it needs gets one: not where nodes have none."""

    def has_snapshot(self, name: str) -> bool:
        """Return whether a source snapshot of this name has been uploaded."""


class SingleNodeRules:
    """The rules of one machine. `check` also looks for the program, because it would start here."""

    def __init__(self, node: Node, numbers: GpuNumbers, placement: Placement) -> None:
        self._node, self.numbers = node, numbers
        self._feasible = Feasible([node], [placement])
        self._found: set[tuple[str, str, str]] = set()
        """Programs that the present request has found."""

    def begin(self) -> None:
        self._found.clear()

    def node(self, name: str) -> NodeId:
        if name not in ("", self._node.id):
            raise InputError(f"there is no node {name!r}", hint=f"the only node is {self._node.id}", key="node")
        return self._node.id

    def labels(self, name: str) -> tuple[tuple[str, str], ...]:
        self.node(name)
        return ()

    def container_labels(self) -> tuple[tuple[str, str], ...]:
        return ()

    def largest_mb(self) -> int | None:
        return max((gpu.memory_mb for gpu in self._node.gpus), default=0)

    def has_gpus(self) -> bool:
        return bool(self._node.gpus)

    def has_snapshot(self, name: str) -> bool:  # noqa: ARG002
        """Return False: on one machine, jobs run in the folder itself."""
        return False

    def check(self, job: Job) -> None:
        self._check_program(job)
        reason = format_message(self._feasible.why_not(job), self.numbers.renumbered)
        if reason:
            raise InputError(f"it {reason.replace('the cluster', 'this machine')}", hint=self._hint(job))

    def _hint(self, job: Job) -> str:
        if not job.gpus:
            return f"see weft nodes; this machine has {self._node.cpus} CPUs and {self._node.ram_mb:,} MB of RAM"
        if self._node.gpus:
            return "see weft gpus"
        return "no GPU is known here: declare some with weft up --gpus 0,1, or submit with --gpus 0"

    def _check_program(self, job: Job) -> None:
        task = job.task or Task()
        if task.chdir and not os.path.isdir(task.chdir):
            raise InputError(f"{task.chdir!r} is not a directory", key="chdir")
        program, path = job.command[0], dict(task.env).get("PATH", os.defpath)
        if task.image or (program, path, task.chdir) in self._found:
            return  # the program of a container is in its image
        self._found.add((program, path, task.chdir))
        if os.sep in program:
            program = os.path.join(task.chdir, program)
        if shutil.which(program, path=path) is None:
            raise InputError(
                f"there is no program {job.command[0][:200]!r} to run",
                hint="check its spelling, that it is executable, and PATH",
                key="command",
            )


class ClusterRules:
    """The rules of a cluster. A job that fits nowhere waits: a node that can hold it may join.

    `blobs` is the folder of uploaded files; None: it is not known which there are. `shared` has those of all servers.
    """

    def __init__(
        self, state: State, numbers: GpuNumbers, blobs: Path | None = None, shared: BlobTable | None = None
    ) -> None:
        self._state, self.numbers, self._blobs, self._shared = state, numbers, blobs, shared

    def begin(self) -> None:
        """Do nothing: no result is kept between two jobs."""

    def node(self, name: str) -> NodeId:
        living = [host.node.id for host in self._state.resources.nodes if host.alive]
        if name in living:
            return name
        if name:
            what = f"the GPUs of node {name[:80]!r} are not known: it is not connected"
            raise InputError(what, hint="see weft nodes", key="node")
        if len(living) == 1:
            return living[0]
        what = "GPU numbers are ambiguous on several nodes"
        raise InputError(what, hint="add --node NAME; see weft nodes", key="node")

    def labels(self, name: str) -> tuple[tuple[str, str], ...]:
        return (("node", name),) if name else ()

    def container_labels(self) -> tuple[tuple[str, str], ...]:
        return (CONTAINERS,)

    def largest_mb(self) -> int | None:
        return self._state.resources.largest_memory_mb() or None

    def has_gpus(self) -> bool:
        living = [host.node for host in self._state.resources.nodes if host.alive]
        return not living or any(node.gpus for node in living)

    def has_snapshot(self, name: str) -> bool:
        if self._blobs is None or (self._blobs / name).exists():
            return True
        return self._shared is not None and name in self._shared.names

    def check(self, job: Job) -> None:
        for key, value, most in (
            ("gpus", job.gpus, MAX_GPUS), ("memory", job.memory_mb.max, MAX_MB), ("cpus", job.cpus, MAX_CPUS),
            ("mem", job.ram_mb, MAX_MB),
        ):  # fmt: skip
            if value > most:
                raise InputError(f"{value:,} is too many", hint=f"at most {most:,} are supported", key=key)
        task = job.task or Task()
        if task.image:
            self._check_containers()
        if task.chdir and not task.snapshot and not os.path.isabs(task.chdir):
            what = f"{task.chdir[:200]!r} is not an absolute path"
            raise InputError(what, hint="the directory must exist on the node", key="chdir")

    def _check_containers(self) -> None:
        """Raise if no node runs containers, and no pool could bring one that does."""
        living = [host.node for host in self._state.resources.nodes if host.alive]
        if living and not self._state.pools.by_name and not any(CONTAINERS in node.labels for node in living):
            raise InputError(
                "no node of this cluster runs containers: its workers run jobs as their submitters, and a container "
                "runtime would have the rights of root",
                hint="leave the image out, or start a worker with --run-as worker", key="image",
            )  # fmt: skip
