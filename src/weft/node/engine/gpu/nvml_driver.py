"""The NVIDIA driver, through nvidia-ml-py. No other module imports that library."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from importlib import import_module
from typing import Any

from weft.node.engine.gpu.nvml import Device, GpuProcess, NoDriver, Nvml, Reading

_MB = 1 << 20
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""Xids that a program causes by its own mistakes: the GPU is not broken."""


def open_driver() -> Nvml | NoDriver:
    try:
        pynvml: Any = import_module("pynvml")
    except ImportError:
        return NoDriver("nvidia-ml-py is not installed")
    try:
        pynvml.nvmlInit()
        return Driver(pynvml)
    except pynvml.NVMLError as error:
        return NoDriver(f"the NVIDIA driver does not answer: {error}")


class Driver:
    def __init__(self, pynvml: Any) -> None:
        self._nvml = pynvml
        self._handles = {
            index: pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())
        }
        self._devices = tuple(self._device(index, handle) for index, handle in self._handles.items())
        self._xids: dict[int, int] = {}
        self._events = self._watch_xids()

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def read(self) -> dict[int, Reading]:
        readings = {}
        self._collect_xids()
        for index, handle in self._handles.items():
            with contextlib.suppress(self._nvml.NVMLError):
                readings[index] = replace(self._read(handle), error=self._error(index, handle))
        return readings

    def close(self) -> None:
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def _watch_xids(self) -> Any:
        """Return an event set of the critical errors of all GPUs; None if the driver has none."""
        nvml = self._nvml
        try:
            events = nvml.nvmlEventSetCreate()
        except (nvml.NVMLError, AttributeError):
            return None
        for handle in self._handles.values():
            with contextlib.suppress(nvml.NVMLError):
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
        return events

    def _collect_xids(self) -> None:
        """Record the critical errors since the last call. The last one of a GPU stays until a restart."""
        nvml = self._nvml
        with contextlib.suppress(nvml.NVMLError):
            while self._events is not None:  # ends with a timeout, which is an error
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
                if event.eventData not in APPLICATION_XIDS:
                    self._xids[nvml.nvmlDeviceGetIndex(event.device)] = event.eventData

    def _error(self, index: int, handle: Any) -> str:
        nvml, found = self._nvml, []
        if index in self._xids:
            found.append(f"Xid {self._xids[index]}")
        with contextlib.suppress(nvml.NVMLError, AttributeError):
            count = nvml.nvmlDeviceGetTotalEccErrors(
                handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
            )
            found += ["uncorrected ECC errors"] if count else []
        return ", ".join(found)

    def _device(self, index: int, handle: Any) -> Device:
        nvml = self._nvml
        total = nvml.nvmlDeviceGetMemoryInfo(handle).total // _MB
        path = ""
        with contextlib.suppress(nvml.NVMLError, AttributeError):
            path = f"/dev/nvidia{nvml.nvmlDeviceGetMinorNumber(handle)}"
        uuid, name = _text(nvml.nvmlDeviceGetUUID(handle)), _text(nvml.nvmlDeviceGetName(handle))
        return Device(index, uuid, name, total, path)

    def _read(self, handle: Any) -> Reading:
        nvml = self._nvml
        utilisation = None
        with contextlib.suppress(nvml.NVMLError):
            utilisation = nvml.nvmlDeviceGetUtilizationRates(handle).gpu
        found: dict[int, GpuProcess] = {}
        for list_processes in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
            with contextlib.suppress(nvml.NVMLError_NotSupported):
                found.update(
                    (process.pid, _process(process.pid, process.usedGpuMemory)) for process in list_processes(handle)
                )
        return Reading(self._used_mb(handle), utilisation, tuple(found.values()), self._energy_j(handle))

    def _energy_j(self, handle: Any) -> float | None:
        with contextlib.suppress(self._nvml.NVMLError, AttributeError):
            return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1000.0  # in millijoules
        return None

    def _used_mb(self, handle: Any) -> int:
        """Return the memory in use, without the driver's reserve if the driver reports it separately."""
        nvml = self._nvml
        try:
            used = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).used
        except nvml.NVMLError_FunctionNotFound:
            used = nvml.nvmlDeviceGetMemoryInfo(handle).used
        return int(used // _MB)


def _process(pid: int, used_bytes: int | None) -> GpuProcess:
    used_mb = None if used_bytes is None else used_bytes // _MB
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return GpuProcess(pid, file.read().strip(), used_mb)
    except OSError:
        return GpuProcess(pid, "", used_mb, visible=os.path.exists(f"/proc/{pid}"))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
