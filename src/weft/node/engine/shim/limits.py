"""The limits of a run on main memory and CPUs: kept by a control group, or without one by watching its memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from weft.node.engine.cgroups import RunGroup, group_name
from weft.node.engine.shim.launch import LaunchError
from weft.node.engine.shim.run_tree import RunTree

OUT_OF_RAM: Final = "ram"
"""Exit reason of a run that used more main memory than it asked for."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class RunLimits:
    """The limits of one run, for its shim."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._ram_mb: int = spec["ram_mb"]
        self._group = None
        self._denied = [(major, minor) for major, minor in spec["denied_devices"]]
        # the runtime limits a container; a group of the shim would hold the runtime's program as well
        wanted = spec["ram_mb"] or spec["cpus"] or spec["cpu_weight"] or self._denied
        if spec["cgroup"] and wanted and not spec["container"]:
            version, folders = spec["cgroup"]
            self._group = RunGroup(
                version, folders, group_name(spec), ram_mb=spec["ram_mb"], cpus=spec["cpus"], weight=spec["cpu_weight"],
                denied=self._denied,
            )  # fmt: skip

    @property
    def watches(self) -> bool:
        """True if the shim must call `exceeded` from time to time."""
        return self._group is None and self._ram_mb > 0

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply the limits to the processes that start within."""
        if self._group is None:
            yield
            return
        try:
            self._group.enter()
        except OSError as error:  # its parent may just be gone; memory is watched instead
            with contextlib.suppress(OSError):
                self._group.leave()
            self._group.remove()
            self._group = None
            if self._denied:
                detail = f"cannot keep the run from GPUs of others: {error.strerror}"
                raise LaunchError(None, "start-failed", detail) from None
            yield
            return
        try:
            yield
        finally:
            self._group.leave()

    def exceeded(self, tree: RunTree) -> bool:
        """Return whether the run uses more memory than its limit, if no group keeps the limit. Memory that several of
        its processes share counts once."""
        return self.watches and sum(_proportional_bytes(each.pid) for each in tree.members()) > self._ram_mb << 20

    def kill(self) -> None:
        if self._group is not None:
            self._group.kill()

    def close(self) -> bool:
        """Remove the group of a run that has ended; return whether the kernel killed one of its processes."""
        if self._group is None:
            return False
        killed = self._group.ran_out_of_memory()
        self._group.remove()
        return killed

    def describe_excess(self) -> str:
        return f"it used more than its {self._ram_mb} MB of main memory: ask for more with --mem"


def _proportional_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
    except (OSError, StopIteration):
        with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    return 0
