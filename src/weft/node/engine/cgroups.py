"""Control groups: limits on the main memory, CPUs and GPUs of a run, where this process may set them.

The engine finds out once whether it may (`find`). Each run with a limit gets a group (`RunGroup`), which its shim
makes and removes. Both hierarchies are supported: version 2 if this process owns its group, as in a systemd unit
with `Delegate=yes`, and version 1 if its memory and cpu groups are writable.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from weft.node.engine.users import device_filter
from weft.node.engine.users.device_filter import DeviceNumber

ROOT: Final = "/sys/fs/cgroup"
OWN: Final = "/proc/self/cgroup"
FOLDER: Final = "weft"
"""The group in which the groups of runs are made."""
DAEMON: Final = "weft-daemon"
"""The group that this process moves to in version 2: a group with processes cannot pass limits on to others."""
CONTROLLERS: Final = ("memory", "cpu")
DEVICES: Final = "devices"
"""The controller of device files, in version 1. In version 2 a program of the group decides: see `device_filter`."""
PERIOD_US: Final = 100_000


class Cgroups(NamedTuple):
    """The way this process may limit its runs."""

    version: int = 0
    """The version of the hierarchy; 0: no groups can be made here."""
    folders: Mapping[str, str] = {}
    """The folder that holds the groups of runs, for each controller."""
    why: str = ""
    """The reason why no groups can be made."""

    def to_spec(self) -> list[object] | None:
        """Return the groups as a shim reads them; None: no groups can be made here."""
        return [self.version, dict(self.folders)] if self.version else None

    @property
    def limits_devices(self) -> bool:
        """True if runs can be kept from device files."""
        return DEVICES in self.folders

    def describe(self) -> str:
        """Say how limits on main memory and CPUs are kept."""
        if self.version:
            return f"control groups, version {self.version}"
        return f"main memory is watched, CPUs are not limited: no control groups ({self.why})"


def find(root: str = ROOT, own: str = OWN) -> Cgroups:
    """Return where the groups of runs can be made."""
    try:
        paths = own_paths(own)
        if os.path.exists(f"{root}/cgroup.controllers"):
            return _find_v2(f"{root}{paths.get('', '/')}".rstrip("/"))
        return _find_v1(root, paths)
    except OSError as error:
        return Cgroups(why=f"{error.filename or root}: {error.strerror}")


def can_limit_devices(root: str = ROOT, own: str = OWN) -> bool:
    """Return whether `find` would find a way to limit devices. Make nothing."""
    try:
        if os.path.exists(f"{root}/cgroup.controllers"):
            return device_filter.is_supported()
        return os.access(f"{root}/{DEVICES}{own_paths(own).get(DEVICES, '/')}", os.W_OK)
    except OSError:
        return False


def own_paths(own: str) -> dict[str, str]:
    """Return the group of this process for each controller; '' is version 2."""
    found = {}
    with open(own) as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _find_v1(root: str, paths: Mapping[str, str]) -> Cgroups:
    folders = {}
    for controller in CONTROLLERS:
        folder = f"{root}/{controller}{paths.get(controller, '/')}".rstrip("/") + f"/{FOLDER}"
        os.makedirs(folder, exist_ok=True)
        folders[controller] = folder
    with contextlib.suppress(OSError):  # few systems let others than root make groups for devices
        folder = f"{root}/{DEVICES}{paths.get(DEVICES, '/')}".rstrip("/") + f"/{FOLDER}"
        os.makedirs(folder, exist_ok=True)
        if os.access(f"{folder}/devices.deny", os.W_OK):
            folders[DEVICES] = folder
    return Cgroups(1, folders)


def _find_v2(group: str) -> Cgroups:
    missing = set(CONTROLLERS) - set(_read(f"{group}/cgroup.controllers").split())
    if missing:
        return Cgroups(why=f"{group} does not control {' and '.join(sorted(missing))}")
    os.makedirs(f"{group}/{DAEMON}", exist_ok=True)
    _write(f"{group}/{DAEMON}/cgroup.procs", str(os.getpid()))
    try:
        for folder in (group, f"{group}/{FOLDER}"):
            os.makedirs(folder, exist_ok=True)
            _write(f"{folder}/cgroup.subtree_control", " ".join(f"+{name}" for name in CONTROLLERS))
    except OSError:
        _write(f"{group}/cgroup.procs", str(os.getpid()))
        return Cgroups(why=f"other processes share the group {group}; start Weft in another (systemd: Delegate=yes)")
    controllers = (*CONTROLLERS, DEVICES) if device_filter.is_supported() else CONTROLLERS
    return Cgroups(2, dict.fromkeys(controllers, f"{group}/{FOLDER}"))


def remove_stale(cgroups: Cgroups) -> None:
    """Remove the groups of runs that have ended. A group with processes stays: it cannot be removed."""
    for folder in set(cgroups.folders.values()):
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder):
                if entry.is_dir():
                    with contextlib.suppress(OSError):
                        os.rmdir(entry.path)


def group_name(spec: Mapping[str, Any]) -> str:
    """Return the name of a run's group, from the arguments of its shim."""
    return f"{spec['job']}-{spec['run']}-{spec['token']}"


