"""The device of a job: a stage on it ends when it has finished, not when Python has queued the work.

It is the GPUs that torch uses, or the emulated device where `WEFT_DEVICE=emulated`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Device(Protocol):
        """An executor of the work of a stage."""

        def finish(self) -> None:
            """Wait until the work that this process has queued is done."""

        def memory_mb(self) -> int:
            """Return the most memory of one device that this process has held; 0 if unknown."""


VARIABLE = "WEFT_DEVICE"


class TorchDevice:
    """The GPUs that torch uses in this process; nothing before torch has used one."""

    def finish(self) -> None:
        cuda = _cuda()
        if cuda is not None:
            done = cuda.Event(blocking=True)  # the thread sleeps, and other threads go on
            done.record()
            done.synchronize()

    def memory_mb(self) -> int:
        cuda = _cuda()
        if cuda is None:
            return 0
        return max(int(cuda.max_memory_reserved(each)) for each in range(cuda.device_count())) >> 20


def _cuda() -> Any:
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)  # None while torch is being imported
    return cuda if cuda is not None and cuda.is_available() and cuda.is_initialized() else None


_device: Device | None = None


def this_device() -> Device:
    """Return the device of this process. Its first use reads `WEFT_DEVICE`."""
    global _device
    if _device is None:
        _device = _named_device(os.environ.get(VARIABLE, ""))
    return _device


def use_device(device: Device) -> None:
    """Replace the device of this process."""
    global _device
    _device = device


def _named_device(name: str) -> Device:
    if not name:
        return TorchDevice()
    if name != "emulated":
        raise ValueError(f"{VARIABLE}={name}: unknown device; use emulated, or leave it empty for the GPUs of torch")
    from weft.train.emulated.device import Device as EmulatedDevice

    return EmulatedDevice(dict(os.environ))
