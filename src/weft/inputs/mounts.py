"""Mounts of containers as users write them: SOURCE, SOURCE:TARGET, or SOURCE:TARGET:ro."""

from __future__ import annotations

from typing import Final, NamedTuple

RUNTIMES: Final = ("podman", "docker", "apptainer")
"""The container runtimes that Weft supports, in the order in which a node asks them."""


class Mount(NamedTuple):
    """A file or folder of the node, and where a container sees it."""

    source: str
    """Relative to the working directory of the run, unless it is absolute or begins with ~."""
    target: str
    read_only: bool = False


def parse_mount(text: str) -> Mount:
    """Parse a mount. Raise ValueError with the reason if it makes no sense."""
    parts = text.split(":")
    mode = parts.pop() if len(parts) > 1 and parts[-1] in ("ro", "rw") else "rw"
    if len(parts) > 2:
        raise ValueError("too many colons")
    source, target = parts[0], parts[-1]
    if not source or "," in text:
        raise ValueError("it has a comma" if source else "the source is empty")
    if not target.startswith("/"):
        raise ValueError(f"the target {target[:80]!r} is not an absolute path")
    if target.rstrip("/") == "":
        raise ValueError("the target is the root of the container")
    return Mount(source, target.rstrip("/"), mode == "ro")