def join_group(spec: Mapping[str, Any]) -> None:
    """Move this process to the groups of a run, as far as it has any."""
    for folder in dict.fromkeys(spec["cgroup"][1].values()) if spec["cgroup"] else ():
        with contextlib.suppress(FileNotFoundError):
            _write(f"{folder}/{group_name(spec)}/cgroup.procs", str(os.getpid()))


class RunGroup:
    """The group of one run. A shim enters it to start the command, and leaves it again."""

    def __init__(
        self,
        version: int,
        folders: Mapping[str, str],
        name: str,
        *,
        ram_mb: int = 0,
        cpus: int = 0,
        weight: int = 0,
        denied: Sequence[DeviceNumber] = (),
    ) -> None:
        """`weight` is the part of the CPUs in percent that the run gets when others want them; 0: the usual one."""
        self._version, self._name = version, name
        self._folders = {
            controller: folders[controller]
            for controller, limit in (("memory", ram_mb), ("cpu", cpus or weight), (DEVICES, denied))
            if limit or (version == 2 and controller in folders)
        }
        self._ram_mb, self._cpus, self._weight, self._denied = ram_mb, cpus, weight, denied

    def enter(self) -> None:
        """Make the group, and move this process to it."""
        for path in self._paths():
            os.makedirs(path, exist_ok=True)
        for path, name, value in self._limits():
            _write(f"{path}/{name}", value)
        if self._denied and self._version == 2:
            device_filter.attach(f"{self._folders[DEVICES]}/{self._name}", self._denied)
        for path in self._paths():
            _write(f"{path}/cgroup.procs", str(os.getpid()))

    def leave(self) -> None:
        """Move this process back; the command stays."""
        for folder in dict.fromkeys(self._folders.values()):
            # in version 2 the parent of the groups holds no processes
            home = f"{os.path.dirname(folder)}/{DAEMON}" if self._version == 2 else os.path.dirname(folder)
            _write(f"{home}/cgroup.procs", str(os.getpid()))

    def ran_out_of_memory(self) -> bool:
        """Return whether the kernel killed a process of the run for using more memory than its limit."""
        folder = self._folders.get("memory")
        name = "memory.events" if self._version == 2 else "memory.oom_control"
        try:
            lines = _read(f"{folder}/{self._name}/{name}").splitlines() if folder and self._ram_mb else []
        except OSError:
            return False
        return any(line.startswith("oom_kill ") and line.split()[1] != "0" for line in lines)

    def kill(self) -> None:
        """Kill all processes of the run at once, if the kernel can do that."""
        if self._version == 2:
            with contextlib.suppress(OSError):
                _write(f"{self._folders['memory']}/{self._name}/cgroup.kill", "1")

    def remove(self) -> None:
        for path in self._paths():
            with contextlib.suppress(OSError):
                os.rmdir(path)

    def _paths(self) -> list[str]:
        return [f"{folder}/{self._name}" for folder in dict.fromkeys(self._folders.values())]

    def _limits(self) -> list[tuple[str, str, str]]:
        """Return the files to write, with their values."""
        found = []
        memory, cpu = (f"{self._folders.get(name, '')}/{self._name}" for name in CONTROLLERS)
        quota = str(self._cpus * PERIOD_US)
        if self._ram_mb:
            limit = str(self._ram_mb << 20)
            if self._version == 2:
                found += [(memory, "memory.max", limit), (memory, "memory.oom.group", "1")]
                found += [(memory, "memory.swap.max", "0")] * os.path.exists(f"{memory}/memory.swap.max")
            else:
                found += [(memory, "memory.limit_in_bytes", limit)]
                swap = "memory.memsw.limit_in_bytes"
                found += [(memory, swap, limit)] * os.path.exists(f"{memory}/{swap}")
        if self._weight:
            name, value = (
                ("cpu.weight", self._weight) if self._version == 2 else ("cpu.shares", self._weight * 1024 // 100)
            )
            found += [(cpu, name, str(max(value, 2)))]
        if self._cpus and self._version == 2:
            found += [(cpu, "cpu.max", f"{quota} {PERIOD_US}")]
        if self._version == 1:
            devices = f"{self._folders.get(DEVICES, '')}/{self._name}"
            found += [(devices, "devices.deny", f"c {major}:{minor} rwm") for major, minor in self._denied]
        if self._cpus and self._version == 1:
            found += [(cpu, "cpu.cfs_period_us", str(PERIOD_US)), (cpu, "cpu.cfs_quota_us", quota)]
        return found


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
