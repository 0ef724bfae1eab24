"""The device files of GPUs: which of them a run must not open."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable
from typing import Final

from weft.node.engine.gpu.nvml import Device
from weft.node.engine.users.device_filter import DeviceNumber

DEV: Final = "/dev"
_GPU_FILE: Final = re.compile(r"nvidia[0-9]+")


def gpus_of_others(devices: Iterable[Device], own: Collection[int], dev: str = DEV) -> list[DeviceNumber]:
    """Return the numbers of all GPUs of this machine except those with the indices `own`.

    Return none if the file of an own GPU is unknown: the run might lose it.
    """
    known = {device.index: device.path for device in devices}
    mine = {known.get(index, "") for index in own}
    if "" in mine:
        return []
    files = {f"{dev}/{name}" for name in os.listdir(dev) if _GPU_FILE.fullmatch(name)} | set(known.values()) - {""}
    allowed = {found for path in mine if (found := _number(path))}
    return sorted({found for path in files - mine if (found := _number(path))} - allowed)


def _number(path: str) -> DeviceNumber | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (os.major(found.st_rdev), os.minor(found.st_rdev)) if stat.S_ISCHR(found.st_mode) else None
