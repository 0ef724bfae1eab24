"""This machine as a node, as its user and the driver say."""

from __future__ import annotations

import os
import platform
import re
from typing import Final

from weft.engines.process.gpu.discovery import Declared, Machine, discover
from weft.engines.process.gpu.nvml import NoDriver, Nvml, open_nvml
from weft.errors import InputError
from weft.inputs.quantities import parse_megabytes, parse_whole

MAX_GPU_INDEX: Final = 4095


NO_GPUS: Final = "none"


def this_machine(
    gpus: str, models: str, memories: str, *, name: str = "", pretend: bool = False
) -> tuple[Machine, Nvml | NoDriver]:
    """With the GPUs that were declared, or else those that the driver knows; `name`: of the node, else the host's.
    With `pretend`, what was declared need not be there."""
    nvml = NoDriver("not asked: the GPUs are only declared") if pretend else open_nvml(os.environ)
    return discover(name or host_name(), nvml, declared(gpus, models, memories)), nvml


def host_name() -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "", platform.node().split(".")[0]) or "local"


def declared(gpus: str, models: str, memories: str) -> Declared | None:
    """Three lists such as 0,1, each checked; `none`: no GPUs; None: the driver is asked."""
    if not gpus:
        if models or memories:
            raise InputError("models or memories without GPUs", hint="add --gpus 0,1: one index for each")
        return None
    if gpus == NO_GPUS:
        return Declared(())
    return Declared(
        tuple(parse_whole(text, 0, MAX_GPU_INDEX) for text in gpus.split(",")),
        tuple(text.strip() for text in models.split(",")) if models else (),
        tuple(parse_megabytes(text) for text in memories.split(",")) if memories else (),
    )
