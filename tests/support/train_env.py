"""A run as `weft.train` sees it: its variables, its files, and the scheduler's socket."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATIENCE_S = 10.0


@dataclass
class Listener:
    """Listens where the scheduler would."""

    path: Path
    heard: list[dict[str, Any]] = field(default_factory=list)
    _socket: socket.socket | None = None

    def open(self) -> None:
        self.path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.path))
        self._socket.settimeout(PATIENCE_S)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def next(self) -> dict[str, Any]:
        assert self._socket is not None
        found: dict[str, Any] = json.loads(self._socket.recv(65536))
        self.heard.append(found)
        return found

    def until_step(self, step: int) -> dict[str, Any]:
        while (found := self.next())["step"] != step:
            pass
        return found

    def rest(self) -> list[dict[str, Any]]:
        """Return the messages that have arrived by now."""
        assert self._socket is not None
        self._socket.settimeout(0.0)
        found = []
        try:
            while True:
                found.append(self.next())
        except BlockingIOError:
            self._socket.settimeout(PATIENCE_S)
            return found


@dataclass
class Inside:
    root: Path
    scheduler: Listener

    @property
    def env(self) -> dict[str, str]:
        return {
            "WEFT_JOB_ID": "7",
            "WEFT_RUN": "2",
            "WEFT_SOCKET": str(self.scheduler.path),
            "WEFT_CKPT_DIR": str(self.root / "checkpoints"),
            "WEFT_PREEMPT_FILE": str(self.root / "preempt"),
            "WEFT_DONE_FILE": str(self.root / "done"),
        }

    @property
    def done(self) -> Path:
        return self.root / "done"

    @property
    def latest(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root / "checkpoints" / "latest.json").read_text())
        return found

    def start(self, script: str, *, outside: bool = False) -> subprocess.Popen[str]:
        """A process of the job; what it prints can be read."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("WEFT_")}
        source = f"from weft import train\n{script}"
        return subprocess.Popen(
            [sys.executable, "-c", source],
            env=kept if outside else {**kept, **self.env},
            cwd=self.root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, *, outside: bool = False, code: int = 0) -> str:
        """The same, to its end; what it printed."""
        process = self.start(script, outside=outside)
        out, err = process.communicate(timeout=30)
        assert process.returncode == code, err
        assert not err, err
        return out.strip()


@contextmanager
def inside() -> Iterator[Inside]:
    """In a folder with a short path: the kernel takes no long ones for sockets."""
    with tempfile.TemporaryDirectory(prefix="weft-") as name:
        made = Inside(Path(name), Listener(Path(name, "progress.sock")))
        (made.root / "checkpoints").mkdir()
        made.scheduler.open()
        yield made
        made.scheduler.close()
