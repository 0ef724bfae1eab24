"""The files of a git repository as they are in the working tree, made into one archive that a job can be run in.

What git tracks goes in, changed or not, and what is staged; what it does not track stays behind, ignored or not. The
same files make the same bytes, wherever and whenever: so that they are sent once.
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

from weft.errors import InputError
from weft.wire.messages import JobSpec

MOST_BYTES: Final = 512 << 20
"""Of all files together."""
MOST_PACKED: Final = 128 << 20
MOST_FILES: Final = 100_000
GIT_S: Final = 120.0
LEVEL: Final = 6
SHOWN: Final = 5


@dataclass(frozen=True)
class Snapshot:
    packed: bytes = field(repr=False)
    inside: str
    """Where in it the folder is that it was taken for."""
    files: int
    left_out: tuple[str, ...]
    """What git does not track, though it does not ignore it either, and links that lead out of the tree."""

    @cached_property
    def name(self) -> str:
        return hashlib.sha256(self.packed).hexdigest()


def take_for(specs: Iterable[JobSpec], here: str) -> list[Snapshot]:
    """Of the folders of these jobs, or of this one; each job is told which is its own, and where in it to run."""
    taken: dict[str, Snapshot] = {}
    for spec in specs:
        folder = spec.chdir or here
        if folder not in taken:
            taken[folder] = take(Path(folder))
        spec.snapshot, spec.chdir = taken[folder].name, taken[folder].inside
    return list({each.name: each for each in taken.values()}.values())


def take(folder: Path) -> Snapshot:
    """Of the repository that this folder is in."""
    root = Path(_git(folder, "rev-parse", "--show-toplevel").removesuffix("\n"))
    names = _names(root, "--cached", "--recurse-submodules")
    untracked = _names(root, "--others", "--exclude-standard")
    chosen, outside = _chosen(root, names)
    if not chosen:
        raise InputError(f"git tracks no files in {root}", hint="git add what the job needs; it need not be committed")
    _check_size(chosen, root)
    packed = _pack(root, list(chosen))
    if len(packed) > MOST_PACKED:
        raise InputError(
            f"the snapshot of {root} is {len(packed) >> 20} MB, packed; at most {MOST_PACKED >> 20} MB are taken",
            hint=_hint(chosen),
        )
    inside = os.path.relpath(os.path.realpath(folder), os.path.realpath(root))
    return Snapshot(packed, inside, len(chosen), (*untracked, *outside))


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            timeout=GIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise InputError(
            "git is not installed", hint="--snapshot needs it; or use --chdir with a folder there"
        ) from None
    except subprocess.TimeoutExpired:
        raise InputError(f"git took more than {GIT_S:.0f} s", hint=f"try git -C {folder} {words[0]}") from None
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().removeprefix("fatal: ").partition("\n")[0]
        raise InputError(f"no snapshot of {folder}: {why}", hint="it must be in a git repository: git init, git add")
    return os.fsdecode(done.stdout)


def _names(root: Path, *which: str) -> list[str]:
    return sorted({name for name in _git(root, "ls-files", "-z", *which).split("\0") if name})


def _chosen(root: Path, names: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    """Files that are there, with their sizes; and links that would lead nowhere on another machine."""
    chosen: dict[str, int] = {}
    outside: list[str] = []
    for name in names:
        try:
            name.encode()
            found = os.lstat(root / name)
        except FileNotFoundError:
            continue  # removed, but not from git yet
        except UnicodeEncodeError:
            raise InputError(f"{name!r} is not a UTF-8 name", hint="rename it, or git rm --cached it") from None
        if stat.S_ISLNK(found.st_mode) and _leads_out(name, os.readlink(root / name)):
            outside.append(name)
        elif stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode):
            chosen[name] = found.st_size
    if len(chosen) > MOST_FILES:
        raise InputError(f"{len(chosen):,} files in {root}; at most {MOST_FILES:,} are taken", hint="untrack some")
    return chosen, outside


def _leads_out(name: str, target: str) -> bool:
    where = os.path.normpath(PurePosixPath(name).parent / target)
    return os.path.isabs(target) or where == ".." or where.startswith("../")


def _check_size(chosen: dict[str, int], root: Path) -> None:
    total = sum(chosen.values())
    if total > MOST_BYTES:
        raise InputError(
            f"the files that git tracks in {root} are {total >> 20} MB; at most {MOST_BYTES >> 20} MB are taken",
            hint=_hint(chosen),
        )


def _hint(chosen: dict[str, int]) -> str:
    largest = sorted(chosen, key=lambda name: -chosen[name])[:SHOWN]
    named = ", ".join(f"{name} ({chosen[name] >> 20} MB)" for name in largest)
    return f"the largest: {named}; keep data elsewhere, and git rm --cached it"


def _pack(root: Path, names: Sequence[str]) -> bytes:
    """Without times, owners and other modes than git has: the same files make the same bytes."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in names:
            entry = archive.gettarinfo(str(root / name), arcname=name)
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
            entry.mode = 0o755 if entry.mode & 0o100 else 0o644
            if entry.islnk():  # a hard link, to a file that may not be in it
                entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", os.lstat(root / name).st_size
            if entry.isreg():
                with open(root / name, "rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)
    return gzip.compress(plain.getvalue(), compresslevel=LEVEL, mtime=0)
