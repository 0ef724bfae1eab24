"""The limit on the open files of this process, and so on its connections."""

from __future__ import annotations

import resource
from contextlib import suppress


def allow_open_files(wanted: int) -> int:
    """Raise the limit to this number of files, as far as the system permits. Return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= wanted:
        return soft
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
