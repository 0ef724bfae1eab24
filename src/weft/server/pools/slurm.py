"""Slurm: an allocation is a batch job of one node. `sbatch` asks, `squeue` observes, `scancel` gives back."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator, Sequence
from typing import Final

from weft.inputs.atomic import write_atomic
from weft.model.pool import Pool
from weft.server.pools.pilot import shell_script
from weft.server.pools.provider import AllocationSpec, AllocationStatus, ProviderPhase, Site, last_lines, run

ENDED: Final = frozenset(
    {
        "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
        "REVOKED", "TIMEOUT",
    }
)  # fmt: skip
RUNNING: Final = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "STAGE_OUT", "SIGNALING"})
FORMAT: Final = "%i|%T|%e|%r|%j"
GPU_OPTIONS: Final = re.compile(r"--(gres|gpus|gpus-per-node|gpus-per-task|gpus-per-socket)(=|$)|-G")
CPU_OPTIONS: Final = re.compile(r"--(cpus-per-task|cpus-per-gpu)(=|$)|-c")
MEMORY_OPTIONS: Final = re.compile(r"--(mem|mem-per-cpu|mem-per-gpu)(=|$)")
ENDS_AT: Final = """\
ends=$(squeue -h -j "$SLURM_JOB_ID" -o %e 2>/dev/null)
ends=$(date -d "$ends" +%s 2>/dev/null) || ends=''
"""
"""The end of the allocation, in seconds since 1970. Older versions of Slurm do not set SLURM_JOB_END_TIME."""


class Slurm:
    title = "Slurm"

    def __init__(self, site: Site) -> None:
        self._site = site

    def request(self, allocation: AllocationSpec) -> str:
        path = os.path.join(allocation.folder, "pilot.sh")
        write_atomic(path, self.script(allocation).encode())
        os.makedirs(os.path.dirname(allocation.log), mode=0o700, exist_ok=True)
        return run([*self._command(allocation), path, allocation.slot], env=_environment()).strip().partition(";")[0]

    def release(self, id: str) -> None:
        run(["scancel", id])  # without an error for a job that has ended

    def observe(self) -> Sequence[AllocationStatus]:
        lines = run(["squeue", "--me", "-h", "-t", "all", "-o", FORMAT]).splitlines()
        return [status for line in lines if (status := self._status(line)) is not None]

    def check(self, allocation: AllocationSpec) -> None:
        """Let Slurm judge the request without queueing it."""
        run([*self._command(allocation), "--test-only", "--wrap", "true"], env=_environment())

    def script(self, allocation: AllocationSpec) -> str:
        more = ' ${ends:+--ends-at "$ends"}'
        if not allocation.site.is_loopback:
            more += ' --addr "$SLURMD_NODENAME:0"'
        return shell_script(allocation, slot='"$1"', begin=ENDS_AT, more=more)

    def log(self, allocation: AllocationSpec, id: str) -> str:  # noqa: ARG002
        return last_lines(allocation.log)

    def _command(self, allocation: AllocationSpec) -> list[str]:
        pool = allocation.pool
        minutes, seconds = divmod(math.ceil(pool.time_s), 60)
        return [
            "sbatch", "--parsable", f"--job-name={allocation.name}", f"--output={allocation.log}", "--open-mode=append",
            "--nodes=1", "--ntasks=1", "--no-requeue", f"--time={minutes}:{seconds:02}", *_hardware(pool),
            *pool.options,
        ]  # fmt: skip

    def _status(self, line: str) -> AllocationStatus | None:
        id, state, ends, reason, name = (*line.split("|", 4), "", "", "", "")[:5]
        key = self._site.key_of(name)
        if not key:
            return None
        phase: ProviderPhase = "ended" if state in ENDED else "running" if state in RUNNING else "pending"
        return AllocationStatus(
            key, id, phase, state, "" if reason == "None" else reason, _seconds(ends) if phase == "running" else None
        )


def _hardware(pool: Pool) -> Iterator[str]:
    """Yield the options for what the nodes of a pool have, apart from those that the site's options name."""
    wanted = (
        (pool.gpus, GPU_OPTIONS, f"--gres=gpu:{pool.gpus}"),
        (pool.cpus, CPU_OPTIONS, f"--cpus-per-task={pool.cpus}"),
        (pool.ram_mb, MEMORY_OPTIONS, f"--mem={pool.ram_mb}M"),
    )
    for amount, names, option in wanted:
        if amount and not any(map(names.match, pool.options)):
            yield option


def _seconds(text: str) -> float | None:
    """Return a time of Slurm, which is local, in seconds since 1970."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None


def _environment() -> dict[str, str]:
    """Return the environment of the request, which Slurm passes on to the allocation, without settings of Weft."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("WEFT_", "SLURM_JOB"))}
