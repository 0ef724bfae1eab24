"""The interface to the GPU driver. The NVIDIA driver and a file that simulates it implement it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

FAKE: Final = "WEFT_NVML_FAKE"
"""Environment variable with the path of a file that simulates the driver."""


@dataclass(frozen=True, slots=True)
class Device:
    index: int
    uuid: str = ""
    """Empty: unknown."""
    model: str = ""
    memory_mb: int = 0
    path: str = field(default="", compare=False)
    """Its device file; empty: unknown."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    pid: int
    name: str = ""
    used_mb: int | None = None
    """None: the driver does not report it."""
    visible: bool = True
    """False: a process in another pid namespace, such as a container. Only its number is known."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One GPU at one moment."""

    used_mb: int = 0
    utilisation: int | None = None
    """In percent."""
    processes: tuple[GpuProcess, ...] = ()
    energy_j: float | None = None
    """The energy that the GPU has used since the driver was loaded; None: the driver does not report it."""
    error: str = ""
    """The fault that the driver reports: a critical Xid, or uncorrected ECC errors. Empty: nothing."""


class Nvml(Protocol):
    """The driver as Weft uses it."""

    def devices(self) -> tuple[Device, ...]:
        """Return the devices as of the time of opening."""
        ...

    def read(self) -> Mapping[int, Reading]:
        """Read every GPU, by index. Leave out GPUs that do not answer."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class NoDriver:
    """There is no GPU driver to ask."""

    reason: str


def open_nvml(environ: Mapping[str, str]) -> Nvml | NoDriver:
    """Open the driver, or the file that simulates it."""
    if path := environ.get(FAKE):
        from weft.node.engine.gpu.nvml_fake import FakeNvml

        return FakeNvml(path)
    from weft.node.engine.gpu.nvml_driver import open_driver

    return open_driver()
