"""The port of container runtimes: what Weft asks of podman, docker and apptainer. It runs no command itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from weft.inputs.mounts import Mount

LABEL_HOME: Final = "weft.home"
"""The folder of all runs of one engine: labels of two schedulers on one machine differ in it."""
LABEL_JOB: Final = "weft.job"
LABEL_RUN: Final = "weft.run"


class ContainerError(Exception):
    """A container that cannot start: `why` is the exit reason of the run, the text explains it."""

    def __init__(self, why: str, detail: str) -> None:
        super().__init__(detail)
        self.why, self.detail = why, detail


class Answer(NamedTuple):
    """A runtime that works, as it describes itself."""

    name: str
    program: str
    """The path of its program."""
    version: str
    rootless: bool = False
    limits_memory: bool = False
    """It can limit the memory and CPUs of a container."""
    has_init: bool = False
    """It can start a process that forwards signals and reaps children, as the first process of a container."""
    has_more_ids: bool = True
    """Without root: containers have further user ids, those of /etc/subuid. Otherwise they have one, root's, which is
    this user outside."""


class Devices(NamedTuple):
    """The GPUs of a run on this node, and how this node passes GPUs to containers."""

    gpus: tuple[str, ...] = ()
    """UUIDs where known, else numbers."""
    nvidia: bool = False
    """This node has NVIDIA's driver."""
    cdi: bool = False
    """This node describes its GPUs for containers (Container Device Interface)."""
    hook: bool = False
    """NVIDIA's hook for OCI runtimes is installed: it reads NVIDIA_VISIBLE_DEVICES."""
    amd: bool = False


NO_DEVICES: Final = Devices()


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One container to start."""

    name: str
    image: str
    command: tuple[str, ...]
    mounts: tuple[Mount, ...] = ()
    workdir: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    """The variables of the container."""
    host_env: Mapping[str, str] = field(default_factory=dict)
    """The variables of the runtime's program."""
    labels: Mapping[str, str] = field(default_factory=dict)
    devices: Devices = NO_DEVICES
    ram_mb: int = 0
    cpus: int = 0
    terminal: bool = False
    pid_file: str = ""
    """The file to which the runtime may write the pid of the container's first process."""
    user: tuple[int, int] = (0, 0)
    selinux: bool = False
    has_mqueue: bool = True
    """The node has /dev/mqueue."""


class ExitState(NamedTuple):
    """The state of a container that has ended or was never started, as its runtime knows it."""

    started: bool
    running: bool = False
    out_of_memory: bool = False


class NamedContainers(Protocol):
    """The containers of a runtime that gives them names, and keeps them after their end until they are removed."""

    def inspect(self, name: str) -> Sequence[str]: ...

    def read_state(self, text: str) -> ExitState: ...

    def read_pid(self, text: str) -> int:
        """Return the pid of the container's first process on this node, from what `inspect` printed; 0: none."""

    def remove(self, name: str) -> Sequence[str]: ...

    def list_containers(self, labels: Mapping[str, str]) -> Sequence[str]:
        """Return the arguments that list the ids of containers with these labels."""

    def kill(self, name: str, signal_name: str) -> Sequence[str]: ...


class ContainerRuntime(Protocol):
    """One container runtime. Every method returns arguments for its program, or reads what the program printed."""

    name: str
    writes_pid_file: bool
    """It writes the pid of the container's first process to `ContainerSpec.pid_file`."""

    @property
    def named(self) -> NamedContainers | None:
        """None: a container is only a process, and is gone when the process ends."""

    def ask(self) -> Sequence[str]:
        """Return the arguments with which the runtime says whether it works."""

    def read_answer(self, program: str, text: str) -> Answer | None:
        """Return what the runtime says of itself; None: it does not work."""

    def run(self, spec: ContainerSpec, answer: Answer) -> Sequence[str]:
        """Return the arguments that run a container until it ends. Raise ContainerError if it cannot be."""

    def client_env(self, spec: ContainerSpec) -> dict[str, str]:
        """Return the environment of the program: the node's, with what passes variables to the container."""

    def enter(self, spec: ContainerSpec, command: Sequence[str], *, terminal: bool) -> Sequence[str]:
        """Return the arguments that run another command in the container."""

    def describe_failure(self, log: str) -> tuple[str, str]:
        """Return the exit reason and the explanation of a container that did not start, from the end of its log."""


def state_of(text: str) -> dict[str, Any]:
    """Return the object in the JSON that podman and docker print; empty if there is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    first = found[0] if isinstance(found, list) and found else found
    return first if isinstance(first, dict) else {}
