"""The supervisor: the leader of a run in a container. It starts the runtime's program, forwards signals to the
container's first process, removes the container at the end, and returns its exit code.

It runs as a script in a bare Python. If it is killed, the shim removes the container; if the shim is killed, it does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from weft.inputs.mounts import Mount
from weft.node.engine.container import record, removal
from weft.node.engine.container.detection import find_runtime
from weft.node.engine.container.devices import find_devices
from weft.node.engine.container.mounts import combine, resolve, working_mounts
from weft.node.engine.container.oci import BAD_IMAGE
from weft.node.engine.container.oom_counter import OomCounter
from weft.node.engine.container.port import (
    LABEL_HOME,
    LABEL_JOB,
    LABEL_RUN,
    ContainerError,
    ContainerRuntime,
    ContainerSpec,
)
from weft.node.engine.container.record import ContainerRecord
from weft.node.engine.shim import oom, run_files
from weft.node.engine.shim.process_id import Identity, identify, is_alive, read_stat

FAILED_TO_START: Final = 125
"""The exit code of podman and docker for a container that did not start."""
LOST: Final = "lost"
OUT_OF_RAM: Final = "ram"
POLL_S: Final = 0.05
MAX_POLL_S: Final = 1.0
INSPECT_S: Final = 0.5
"""Interval between questions to a runtime whether the container has started."""
ORPHANED: Final = signal.SIGRTMIN + 6
"""The kernel sends it when the shim has died."""
_PR_SET_PDEATHSIG: Final = 1
_NOT_FORWARDED: Final = frozenset({
    signal.SIGCHLD, signal.SIGCONT, signal.SIGWINCH, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGPIPE,
    signal.SIGURG, ORPHANED,
})  # fmt: skip
_END_START: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
_CATCHABLE: Final = frozenset(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}


class Supervisor:
    """One container from its creation to its removal."""

    oom: OomCounter | None
    monitor: Identity | None

    def __init__(self, folder: str, spec: Mapping[str, Any], wakes: Wakes) -> None:
        self.folder, self.run_spec = folder, spec
        self.given: Mapping[str, Any] = spec["container"]
        self.host_env: dict[str, str] = dict(self.given["host_env"])
        self.client = 0
        self.status: int | None = None
        self.pid, self.inspect_at = 0, 0.0
        self.early_signals: list[int] = []
        self.wakes, self.oom, self.monitor = wakes, None, None

    def run(self) -> int:
        """Run the container; return its exit code."""
        try:
            self.runtime, self.answer = find_runtime(self.given["runtime"], self.host_env, self.given["cache"])
            self.spec = container_spec(self.folder, self.run_spec, self.runtime)
            argv = [self.answer.program, *self.runtime.run(self.spec, self.answer)]
        except ContainerError as error:
            return self._fail(error)
        if self.run_spec["run"] > 1:
            self._remove_earlier()
        self._record()
        self._start(argv)
        while self.status is None:
            self._turn()
        return self._finish(os.waitstatus_to_exitcode(self.status))

    def _fail(self, error: ContainerError) -> int:
        sys.stderr.write(f"weft: {error.detail}\n")
        record.write_result(self.folder, why=error.why, detail=error.detail)
        return FAILED_TO_START

    def _remove_earlier(self) -> None:
        """Remove containers of earlier runs of the job: none of them may run next to this one."""
        labels = {LABEL_HOME: self.given["home"], LABEL_JOB: self.run_spec["job"]}
        removal.remove_labelled(self.runtime.name, self.answer.program, labels, self.host_env)

    def _record(self) -> None:
        stat = identify(self.pid) if self.pid else None
        init = self.answer.has_init and self.runtime.named is not None
        record.write_record(
            self.folder,
            ContainerRecord(
                self.runtime.name, self.answer.program, self.spec.name, self.pid, stat.start if stat else 0, init
            ),
        )

    def _start(self, argv: list[str]) -> None:
        self.client = os.posix_spawn(argv[0], argv, self.runtime.client_env(self.spec), setsigdef=_CATCHABLE)
        if self.runtime.named is None:
            self.pid = self.client
            self._record()

    def _turn(self) -> None:
        """Wait for a signal or the end of the container, and act on it. Until the container has started, look for its
        first process."""
        self.wakes.wait(MAX_POLL_S if self.pid else POLL_S)
        if self.oom is not None:
            self.oom.has_killed()
        for number in self.wakes.take():
            if number == ORPHANED:
                os.kill(self.client, signal.SIGKILL)
            elif number not in _NOT_FORWARDED:
                self._forward(number)
        if not self.pid:
            self._find_pid()
        if self._lost_monitor():
            os.kill(self.client, signal.SIGKILL)
        pid, status = os.waitpid(self.client, os.WNOHANG)
        if pid:
            self.status = status

    def _find_pid(self) -> None:
        self.pid = self._read_pid()
        if self.pid:
            self.oom = OomCounter(self.pid)
            self.wakes.watch(self.pid)
            self._find_monitor()
            self._record()
            waiting, self.early_signals = self.early_signals, []
            for number in waiting:
                self._forward(number)

    def _find_monitor(self) -> None:
        """Find podman's monitor of the container. If it is killed, podman does not learn that the container ends."""
        stat = read_stat(self.pid) if self.runtime.writes_pid_file else None
        self.monitor = identify(stat.parent) if stat is not None else None
        if self.monitor is not None:
            self.wakes.watch(self.monitor.pid)

    def _lost_monitor(self) -> bool:
        return self.monitor is not None and not is_alive(self.monitor) and read_stat(self.pid) is not None

    def _read_pid(self) -> int:
        """Return the pid of the container's first process; 0: it has none yet."""
        if pid := record.read_pid_file(self.folder):
            return pid if has_started(pid, with_init=self.answer.has_init) else 0
        named = self.runtime.named
        if named is None or self.runtime.writes_pid_file or time.monotonic() < self.inspect_at:
            return 0
        code, said = removal.call([self.answer.program, *named.inspect(self.spec.name)], self.host_env)
        self.inspect_at = time.monotonic() + INSPECT_S
        return named.read_pid(said) if code == 0 else 0

    def _forward(self, number: int) -> None:
        """Send a signal to the first process of the container. Before there is one, SIGTERM ends the start."""
        if not self.pid:
            self.inspect_at = 0.0
            self._find_pid()
        if not self.pid and number in _END_START and not record.read_pid_file(self.folder):
            os.kill(self.client, signal.SIGKILL)
            return
        if not self.pid:
            self.early_signals.append(number)
            return
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return
        except PermissionError:  # a container of another user: its daemon may
            if (named := self.runtime.named) is not None:
                name = signal.Signals(number).name
                removal.call([self.answer.program, *named.kill(self.spec.name, name)], self.host_env)

    # ---- the end

    def _finish(self, code: int) -> int:
        """Record how the container ended, remove it, and return its exit code."""
        if code:
            self._explain(code)
        if removal.remove_container(self.runtime.name, self.answer.program, self.spec.name, self.host_env):
            record.forget_record(self.folder)
        return code if code >= 0 else 128 - code

    def _explain(self, code: int) -> None:
        named = self.runtime.named
        if named is None:
            if code == 255 and "FATAL:" in self._log_end():
                why, detail = self.runtime.describe_failure(self._log_end())
                record.write_result(self.folder, why=why, detail=detail)
            return
        said = removal.call([self.answer.program, *named.inspect(self.spec.name)], self.host_env)[1]
        state = named.read_state(said)
        if not (state.started or self.pid):
            why, detail = self.runtime.describe_failure(self._log_end())
            record.write_result(self.folder, why=why, detail=detail)
        elif state.out_of_memory or (self.oom is not None and self.oom.has_killed()):
            record.write_result(self.folder, why=OUT_OF_RAM)
        elif code < 0 or state.running:
            detail = f"{self.runtime.name} ended before its container did, and Weft removed the container"
            record.write_result(self.folder, why=LOST, detail=detail)

    def _log_end(self) -> str:
        logs = [f"{self.folder}/{name}" for name in (run_files.LOG, run_files.ERROR_LOG)]
        parts = [oom.read_tail(log, run_files.read_begin(log)) for log in logs if os.path.exists(log)]
        return "\n".join(part.decode(errors="replace") for part in parts)


