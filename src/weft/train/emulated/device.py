"""The job's end of the emulated device: timed holds of the resources of this node.

`WEFT_DEVICE=emulated` makes it the device of `weft.train.device`. `WEFT_DEVICE_OPTIONS` are options of the server, such
as `--loss gpu=0.15`, and `WEFT_DEVICE_DIR` is the folder of its socket; by default a folder of this user. A server runs
for each node.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import time

START_TIMEOUT_S = 20.0
POLL_S = 0.02


class Device:
    """A connection to the server of this node. A server is started if none runs.

    As the device of `weft.train.device`, `launch` queues work on the GPU, and `finish` waits for it.
    """

    def __init__(self, env: dict[str, str]) -> None:
        self._gpus = env.get("WEFT_GPU_IDS", "") or env.get("CUDA_VISIBLE_DEVICES", "")
        self._queued_s = 0.0
        self._path, self._options = socket_path(env), env.get("WEFT_DEVICE_OPTIONS", "").split()
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            try:
                self._socket.connect(self._path)
            except (FileNotFoundError, ConnectionRefusedError):
                self._start_server(self._path, self._options)
        except BaseException:
            self._socket.close()
            raise

    def hold(self, stage: str, seconds: float) -> None:
        """Take this much of a stage's resource. It takes longer if other jobs are on it.

        A hold begins again at another server if its server ends: a server that a job of Weft started ends with it.
        """
        while True:
            try:
                self._socket.send(f"hold {stage}:{self._gpus or '-'} {seconds!r}".encode())
                if self._socket.recv(64):
                    return
            except OSError:  # the server has ended
                pass
            self._socket.close()
            self._connect()

    def launch(self, seconds: float) -> None:
        """Queue this much work on the GPU."""
        self._queued_s += seconds

    def finish(self) -> None:
        """Wait until the queued work is done."""
        seconds, self._queued_s = self._queued_s, 0.0
        if seconds:
            self.hold("gpu", seconds)

    def memory_mb(self) -> int:
        """Return 0: the emulated device has no memory."""
        return 0

    def cancel(self) -> float:
        """End the present hold; return how many seconds of it were served."""
        try:
            self._socket.send(b"cancel")
            while True:
                words = self._socket.recv(64).split()  # `done`, if the hold ended meanwhile, comes first
                if words[:1] != [b"done"]:
                    return float(words[1]) if len(words) == 2 else 0.0
        except OSError:  # the server has ended, and with it the hold
            return 0.0

    def close(self) -> None:
        self._socket.close()

    def _start_server(self, path: str, options: list[str]) -> None:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(f"{path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                self._socket.connect(path)  # another job was quicker
                return
            except FileNotFoundError:
                pass
            except ConnectionRefusedError:
                try:  # noqa: SIM105 - contextlib takes long to import
                    os.unlink(path)
                except FileNotFoundError:  # its server, which ends now, was quicker
                    pass
            words = [sys.executable, "-m", "weft.train.emulated.server", path, "--background", "yes", *options]
            root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
            env = {**os.environ, "PYTHONPATH": root}
            import subprocess  # slow to import, and most jobs find a server

            log = os.open(f"{path}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            # it forks, so that it is no child of this job
            ended = subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True
            )
            os.close(log)
            if ended.returncode:
                with open(f"{path}.log", errors="replace") as lines:
                    raise OSError(f"no emulated device: {(lines.read().splitlines() or ['its server failed'])[-1]}")
            self._connect_later(path)

    def _connect_later(self, path: str) -> None:
        until = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                return self._socket.connect(path)
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > until:
                    raise
            time.sleep(POLL_S)


def socket_path(env: dict[str, str]) -> str:
    """Return the socket of this node's server. Nodes of a testbed share a machine, so the name of the node is in it."""
    nodes, rank = env.get("WEFT_NODELIST", "").split(","), env.get("WEFT_NODE_RANK", "0")
    node = nodes[int(rank)] if rank.isdecimal() and int(rank) < len(nodes) else ""
    folder = env.get("WEFT_DEVICE_DIR") or f"{env.get('TMPDIR', '/tmp')}/weft-emulated-{os.getuid()}"
    return os.path.join(folder, f"{node or 'device'}.sock")
