"""Output directories that appear complete or not at all.

The files are written under a hidden name in the same parent directory, which is renamed at the end. After an error or
an interrupt, nothing is left.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from weft.errors import InputError, WeftError

SUMMARY: Final = "summary.json"
FILES: Final = frozenset({"job.csv", "cluster.csv", "journal.jsonl", SUMMARY})


def check_target(directory: str | Path, *, force: bool = False) -> Path:
    """Return the real path of the output; raise InputError if it cannot be written."""
    if not str(directory):
        raise InputError("no output directory", hint="add --out DIR")
    target = Path(os.path.realpath(directory))
    try:
        if target.is_dir():
            _check_replaceable(target, str(directory), force)
        elif target.exists():
            raise InputError(
                "is a file", where=str(directory), hint="expected a directory, or a path that does not exist"
            )
        _test_writable(target)
    except OSError as error:
        what = f"cannot be created: {error.strerror or error}"
        raise InputError(what, where=str(directory), hint="choose a directory that you may write to") from None
    return target


@contextmanager
def atomic_folder(directory: str | Path, *, force: bool = False) -> Iterator[Path]:
    """Yield a directory to write into, which becomes `directory` when the block ends without an error."""
    target = check_target(directory, force=force)
    partial = _partial_path(target)
    made: list[Path] = []
    try:
        _make_parents(target.parent, made)
        partial.mkdir()
        yield partial
        _publish(partial, target)
        made = []
    except OSError as error:
        what = f"cannot write {directory}: {error.strerror or error}; nothing was written"
        raise WeftError(f"{what}\n  free some disk space, or choose another directory with --out") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        _remove_empty(made)


def _check_replaceable(target: Path, shown: str, force: bool) -> None:
    here = Path.cwd()
    if target == here or target in here.parents or target == Path(os.path.expanduser("~")) or target.is_mount():
        hint = "choose a new directory inside it"
        what = "cannot be replaced: it contains the current directory, or is a home directory or mount point"
        raise InputError(what, where=shown, hint=hint)
    names = {entry.name for entry in target.iterdir()}
    if not names or force:
        return
    if not read_summary(target / SUMMARY):
        hint = "choose another directory, or replace its contents with --force"
        raise InputError("exists and is not the output of a simulation", where=shown, hint=hint)
    if others := sorted(names - FILES):
        hint = "move that away, choose another directory, or replace its contents with --force"
        raise InputError(f"contains more than the output of a simulation: {others[0]}", where=shown, hint=hint)


def read_summary(path: Path) -> dict[str, Any]:
    """Return the summary.json of a simulation; {} if there is none."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and {"schema", "policy", "avg_jct_s"} <= found.keys() else {}


def _test_writable(target: Path) -> None:
    """Create a directory there and remove it: no other check is reliable."""
    made: list[Path] = []
    try:
        _make_parents(target.parent, made)
        _partial_path(target).mkdir()
        _partial_path(target).rmdir()
    finally:
        _remove_empty(made)


def _partial_path(target: Path) -> Path:
    return target.with_name(f".{target.name}.partial-{os.getpid()}")


def _make_parents(folder: Path, made: list[Path]) -> None:
    """Create missing parents, outermost first, and append them to `made`."""
    missing = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    for each in reversed(missing):
        each.mkdir()
        made.append(each)


def _remove_empty(made: list[Path]) -> None:
    with suppress(OSError):  # another process uses it by now
        for folder in reversed(made):
            folder.rmdir()


def _publish(partial: Path, target: Path) -> None:
    """Rename `partial` to `target`. Interrupts are blocked until one of the two is in place."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        if not target.exists():
            partial.rename(target)
            return
        old = target.with_name(f".{target.name}.old-{os.getpid()}")
        target.rename(old)
        try:
            partial.rename(target)
        except OSError:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
