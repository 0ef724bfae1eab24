"""The common part of podman and docker: the flags of a container, its state, and what a failure means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from weft.inputs.mounts import Mount
from weft.node.engine.container.port import Answer, ContainerSpec, ExitState, NamedContainers, state_of

BAD_IMAGE: Final = "bad-image"
BAD_CONTAINER: Final = "bad-container"
_IMAGE_PROBLEMS: Final = (
    "image not known", "no such image", "unable to find image", "manifest unknown", "pull access denied",
    "initializing source", "short-name", "repository does not exist", "not found: manifest", "unable to pull",
    "invalid reference format", "requested access to the resource is denied", "unable to copy from source",
    "name unknown", "failed to resolve reference", "unable to retrieve auth token", "unknown/unsupported transport",
)  # fmt: skip
_ERROR_PREFIXES: Final = ("Error: ", "docker: ", "FATAL:")
MAX_DETAIL_CHARS: Final = 400


class OciRuntime:
    """The part of podman and docker that is the same."""

    name: str = ""

    @property
    def named(self) -> NamedContainers:
        return self

    def client_env(self, spec: ContainerSpec) -> dict[str, str]:
        return {**spec.env, **spec.host_env}

    def enter(self, spec: ContainerSpec, command: Sequence[str], *, terminal: bool) -> Sequence[str]:
        workdir = ["--workdir", spec.workdir] if spec.workdir else []
        return ["exec", "--interactive", *["--tty"] * terminal, *workdir, spec.name, *command]

    def inspect(self, name: str) -> Sequence[str]:
        return ["container", "inspect", name]

    def read_state(self, text: str) -> ExitState:
        state = state_of(text).get("State") or {}
        started = not str(state.get("StartedAt", "0001-")).startswith("0001-")
        return ExitState(started, bool(state.get("Running")), bool(state.get("OOMKilled")))

    def read_pid(self, text: str) -> int:
        state = state_of(text).get("State") or {}
        return int(state.get("Pid") or 0) if state.get("Running") else 0

    def list_containers(self, labels: Mapping[str, str]) -> Sequence[str]:
        filters = [part for name, value in labels.items() for part in ("--filter", f"label={name}={value}")]
        return ["ps", "--all", "--quiet", "--no-trunc", *filters]

    def remove(self, name: str) -> Sequence[str]:
        return ["rm", "--force", name]

    def kill(self, name: str, signal_name: str) -> Sequence[str]:
        return ["kill", "--signal", signal_name, name]

    def describe_failure(self, log: str) -> tuple[str, str]:
        return describe_failure(log, self.name)


def common_flags(spec: ContainerSpec, answer: Answer) -> list[str]:
    """Return the flags that podman and docker share."""
    # without root, podman fails to share the IPC of a node that has no message queues; shared memory is what runs need
    shares_memory_only = answer.rootless and not spec.has_mqueue
    ipc = ["--volume", "/dev/shm:/dev/shm"] if shares_memory_only else ["--ipc", "host"]
    flags = ["--name", spec.name, "--network", "host", *ipc]
    if answer.has_init:
        flags.append("--init")
    if spec.terminal:
        flags += ["--interactive", "--tty"]
    for name, value in spec.labels.items():
        flags += ["--label", f"{name}={value}"]
    for mount in spec.mounts:
        flags += ["--volume", volume(mount)]
    if spec.workdir:
        flags += ["--workdir", spec.workdir]
    if answer.limits_memory and spec.ram_mb:
        flags += ["--memory", f"{spec.ram_mb}m", "--memory-swap", f"{spec.ram_mb}m"]
    if answer.limits_memory and spec.cpus:
        flags += ["--cpus", str(spec.cpus)]
    for name, value in spec.env.items():
        # other users see the arguments of a process, but not its variables
        flags += ["--env", f"{name}={value}" if name in spec.host_env else name]
    if spec.devices.amd and spec.devices.gpus:
        flags += ["--device", "/dev/kfd", "--device", "/dev/dri"]
    return flags


def volume(mount: Mount) -> str:
    return f"{mount.source}:{mount.target}:{'ro' if mount.read_only else 'rw'}"


def describe_failure(log: str, name: str) -> tuple[str, str]:
    """Return the exit reason and the explanation of a container that did not start."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if line.startswith(_ERROR_PREFIXES)), lines[-1] if lines else "")
    for prefix in _ERROR_PREFIXES:
        said = said.removeprefix(prefix).strip()
    why = BAD_IMAGE if any(each in said.lower() for each in _IMAGE_PROBLEMS) else BAD_CONTAINER
    return why, f"{name}: {said[:MAX_DETAIL_CHARS] or 'the container did not start'}"
