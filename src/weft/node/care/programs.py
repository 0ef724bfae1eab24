"""Programs of the driver: nvidia-smi, nvidia-cuda-mps-control, dcgmi, nv-hostengine. All are found on PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final, NamedTuple

TIMEOUT_S: Final = 60.0
"""The first call of nvidia-smi without persistence mode initialises every GPU, which takes seconds each."""
NOT_PERMITTED: Final = (
    "insufficient permissions",
    "permission denied",
    "not have permission",
    "must be root",
    "password is required",
)
MAX_TEXT_CHARS: Final = 300


class Result(NamedTuple):
    code: int
    out: str
    error: str
    """The last line that the program printed about its failure; empty if it succeeded."""

    @property
    def is_refused(self) -> bool:
        """True if the program failed because this user may not do it."""
        return self.code != 0 and any(words in self.error.lower() for words in NOT_PERMITTED)


def is_installed(program: str) -> bool:
    return shutil.which(program) is not None


def elevated(*words: str, sudo: bool) -> tuple[str, ...]:
    """Return a command that needs root; with `sudo`, through it. sudo never asks for a password."""
    return ("sudo", "-n", "--", *words) if sudo else words


def call(*words: str, env: Mapping[str, str] | None = None, stdin: str = "") -> Result:
    """Run a program to its end. A program that is missing or hangs counts as failed."""
    try:
        done = subprocess.run(
            words, env={**os.environ, **(env or {})}, input=stdin, capture_output=True, text=True, errors="replace",
            timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        return Result(127, "", f"{words[0]} is not installed")
    except subprocess.TimeoutExpired:
        return Result(124, "", f"{words[0]} did not end within {TIMEOUT_S:.0f} s")
    except OSError as error:
        return Result(126, "", f"{words[0]}: {error.strerror}")
    if done.returncode == 0:
        return Result(0, done.stdout, "")
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return Result(done.returncode, done.stdout, lines[-1][:MAX_TEXT_CHARS] if lines else f"exit code {done.returncode}")
