"""Names of jobs: the default, and names that commands would read as something else."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

LAST: Final = re.compile(r"@(?:~(\d{1,9}))?")
RANGE: Final = re.compile(r"(\d{1,12})-(\d{1,12})")
TASK: Final = re.compile(r"\d+(_\d+)?", re.ASCII)
MAX_SOURCE_CHARS: Final = 4096
"""Characters at the end of a program's path that its default name is derived from."""
MAX_CHARS: Final = 60
"""The most characters of a default name."""


def looks_like_reference(name: str) -> bool:
    """Return whether commands would read this name as a number of jobs, a range, or the last job."""
    return bool(TASK.fullmatch(name) or RANGE.fullmatch(name) or LAST.fullmatch(name))


def default_name(command: Iterable[str]) -> str:
    """Return the file name of the program, without special characters. Only the end of a long path is read."""
    word = next((word for word in command if not word.startswith("-")), "")
    plain = "".join(c for c in os.path.basename(word[-MAX_SOURCE_CHARS:]) if c.isalnum() or c in "._-+ ")
    name = plain.strip()[:MAX_CHARS]
    return "job" if not name or looks_like_reference(name) else name
