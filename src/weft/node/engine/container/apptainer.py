"""Apptainer, and Singularity before it: no daemon, no names; a container is a process with another root directory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weft.node.engine.container.oci import BAD_CONTAINER, describe_failure, volume
from weft.node.engine.container.port import Answer, ContainerSpec, NamedContainers

ENV_PREFIX: Final = "APPTAINERENV_"
_SCHEME: Final = "docker://"


class Apptainer:
    name: str = "apptainer"
    writes_pid_file: bool = False

    @property
    def named(self) -> NamedContainers | None:
        return None

    def ask(self) -> Sequence[str]:
        return ["version"]

    def read_answer(self, program: str, text: str) -> Answer | None:
        version = text.strip().splitlines()[-1].strip() if text.strip() else ""
        return Answer(self.name, program, version, rootless=True) if version[:1].isdigit() else None

    def run(self, spec: ContainerSpec, answer: Answer) -> Sequence[str]:
        del answer
        return self.enter(spec, spec.command, terminal=spec.terminal)

    def client_env(self, spec: ContainerSpec) -> dict[str, str]:
        return {**spec.host_env, **{f"{ENV_PREFIX}{name}": value for name, value in spec.env.items()}}

    def enter(self, spec: ContainerSpec, command: Sequence[str], *, terminal: bool) -> Sequence[str]:
        """A second command gets a second container of the same image, with the same files and variables."""
        del terminal
        flags = ["--cleanenv", "--no-eval"]
        if spec.devices.gpus and spec.devices.nvidia:
            flags.append("--nv")
        elif spec.devices.gpus and spec.devices.amd:
            flags.append("--rocm")
        for mount in spec.mounts:
            flags += ["--bind", volume(mount)]
        if spec.workdir:
            flags += ["--pwd", spec.workdir]
        return ["exec", *flags, image_address(spec.image), *command]

    def describe_failure(self, log: str) -> tuple[str, str]:
        why, detail = describe_failure(log, self.name)
        about_image = why == BAD_CONTAINER and any(word in detail for word in ("image", "Unable to handle docker://"))
        return ("bad-image" if about_image else why), detail


def image_address(image: str) -> str:
    """Return the image as apptainer names it: a file, or an address with a scheme. A bare name is one of a registry."""
    is_file = image.startswith(("/", "./", "../", "~")) or image.endswith((".sif", ".sqsh", ".img"))
    return image if is_file or "://" in image else f"{_SCHEME}{image}"
