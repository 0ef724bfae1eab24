"""The standard input of `weft run`, read before the job is submitted, so that every run of the job gets it."""

from __future__ import annotations

import os
import select
import stat
from typing import Final

from weft.cli import render
from weft.errors import InputError

STDIN: Final = 0
MAX_BYTES: Final = 16 << 20
CHUNK_BYTES: Final = 1 << 20
FIRST_BYTE_S: Final = 3.0
"""A pipe may be open without anyone who writes to it, for example over ssh: the job must start nevertheless."""


def read_standard_input() -> bytes:
    """Return what a file or a pipe holds for the job; nothing for a terminal or /dev/null."""
    try:
        mode = os.fstat(STDIN).st_mode
    except OSError:
        return b""  # closed
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return b""
    if not stat.S_ISREG(mode) and not select.select([STDIN], [], [], FIRST_BYTE_S)[0]:
        seconds = f"{FIRST_BYTE_S:.0f} s"
        render.print_message(f"nothing came on standard input within {seconds}: the job gets none; < FILE gives it one")
        return b""
    return _read_all()


def _read_all() -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        try:
            part = os.read(STDIN, CHUNK_BYTES)
        except OSError:
            return b"".join(parts)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            raise InputError(
                f"standard input has more than {MAX_BYTES >> 20} MB", hint="write it to a file that the job reads"
            )
