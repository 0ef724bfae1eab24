"""The driver's own words, spoken by a stand-in for nvidia-ml-py: there is no driver where tests run."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

from weft.node.engine.gpu.nvml import Device, GpuProcess, Reading
from weft.node.engine.gpu.nvml_driver import Driver

MB = 1 << 20


class NvmlError(Exception):
    pass


class Unsupported(NvmlError):
    pass


class Library:
    """Two GPUs, of which the second may fall off its bus."""

    NVMLError = NvmlError
    NVMLError_NotSupported = Unsupported
    NVMLError_FunctionNotFound = Unsupported
    nvmlMemory_v2 = 2  # noqa: N815

    def __init__(self) -> None:
        self.lost = False

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:  # noqa: N802
        return b"GPU-%d" % handle

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return "A100"

    def nvmlDeviceGetMemoryInfo(self, handle: int, version: int | None = None) -> Any:  # noqa: N802
        if version:
            raise Unsupported
        return SimpleNamespace(total=40960 * MB, used=(handle + 1) * 1000 * MB)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:  # noqa: N802
        if handle == 1:
            raise Unsupported
        return SimpleNamespace(gpu=42)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:  # noqa: N802
        if handle == 1 and self.lost:
            raise NvmlError("GPU is lost")
        pids = (os.getpid(), 2**22 + 7)
        return [SimpleNamespace(pid=pid, usedGpuMemory=500 * MB) for pid in pids] if handle == 0 else []

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: int) -> list[Any]:  # noqa: N802
        raise Unsupported


def test_what_the_driver_says() -> None:
    library = Library()
    driver = Driver(library)
    assert driver.devices() == (Device(0, "GPU-0", "A100", 40960), Device(1, "GPU-1", "A100", 40960))
    with open("/proc/self/comm", encoding="utf-8") as file:
        me = GpuProcess(os.getpid(), file.read().strip(), 500)
    hidden = GpuProcess(2**22 + 7, "", 500, visible=False)
    assert driver.read() == {0: Reading(1000, 42, (me, hidden)), 1: Reading(2000, None)}
    library.lost = True
    assert list(driver.read()) == [0]


class FailingLibrary(Library):
    """Has the events of critical errors, and counts ECC errors of the second GPU."""

    nvmlEventTypeXidCriticalError = 8  # noqa: N815
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0

    def __init__(self) -> None:
        super().__init__()
        self.watched: list[int] = []
        self.xids: list[tuple[int, int]] = []
        self.ecc = 0

    def nvmlEventSetCreate(self) -> str:  # noqa: N802
        return "events"

    def nvmlDeviceRegisterEvents(self, handle: int, kinds: int, events: str) -> None:  # noqa: N802
        assert (kinds, events) == (8, "events")
        self.watched.append(handle)

    def nvmlEventSetWait_v2(self, events: str, timeout_ms: int) -> Any:  # noqa: N802
        assert (events, timeout_ms) == ("events", 0)
        if not self.xids:
            raise NvmlError("timeout")
        device, xid = self.xids.pop(0)
        return SimpleNamespace(device=device, eventData=xid)

    def nvmlDeviceGetIndex(self, handle: int) -> int:  # noqa: N802
        return handle

    def nvmlDeviceGetTotalEccErrors(self, handle: int, kind: int, counter: int) -> int:  # noqa: N802
        assert (kind, counter) == (1, 0)
        return self.ecc if handle == 1 else 0


def test_critical_errors_stay_and_those_of_programs_do_not_count() -> None:
    library = FailingLibrary()
    driver = Driver(library)
    assert library.watched == [0, 1]

    def errors() -> list[str]:
        return [reading.error for reading in driver.read().values()]

    library.xids = [(0, 31), (1, 13)]
    assert errors() == ["", ""]
    library.xids = [(0, 79)]
    library.ecc = 2
    assert errors() == ["Xid 79", "uncorrected ECC errors"]
    assert errors() == ["Xid 79", "uncorrected ECC errors"]
