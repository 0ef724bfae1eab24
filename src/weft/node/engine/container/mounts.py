"""All mounts of a container: the user's, the working directory, and what Weft needs. Pure, but for one check."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final

from weft.inputs.mounts import Mount
from weft.node.engine.container.port import ContainerError

BAD_MOUNT: Final = "bad-mount"
SYSTEM_FOLDERS: Final = frozenset(
    f"/{name}"
    for name in ("", "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys", "usr", "var")
)
"""Folders that belong to the image: a job that was submitted from one of them does not hide it."""


def working_mounts(workdir: str) -> list[Mount]:
    """Return the mount of the working directory, unless it is a folder of the image."""
    return [Mount(workdir, workdir)] if workdir and workdir not in SYSTEM_FOLDERS and os.path.isdir(workdir) else []


def resolve(given: Iterable[Mount], workdir: str, home: str) -> list[Mount]:
    """Return the user's mounts with absolute sources. Raise ContainerError for one that does not exist here."""
    found = []
    for mount in given:
        source = mount.source
        if source == "~" or source.startswith("~/"):
            source = home + source[1:]
        source = os.path.normpath(os.path.join(workdir or "/", source))
        if not os.path.exists(source):
            raise ContainerError(BAD_MOUNT, f"cannot mount {source!r}: there is no such file or folder on this node")
        found.append(Mount(source, mount.target, mount.read_only))
    return found


def combine(given: Sequence[Mount], own: Sequence[Mount]) -> tuple[Mount, ...]:
    """Return all mounts. The user's come first; one of Weft's is left out where another shows the same files."""
    found = {mount.target: mount for mount in given}
    for mount in sorted(own, key=lambda each: len(each.target)):
        shown = any(_shows(other, mount) for other in found.values())
        if not shown:
            found.setdefault(mount.target, mount)
    return tuple(found.values())


def _shows(outer: Mount, inner: Mount) -> bool:
    """Return whether the outer mount shows the files of the inner one at the same path, with the same rights."""
    below = inner.target == outer.target or inner.target.startswith(f"{outer.target}/")
    same = inner.source == outer.source + inner.target.removeprefix(outer.target)
    return below and same and (inner.read_only or not outer.read_only)
