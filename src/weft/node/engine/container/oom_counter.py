"""Counts the processes of a container that the kernel killed for lack of memory.

Runtimes report this too, but not on every kernel, and the control group is removed soon after the container has ended.
"""

from __future__ import annotations

import os
from typing import Final

from weft.node.engine.cgroups import ROOT, own_paths

_FILES: Final = {"memory": ("memory.oom_control", f"{ROOT}/memory"), "": ("memory.events", ROOT)}
"""For both versions of control groups: the file with the count, and where groups are."""


class OomCounter:
    """The count of one container. `pid` is its first process."""

    def __init__(self, pid: int) -> None:
        self._handle, self._killed = -1, False
        try:
            paths = own_paths(f"/proc/{pid}/cgroup")
            name, root = _FILES["memory" if "memory" in paths else ""]
            path = paths["memory" if "memory" in paths else ""]
            # a container without a group is in that of this process, which may count other runs
            if path != own_paths("/proc/self/cgroup").get("memory" if "memory" in paths else ""):
                self._handle = os.open(f"{root}{path}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except (OSError, KeyError, ValueError):
            return

    def has_killed(self) -> bool:
        """Return whether the kernel has killed a process. Remembers it: the group may be gone at the next call."""
        if self._handle >= 0 and not self._killed:
            try:
                lines = os.pread(self._handle, 4096, 0).decode("ascii", "replace").splitlines()
            except OSError:
                return False
            self._killed = any(line.startswith("oom_kill ") and line.split()[1] != "0" for line in lines)
        return self._killed
