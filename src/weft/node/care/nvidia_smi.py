"""The GPUs of this machine as nvidia-smi reports them."""

from __future__ import annotations

from typing import Final, NamedTuple

from weft.errors import WeftError
from weft.node.care import programs

PROGRAM: Final = "nvidia-smi"
_FIELDS: Final = (
    "index", "uuid", "driver_version", "persistence_mode", "compute_mode", "ecc.errors.uncorrected.volatile.total",
)  # fmt: skip


class DriverError(WeftError):
    """nvidia-smi is installed, but fails."""


class GpuReport(NamedTuple):
    number: int
    uuid: str
    driver: str
    persistence: bool
    compute_mode: str
    """Default, Exclusive_Process or Prohibited."""
    ecc_errors: int | None
    """Uncorrected errors since the last reset; None: the GPU has no ECC."""


def has_driver() -> bool:
    return programs.is_installed(PROGRAM)


def read_gpus() -> tuple[GpuReport, ...]:
    rows = _query(f"--query-gpu={','.join(_FIELDS)}", len(_FIELDS))
    return tuple(
        GpuReport(int(index), uuid, driver, persistence == "Enabled", mode, int(ecc) if ecc.isdecimal() else None)
        for index, uuid, driver, persistence, mode, ecc in rows
    )


def read_processes() -> dict[str, list[int]]:
    """Return the pids that compute on each GPU, by its UUID."""
    found: dict[str, list[int]] = {}
    for uuid, pid in _query("--query-compute-apps=gpu_uuid,pid", 2):
        if pid.isdecimal():
            found.setdefault(uuid, []).append(int(pid))
    return found


def _query(what: str, columns: int) -> list[list[str]]:
    done = programs.call(PROGRAM, what, "--format=csv,noheader,nounits")
    if done.code:
        raise DriverError(f"{PROGRAM} fails: {done.error}")
    rows = [[word.strip() for word in line.split(",")] for line in done.out.splitlines() if line.strip()]
    rows = [row for row in rows if len(row) == columns]
    if what.startswith("--query-gpu") and not all(row[0].isdecimal() for row in rows):
        raise DriverError(f"{PROGRAM} printed a GPU that has no number: {done.out[: programs.MAX_TEXT_CHARS]!r}")
    return rows
