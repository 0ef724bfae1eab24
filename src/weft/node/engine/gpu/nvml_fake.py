"""A file that simulates the driver, for tests without GPUs. It is read again when it changes.

docs/reference/gpus.md describes its format.
"""

from __future__ import annotations

import json
import logging
import os
from typing import Any

from weft.errors import InputError
from weft.node.engine.gpu.nvml import Device, GpuProcess, Reading

_log = logging.getLogger(__name__)

Stamp = tuple[int, int, int]


class FakeNvml:
    def __init__(self, path: str) -> None:
        self._path = path
        self._broken = False
        try:
            self._stamp = _stamp(path)
            self._devices, self._readings = _load(path)
        except OSError as error:
            raise InputError(f"cannot read the file: {error.strerror}", where=path) from None
        except ValueError as error:
            raise InputError(str(error), where=path, hint="docs/reference/gpus.md describes the format") from None

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def read(self) -> dict[int, Reading]:
        """Return the readings in the file; the previous ones while it is invalid or missing."""
        try:
            stamp = _stamp(self._path)
            if stamp != self._stamp:
                self._stamp = stamp
                self._readings = _load(self._path)[1]
                self._broken = False
        except (OSError, ValueError) as error:
            if not self._broken:
                _log.warning("%s: %s; keeping the previous readings", self._path, error)
            self._broken = True
        return self._readings

    def close(self) -> None:
        pass


def _stamp(path: str) -> Stamp:
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size, found.st_ino


def _load(path: str) -> tuple[tuple[Device, ...], dict[int, Reading]]:
    with open(path, "rb") as file:
        body = json.loads(file.read())
    rows = body.get("devices") if isinstance(body, dict) else None
    if not isinstance(rows, list):
        raise ValueError('expected an object with a list of "devices"')
    devices: list[Device] = []
    readings = {}
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise ValueError(f"device {number}: expected an object, not {row!r}")
        device, reading = _device(number, row)
        if any(device.index == other.index for other in devices):
            raise ValueError(f"device {number}: index {device.index} occurs twice")
        devices.append(device)
        if not row.get("vanished", False):
            readings[device.index] = reading
    return tuple(devices), readings


def _device(number: int, row: dict[str, Any]) -> tuple[Device, Reading]:
    unknown = set(row) - {
        "index",
        "uuid",
        "model",
        "memory_mb",
        "used_mb",
        "utilisation",
        "processes",
        "vanished",
        "error",
        "path",
        "energy_j",
    }
    if unknown:
        raise ValueError(f"device {number}: unknown key {min(unknown)!r}")
    index = _whole(row, "index", number, number)
    memory_mb, path = _whole(row, "memory_mb", 32768, number), str(row.get("path", ""))
    device = Device(index, str(row.get("uuid", "")), str(row.get("model", "")), memory_mb, path)
    processes = tuple(_process(number, seen) for seen in row.get("processes", ()))
    held = sum(process.used_mb or 0 for process in processes)
    utilisation = _whole(row, "utilisation", 0, number)
    energy_j = float(_whole(row, "energy_j", 0, number)) if "energy_j" in row else None
    used_mb, error = _whole(row, "used_mb", held, number), str(row.get("error", ""))
    return device, Reading(used_mb, utilisation, processes, energy_j, error)


def _process(number: int, row: object) -> GpuProcess:
    if not isinstance(row, dict) or "pid" not in row or set(row) - {"pid", "name", "used_mb", "visible"}:
        raise ValueError(
            f'device {number}: a process is an object with "pid", "name", "used_mb", "visible", not {row!r}'
        )
    used_mb = None if row.get("used_mb") is None else _whole(row, "used_mb", 0, number)
    return GpuProcess(
        _whole(row, "pid", 0, number), str(row.get("name", "")), used_mb, row.get("visible", True) is True
    )


def _whole(row: dict[str, Any], key: str, default: int, number: int) -> int:
    value = row.get(key, default)
    if type(value) is not int or value < 0:
        raise ValueError(f"device {number}: {key} must be a whole number of 0 or more, not {value!r}")
    return value
