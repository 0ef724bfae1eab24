"""This machine as a node, from the command line and the driver."""

from __future__ import annotations

import os
import platform
import re
from typing import Final

from weft.errors import InputError
from weft.inputs.quantities import parse_megabytes, parse_whole
from weft.node.engine.gpu.discovery import DeclaredGpus, Machine, discover
from weft.node.engine.gpu.nvml import NoDriver, Nvml, open_nvml

MAX_GPU_INDEX: Final = 4095
NO_GPUS: Final = "none"


def discover_this_machine(
    gpus: str, models: str, memories: str, *, name: str = "", pretend: bool = False
) -> tuple[Machine, Nvml | NoDriver]:
    """Return this machine with its declared GPUs, or those of the driver, and the driver.

    `name` is the node's name, by default the host's. With `pretend`, declared GPUs need not exist.
    """
    nvml = NoDriver("not asked: the GPUs are only declared") if pretend else open_nvml(os.environ)
    return discover(name or host_name(), nvml, parse_declared(gpus, models, memories)), nvml


def host_name() -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "", platform.node().split(".")[0]) or "local"


def parse_declared(gpus: str, models: str, memories: str) -> DeclaredGpus | None:
    """Parse three lists such as 0,1. `none` declares no GPUs; an empty list returns None: ask the driver."""
    if not gpus:
        if models or memories:
            raise InputError("models or memories without GPUs", hint="add --gpus 0,1 with one index per entry")
        return None
    if gpus == NO_GPUS:
        return DeclaredGpus(())
    return DeclaredGpus(
        tuple(parse_whole(text, 0, MAX_GPU_INDEX) for text in gpus.split(",")),
        tuple(text.strip() for text in models.split(",")) if models else (),
        tuple(parse_megabytes(text) for text in memories.split(",")) if memories else (),
    )
