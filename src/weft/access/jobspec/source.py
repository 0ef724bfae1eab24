"""Source snapshots: the working tree of a git repository as one archive that a job runs in.

A snapshot holds the files that git tracks, with uncommitted changes, and staged files, but no untracked files.
The same files always give the same bytes, so that they are sent once.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import subprocess
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

from weft.access.wire.messages import JobSpec
from weft.errors import InputError

MAX_TREE_BYTES: Final = 512 << 20
"""Size of all files together."""
MAX_PACKED_BYTES: Final = 128 << 20
MAX_FILES: Final = 100_000
GIT_TIMEOUT_S: Final = 120.0
COMPRESSION_LEVEL: Final = 6
LARGEST_SHOWN: Final = 5


@dataclass(frozen=True)
class Snapshot:
    packed: bytes = field(repr=False)
    inside: str
    """The path, inside the snapshot, of the folder that it was taken for."""
    files: int
    left_out: tuple[str, ...]
    """Untracked files that git does not ignore, and links that lead out of the tree."""

    @cached_property
    def name(self) -> str:
        return hashlib.sha256(self.packed).hexdigest()


def take_snapshots(specs: Iterable[JobSpec], here: str) -> list[Snapshot]:
    """Take a snapshot of each job's folder, by default `here`, and set it in the job, with the folder inside it."""
    taken: dict[str, Snapshot] = {}
    for spec in specs:
        folder = spec.chdir or here
        if folder not in taken:
            taken[folder] = take_snapshot(Path(folder))
        spec.snapshot, spec.chdir = taken[folder].name, taken[folder].inside
    return list({each.name: each for each in taken.values()}.values())


def take_snapshot(folder: Path) -> Snapshot:
    """Return a snapshot of the repository that holds this folder."""
    root = Path(_git(folder, "rev-parse", "--show-toplevel").removesuffix("\n"))
    names = _names(root, "--cached", "--recurse-submodules")
    untracked = _names(root, "--others", "--exclude-standard")
    chosen, outside = _choose(root, names)
    if not chosen:
        raise InputError(f"git tracks no files in {root}", hint="git add what the job needs; it need not be committed")
    _check_size(chosen, root)
    packed = _pack(root, list(chosen))
    if len(packed) > MAX_PACKED_BYTES:
        raise InputError(
            f"the snapshot of {root} is {len(packed) >> 20} MB, packed; the limit is {MAX_PACKED_BYTES >> 20} MB",
            hint=_hint(chosen),
        )
    inside = os.path.relpath(os.path.realpath(folder), os.path.realpath(root))
    return Snapshot(packed, inside, len(chosen), (*untracked, *outside))


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            timeout=GIT_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise InputError(
            "git is not installed", hint="--snapshot needs it; or use --chdir with a folder there"
        ) from None
    except subprocess.TimeoutExpired:
        raise InputError(f"git took more than {GIT_TIMEOUT_S:.0f} s", hint=f"try git -C {folder} {words[0]}") from None
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().removeprefix("fatal: ").partition("\n")[0]
        raise InputError(f"no snapshot of {folder}: {why}", hint="it must be in a git repository: git init, git add")
    return os.fsdecode(done.stdout)


def _names(root: Path, *which: str) -> list[str]:
    return sorted({name for name in _git(root, "ls-files", "-z", *which).split("\0") if name})


def _choose(root: Path, names: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    """Return the existing files with their sizes, and the links that would be broken on another machine."""
    chosen: dict[str, int] = {}
    outside: list[str] = []
    for name in names:
        try:
            name.encode()
            found = os.lstat(root / name)
        except FileNotFoundError:
            continue  # deleted, but still tracked
        except UnicodeEncodeError:
            raise InputError(f"{name!r} is not a UTF-8 name", hint="rename it, or git rm --cached it") from None
        if stat.S_ISLNK(found.st_mode) and _leads_out(name, os.readlink(root / name)):
            outside.append(name)
        elif stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode):
            chosen[name] = found.st_size
    if len(chosen) > MAX_FILES:
        raise InputError(f"{len(chosen):,} files in {root}; the limit is {MAX_FILES:,}", hint="untrack some")
    return chosen, outside


def _leads_out(name: str, target: str) -> bool:
    where = os.path.normpath(PurePosixPath(name).parent / target)
    return os.path.isabs(target) or where == ".." or where.startswith("../")


def _check_size(chosen: dict[str, int], root: Path) -> None:
    total = sum(chosen.values())
    if total > MAX_TREE_BYTES:
        raise InputError(
            f"the files that git tracks in {root} are {total >> 20} MB; the limit is {MAX_TREE_BYTES >> 20} MB",
            hint=_hint(chosen),
        )


def _hint(chosen: dict[str, int]) -> str:
    largest = sorted(chosen, key=lambda name: -chosen[name])[:LARGEST_SHOWN]
    named = ", ".join(f"{name} ({chosen[name] >> 20} MB)" for name in largest)
    return f"the largest: {named}; keep data elsewhere, and git rm --cached it"


def _pack(root: Path, names: Sequence[str]) -> bytes:
    """Return an archive without times, owners and modes that git does not track: the same files give the same bytes."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in names:
            entry = archive.gettarinfo(str(root / name), arcname=name)
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
            entry.mode = 0o755 if entry.mode & 0o100 else 0o644
            if entry.islnk():  # a hard link to a file that may not be in the archive
                entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", os.lstat(root / name).st_size
            if entry.isreg():
                with open(root / name, "rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)
    return gzip.compress(plain.getvalue(), compresslevel=COMPRESSION_LEVEL, mtime=0)
