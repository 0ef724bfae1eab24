"""The machine that a scheduler works on, as its settings and the driver say."""

from __future__ import annotations

import os
import platform
import re

from weft.errors import InputError
from weft.local.gpus import Declared, Machine, discover
from weft.local.nvml import NoDriver, Nvml, open_nvml
from weft.server.settings import Settings
from weft.wire.values import megabytes, whole

MOST_INDEX = 4095


def this_machine(settings: Settings) -> tuple[Machine, Nvml | NoDriver]:
    nvml = open_nvml(os.environ)
    name = re.sub(r"[^A-Za-z0-9_.-]", "", platform.node().split(".")[0]) or "local"
    return discover(name, nvml, declared(settings)), nvml


def declared(settings: Settings) -> Declared | None:
    """The GPUs that were declared, each list checked; None: the driver is asked."""
    if not settings.gpus:
        if settings.models or settings.memories:
            raise InputError("models or memories without GPUs", hint="add --gpus 0,1: one index for each")
        return None
    return Declared(
        tuple(whole(text, 0, MOST_INDEX) for text in settings.gpus.split(",")),
        tuple(text.strip() for text in settings.models.split(",")) if settings.models else (),
        tuple(megabytes(text) for text in settings.memories.split(",")) if settings.memories else (),
    )
