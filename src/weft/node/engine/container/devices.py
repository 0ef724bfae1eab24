"""The ways in which this node passes GPUs to containers."""

from __future__ import annotations

import glob
import os
from typing import Final

from weft.node.engine.container.port import Devices

CDI_FOLDERS: Final = ("/etc/cdi", "/var/run/cdi")
HOOKS: Final = ("/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d")


def find_devices(gpus: tuple[str, ...], root: str = "") -> Devices:
    """Return the GPUs of a run and how to pass them on. `root` is another root of the file system, for tests."""
    cdi = any(_describes_nvidia(path) for folder in CDI_FOLDERS for path in sorted(glob.glob(f"{root}{folder}/*")))
    hook = any("nvidia" in os.path.basename(path) for folder in HOOKS for path in glob.glob(f"{root}{folder}/*.json"))
    return Devices(
        gpus,
        nvidia=os.path.exists(f"{root}/dev/nvidiactl"),
        cdi=cdi,
        hook=hook,
        amd=os.path.exists(f"{root}/dev/kfd"),
    )


def _describes_nvidia(path: str) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return "nvidia.com/gpu" in file.read(1 << 20)
    except OSError:
        return False
