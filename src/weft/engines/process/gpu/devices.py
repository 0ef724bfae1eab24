"""Which devices are behind the node's GPUs, kept for a scheduler that starts while jobs still run on them."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Final

from weft.engines.process.gpu.nvml import Device

FILE: Final = "devices.json"


def load_devices(state: Path) -> tuple[Device, ...]:
    """Empty where nobody knows."""
    try:
        return tuple(Device(**device) for device in json.loads((state / FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return ()


def save_devices(state: Path, devices: tuple[Device, ...]) -> None:
    beside = state / f"{FILE}.tmp"
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump([asdict(device) for device in devices], file)
    beside.replace(state / FILE)
