"""The GPUs of an allocation: those that the site's scheduler names in the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from weft.errors import InputError
from weft.inputs.quantities import parse_megabytes
from weft.model import Gpu
from weft.node.engine.gpu.discovery import Machine, machine_with
from weft.node.engine.gpu.nvml import Device, NoDriver, Nvml, open_nvml

ALLOCATED: Final = "allocated"
VARIABLES: Final = ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "ROCR_VISIBLE_DEVICES")
"""The variables that name the GPUs of an allocation; the first that is set counts."""
NONE: Final = ("NoDevFiles", "void", "none", "-1")


def allocated_names(env: Mapping[str, str]) -> list[str]:
    """Return the indices, UUIDs or MIG devices of the allocation."""
    found = next((env[name] for name in VARIABLES if env.get(name, "").strip()), "")
    names = [name.strip() for name in found.split(",") if name.strip()]
    if not names or names[0] in NONE:
        raise InputError(
            "--gpus allocated: no variable names the GPUs of an allocation",
            hint=f"{VARIABLES[0]} is set inside an allocation with GPUs; ask the site's scheduler for some",
        )
    return names


def discover_allocated(
    models: str, memories: str, *, name: str, pretend: bool = False, env: Mapping[str, str] = os.environ
) -> tuple[Machine, Nvml | NoDriver]:
    """Return this machine with the GPUs of the allocation. One model and one memory count for all of them."""
    nvml = NoDriver("not asked: the GPUs are only declared") if pretend else open_nvml(env)
    known = () if isinstance(nvml, NoDriver) else nvml.devices()
    names = allocated_names(env)
    devices = [_device(each, at, known) for at, each in enumerate(names)]
    model_of, memory_of = (
        _one_for_each("models", models, len(devices)),
        _one_for_each("memories", memories, len(devices)),
    )
    devices = [
        # a driver knows better, but not about parts of a GPU
        device
        if device.memory_mb
        else Device(device.index, device.uuid, model, parse_megabytes(memory) if memory else Gpu().memory_mb)
        for device, model, memory in zip(devices, model_of, memory_of, strict=True)
    ]
    note = nvml.reason if isinstance(nvml, NoDriver) else ""
    return machine_with(name, tuple(devices), "declared", note), nvml


def _device(name: str, position: int, known: Sequence[Device]) -> Device:
    """Return the device of this name; without memory if the driver does not know it."""
    if name.isascii() and name.isdecimal():
        found = next((device for device in known if device.index == int(name)), None)
        if found is None and known:
            listed = ", ".join(str(device.index) for device in known)
            raise InputError(f"--gpus allocated: there is no GPU {name}", hint=f"the driver has {listed}")
        return found or Device(int(name), "", "", 0)
    # CUDA accepts the beginning of a UUID
    found = next((device for device in known if device.uuid.startswith(name)), None)
    return found or Device(position, name, "", 0)


def _one_for_each(what: str, text: str, count: int) -> list[str]:
    words = [word.strip() for word in text.split(",")] if text else [""]
    if len(words) == 1:
        return words * count
    if len(words) != count:
        raise InputError(f"--{what}: {len(words)} for {count} GPUs", hint="give one for all, or one per GPU")
    return words