def has_started(pid: int, *, with_init: bool) -> bool:
    """Return whether the first process of a container runs the image's program: before that, it is the runtime's own
    and takes no signals. An init must have started the command."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            program = os.path.basename(file.read(4096).partition(b"\0")[0])
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = file.read().split()
    except OSError:
        return False
    return not program.startswith((b"runc", b"crun", b"exe", b"youki")) and (bool(children) or not with_init)


class Wakes:
    """Waits that end with a signal, or with the end of a process. Signals are kept until they are taken."""

    def __init__(self) -> None:
        self._signals: list[int] = []
        self._poll = select.poll()
        self._reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll.register(self._reading, select.POLLIN)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in _CATCHABLE:
            signal.signal(number, lambda received, _: self._signals.append(received))

    def watch(self, pid: int) -> None:
        """End waits once when this process ends."""
        with contextlib.suppress(OSError):
            self._poll.register(os.pidfd_open(pid), select.POLLIN)

    def wait(self, timeout_s: float) -> None:
        for handle, _ in self._poll.poll(timeout_s * 1000):
            if handle == self._reading:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._reading, 4096)
            else:
                self._poll.unregister(handle)

    def take(self) -> list[int]:
        """Return the signals that have arrived."""
        found = []
        while self._signals:
            found.append(self._signals.pop(0))
        return found


def container_spec(folder: str, spec: Mapping[str, Any], runtime: ContainerRuntime) -> ContainerSpec:
    """Return the container of a run, as this node can start it. Raise ContainerError if it cannot."""
    given, token = spec["container"], spec["token"]
    workdir = spec["chdir"] or folder
    user_mounts = resolve((Mount(*each) for each in given["mounts"]), workdir, given["host_env"].get("HOME", "/"))
    own = [Mount(*each) for each in given["own_mounts"] if os.path.exists(each[0])]
    if runtime.named is None and given["image"].startswith(("/", "./", "../")):
        path = os.path.join(workdir, given["image"])
        if not os.path.exists(path):
            raise ContainerError(BAD_IMAGE, f"there is no image {path!r} on this node")
    devices = find_devices(tuple(given["gpus"]))
    return ContainerSpec(
        name=f"weft-{spec['job']}-{spec['run']}-{token[:8]}",
        image=given["image"],
        command=tuple(given["command"]),
        mounts=combine(user_mounts, [*working_mounts(workdir), *own]),
        workdir=workdir,
        env=container_env(spec["env"], given, passes_devices=devices.nvidia),
        host_env=given["host_env"],
        labels={LABEL_HOME: given["home"], LABEL_JOB: spec["job"], LABEL_RUN: str(spec["run"])},
        devices=devices,
        ram_mb=spec["ram_mb"],
        cpus=spec["cpus"],
        terminal=given["terminal"],
        pid_file=f"{folder}/{record.PID_FILE}",
        user=(os.getuid(), os.getgid()),
        selinux=os.path.exists("/sys/fs/selinux/enforce"),
        has_mqueue=os.path.isdir("/dev/mqueue"),
    )


def container_env(env: Mapping[str, str], given: Mapping[str, Any], *, passes_devices: bool) -> dict[str, str]:
    """Return the variables of the container. A container that gets only its own GPUs counts them from 0."""
    found = {name: value for name, value in env.items() if name != "WEFT_PYTHON"}
    if passes_devices and given["gpus"] and not given["has_uuids"]:
        found["CUDA_VISIBLE_DEVICES"] = ",".join(str(gpu) for gpu in range(len(given["gpus"])))
    return found


def main(folder: str) -> int:
    wakes = Wakes()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(ORPHANED), 0, 0, 0)
    until = time.monotonic() + 5.0
    while (spec := run_files.read_object(f"{folder}/{run_files.SPEC}")) is None and time.monotonic() < until:
        time.sleep(0.01)
    if spec is None:
        sys.stderr.write(f"weft: the files of the run cannot be read: {folder}\n")
        return FAILED_TO_START
    return Supervisor(folder, spec, wakes).run()
