"""What this machine has."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass

from weft.errors import InputError
from weft.model import Gpu, Node
from weft.server.settings import Settings


@dataclass(frozen=True)
class Machine:
    node: Node
    uuids: tuple[str, ...] = ()


def this_machine(settings: Settings) -> Machine:
    gpus = _declared(settings) if settings.gpus else ()
    name = re.sub(r"[^A-Za-z0-9_.-]", "", platform.node().split(".")[0]) or "local"
    return Machine(Node(name, gpus, cpus=len(os.sched_getaffinity(0)), ram_mb=_ram_mb()))


def _declared(settings: Settings) -> tuple[Gpu, ...]:
    count = len(settings.gpus.split(","))
    models = settings.models.split(",") if settings.models else [""] * count
    memories = settings.memories.split(",") if settings.memories else ["24576"] * count
    if not len(models) == len(memories) == count:
        raise InputError(
            f"{count} GPUs, {len(models)} models, {len(memories)} memories", hint="give one of each per GPU"
        )
    return tuple(Gpu(model, int(memory)) for model, memory in zip(models, memories, strict=True))


def _ram_mb() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
