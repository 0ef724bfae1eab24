"""The limits of starting a program on Linux: a job beyond them would fail on every node, so it is refused at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from weft.access.jobspec.placeholders import param_variable
from weft.errors import InputError
from weft.model import Job, Task

MAX_WORD_BYTES: Final = 128 << 10
"""The kernel's MAX_ARG_STRLEN: the limit for one argument or variable, with the NUL at its end."""
FILE_HINT: Final = "put large values into a file, and pass its name"
NUL_HINT: Final = "remove it: a process cannot receive it"
_TERMINAL: Final = r"[A-Za-z0-9][A-Za-z0-9+._-]{0,63}|"
_SNAPSHOT: Final = re.compile(r"[0-9a-f]{64}")


def check_startable(job: Job) -> None:
    """Raise if no node could start the job. Its environment is checked with `check_env`."""
    task = job.task or Task()
    _check_words(job.command, "command", "a word")
    _check_words((task.chdir, job.name), "chdir", "the path")
    check_env(((param_variable(name), value) for name, value in job.params), "params", "a param")
    if not re.fullmatch(_TERMINAL, task.terminal):
        what = f"{task.terminal[:80]!r} is not the type of a terminal"
        raise InputError(what, hint="such as xterm: weft run --pty sets it", key="terminal")
    if task.stdin and not _SNAPSHOT.fullmatch(task.stdin):
        what = f"{task.stdin[:80]!r} is not the name of a blob"
        raise InputError(what, hint="64 digits, 0-9 and a-f: weft run sets it", key="stdin")
    if task.snapshot and not _SNAPSHOT.fullmatch(task.snapshot):
        what = f"{task.snapshot[:80]!r} is not the name of a snapshot"
        raise InputError(what, hint="64 digits, 0-9 and a-f: weft submit --snapshot sets it", key="snapshot")


def check_env(env: Iterable[tuple[str, str]], key: str = "env", what: str = "a variable") -> None:
    """Raise if no process could have these variables."""
    for name, value in env:
        if not name or "=" in name:
            raise InputError(f"{name[:80]!r} cannot be the name of {what}", hint="use letters, digits and _", key=key)
        _check_words((f"{name}={value}",), key, f"{what} ({name[:80]!r})")


def _check_words(words: Sequence[str], key: str, what: str) -> None:
    for word in words:
        if "\0" in word:
            raise InputError(f"{what} contains a NUL character", hint=NUL_HINT, key=key)
        if len(word) * 4 >= MAX_WORD_BYTES and (size := len(word.encode())) >= MAX_WORD_BYTES:
            limit = f"Linux starts no program with more than {MAX_WORD_BYTES >> 10} KB in one"
            raise InputError(f"{what} has {size / 1024:,.0f} KB, and {limit}", hint=FILE_HINT, key=key)
