"""An output directory that is there whole or not at all.

It is written beside its place under a hidden name and renamed at the end; whatever goes wrong before, an interrupt
included, nothing of it is left.
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
    """Where the output will really be; InputError where it may not or cannot be written."""
    if not str(directory):
        raise InputError("no output directory", hint="name one: --out DIR")
    target = Path(os.path.realpath(directory))
    try:
        if target.is_dir():
            _check_replaceable(target, str(directory), force)
        elif target.exists():
            raise InputError("is a file", where=str(directory), hint="expected a directory, or a name not taken yet")
        _try_out(target)
    except OSError as error:
        what = f"cannot be made: {error.strerror or error}"
        raise InputError(what, where=str(directory), hint="name a directory that you may write") from None
    return target


@contextmanager
def all_or_nothing(directory: str | Path, *, force: bool = False) -> Iterator[Path]:
    """A directory to write into, which takes its place when the block ends well."""
    target = check_target(directory, force=force)
    partial = _partial(target)
    made: list[Path] = []
    try:
        _make_parents(target.parent, made)
        partial.mkdir()
        yield partial
        _put(partial, target)
        made = []
    except OSError as error:
        what = f"cannot write {directory}: {error.strerror or error}; nothing of it was kept"
        raise WeftError(f"{what}\n  make room there, or name another directory with --out") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        _remove(made)


def _check_replaceable(target: Path, shown: str, force: bool) -> None:
    here = Path.cwd()
    if target == here or target in here.parents or target == Path(os.path.expanduser("~")) or target.is_mount():
        hint = "name a new directory inside it"
        raise InputError("cannot be replaced: you are in it, or too much else is", where=shown, hint=hint)
    names = {entry.name for entry in target.iterdir()}
    if not names or force:
        return
    if not read_summary(target / SUMMARY):
        hint = "name another directory, or let --force replace all that is in it"
        raise InputError("exists and is not the output of a simulation", where=shown, hint=hint)
    if others := sorted(names - FILES):
        hint = "move that away, name another directory, or let --force replace all that is in it"
        raise InputError(f"holds more than the output of a simulation: {others[0]}", where=shown, hint=hint)


def read_summary(path: Path) -> dict[str, Any]:
    """The summary.json of a simulation; empty where there is none."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and {"schema", "policy", "avg_jct_s"} <= found.keys() else {}


def _try_out(target: Path) -> None:
    """Makes a directory there and removes it again: nothing else is a sure answer."""
    made: list[Path] = []
    try:
        _make_parents(target.parent, made)
        _partial(target).mkdir()
        _partial(target).rmdir()
    finally:
        _remove(made)


def _partial(target: Path) -> Path:
    return target.with_name(f".{target.name}.partial-{os.getpid()}")


def _make_parents(folder: Path, made: list[Path]) -> None:
    """Makes the missing ones, outermost first, and adds them to `made`."""
    missing = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    for each in reversed(missing):
        each.mkdir()
        made.append(each)


def _remove(made: list[Path]) -> None:
    with suppress(OSError):  # somebody else uses it by now
        for folder in reversed(made):
            folder.rmdir()


def _put(partial: Path, target: Path) -> None:
    """Renames; an interrupt waits until one of the two is in its place."""
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
