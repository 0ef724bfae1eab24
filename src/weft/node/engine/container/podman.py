"""Podman: no daemon. The processes of a container are descendants of the program that starts it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Final

from weft.node.engine.container.oci import OciRuntime, common_flags
from weft.node.engine.container.port import Answer, ContainerError, ContainerSpec, state_of

INIT_PATHS: Final = ("/usr/libexec/podman/catatonit", "/usr/lib/podman/catatonit", "/usr/bin/catatonit")


class Podman(OciRuntime):
    name: str = "podman"
    writes_pid_file: bool = True

    def ask(self) -> Sequence[str]:
        return ["info", "--format", "json"]

    def read_answer(self, program: str, text: str) -> Answer | None:
        found = state_of(text)
        host, version = found.get("host") or {}, found.get("version") or {}
        if not host:
            return None
        has_init = any(os.path.exists(path) for path in INIT_PATHS) or shutil.which("catatonit") is not None
        rootless = bool((host.get("security") or {}).get("rootless"))
        controllers = host.get("cgroupControllers") or []
        ids = (host.get("idMappings") or {}).get("uidmap") or []
        return Answer(
            self.name, program, str(version.get("Version", "")), rootless, "memory" in controllers, has_init=has_init,
            has_more_ids=not rootless or sum(int(each.get("size", 0)) for each in ids) > 1,
        )  # fmt: skip

    def run(self, spec: ContainerSpec, answer: Answer) -> Sequence[str]:
        # the container inherits the log itself: its output passes through no other process
        flags = [] if spec.terminal else ["--log-driver", "passthrough"]
        if spec.pid_file:
            flags += ["--pidfile", spec.pid_file]
        if answer.rootless and answer.has_more_ids:
            flags += ["--userns", "keep-id"]
        if spec.selinux:
            flags += ["--security-opt", "label=disable"]
        devices = spec.devices
        if devices.gpus and devices.cdi:
            flags += [part for gpu in devices.gpus for part in ("--device", f"nvidia.com/gpu={gpu}")]
        elif devices.gpus and devices.nvidia and not devices.hook:
            raise ContainerError(
                "no-runtime",
                "podman cannot pass on NVIDIA GPUs here: nothing in /etc/cdi or /var/run/cdi describes them; "
                "as root, run nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
            )
        return ["run", *flags, *common_flags(spec, answer), spec.image, *spec.command]

    def remove(self, name: str) -> Sequence[str]:
        return ["rm", "--force", "--time", "0", "--ignore", name]
