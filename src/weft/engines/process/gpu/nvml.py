"""The one seam to the GPUs' driver: what can be asked of it. The driver itself and a file that plays it answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

FAKE: Final = "WEFT_NVML_FAKE"
"""The variable that names a file to play the driver."""


@dataclass(frozen=True, slots=True)
class Device:
    index: int
    uuid: str = ""
    """Empty: not known."""
    model: str = ""
    memory_mb: int = 0


@dataclass(frozen=True, slots=True)
class GpuProcess:
    pid: int
    name: str = ""
    used_mb: int | None = None
    """None: the driver does not say."""
    visible: bool = True
    """False: a process of another pid namespace, a container perhaps, of which only the number is known."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One GPU at one moment."""

    used_mb: int = 0
    utilisation: int | None = None
    """In percent."""
    processes: tuple[GpuProcess, ...] = ()


class Nvml(Protocol):
    def devices(self) -> tuple[Device, ...]:
        """As they were when it was opened."""
        ...

    def read(self) -> Mapping[int, Reading]:
        """How each GPU is now, by its index; one that does not answer is left out."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class NoDriver:
    """There are no GPUs to ask about."""

    reason: str


def open_nvml(environ: Mapping[str, str]) -> Nvml | NoDriver:
    """The driver, or the file that plays it."""
    if path := environ.get(FAKE):
        from weft.engines.process.gpu.nvml_fake import FakeNvml

        return FakeNvml(path)
    from weft.engines.process.gpu.nvml_driver import open_driver

    return open_driver()
