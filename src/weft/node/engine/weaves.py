"""The weaves of a node: the directories in which members take turns, and the file that tells each run its place.

`weave.json` in a run's folder says which weave counts now. It survives the engine: a new engine reads from it which
directories are in use. Nothing of Weft is on the path of a turn; see `weft.train.weave`.

Where runs use the accounts of their users, each user has other directories: `weaves/.UID/WEAVE`. Members write to
the state of their weave, so members of two users share none and take no turns with each other.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from weft.inputs.atomic import write_atomic
from weft.model import JobId
from weft.node.engine.shim import run_files
from weft.node.engine.users import run_folder
from weft.node.engine.users.accounts import Account
from weft.node.engine.users.file_rights import rights_of
from weft.node.engine.weave_spec import MAX_MEMBERS, ORDERS, WeaveSpec
from weft.train.weave import directory

FOLDER: Final = "weaves"
__all__ = ["MAX_MEMBERS", "ORDERS", "NodeWeaves", "WeaveSpec", "collect", "heal", "prepare", "rewrite", "weave_of"]


class NodeWeaves:
    """The weaves of one engine. `runs` returns its living runs.

    A node that cannot write starts its runs unwoven: turns are only for speed.
    """

    def __init__(self, jobs_dir: str, runs: Callable[[], Iterable[tuple[JobId, int]]]) -> None:
        self._jobs_dir, self._runs = jobs_dir, runs
        self._state_dir = os.path.dirname(jobs_dir)

    def enter(self, job: JobId, run: int, spec: WeaveSpec | None, account: Account | None = None) -> bool:
        """Give a run its place in a weave, or take it from one; return False if nothing could be written."""
        try:
            if spec is not None:
                prepare(self._state_dir, spec, account)
            rewrite(run_files.run_dir(self._jobs_dir, job, run), spec, self._state_dir, account)
        except OSError:
            return False
        return True

    def move(self, job: JobId, run: int, spec: WeaveSpec | None) -> bool:
        """Give a run another weave, or none, and remove the weaves that all runs have left. The one that this run
        leaves stays until a later move or exit: the run notices within a second."""
        account = run_folder.owner(run_files.run_dir(self._jobs_dir, job, run))
        entered = self.enter(job, run, spec, account)
        self.collect()
        return entered

    def leave(self, job: JobId, run: int) -> None:
        """Pass on the turns of a run that has ended, and remove the weaves that no other run uses."""
        run_dir = run_files.run_dir(self._jobs_dir, job, run)
        if os.path.exists(f"{run_dir}/{run_files.WEAVE}"):
            found = weave_of(run_dir)
            if found is not None and run_folder.owner_uid(run_dir) == os.geteuid():
                heal(*found)  # a user could hold the lock of an own weave for ever; its members find out by themselves
            self.collect(without=(job, run))

    def collect(self, without: tuple[JobId, int] | None = None) -> None:
        """Remove the weaves that no living run uses, apart from one that has just ended."""
        if os.path.isdir(f"{self._state_dir}/{FOLDER}"):
            living = (run_files.run_dir(self._jobs_dir, *key) for key in self._runs() if key != without)
            collect(self._state_dir, {found[0].name for run_dir in living if (found := weave_of(run_dir))})


def folder_of(state_dir: str | Path, account: Account | None = None) -> Path:
    """Return the folder of the weaves of a user; None: of the user of this process."""
    return Path(state_dir, FOLDER) if account is None else Path(state_dir, FOLDER, f".{account.uid}")


def prepare(state_dir: str | Path, spec: WeaveSpec, account: Account | None = None) -> Path:
    """Create the directory of a weave unless it exists, and return its path."""
    spec.check()
    folder = folder_of(state_dir, account)
    if account is not None:
        os.makedirs(folder.parent, exist_ok=True)
        os.chmod(folder.parent, 0o711)
        run_folder.make_user_folder(str(folder), account)
    with rights_of(account):
        directory.make(str(folder / spec.id), spec.order, spec.size, spec.limit_s)
    return folder / spec.id


def rewrite(
    run_dir: str | Path,
    spec: WeaveSpec | None,
    state_dir: str | Path | None = None,
    account: Account | None = None,
) -> None:
    """Tell a run its weave; None: it is not woven. `state_dir` defaults to the folder above the folder of the jobs."""
    body: dict[str, object] = {}
    if spec is not None:
        state_dir = Path(run_dir).parents[2] if state_dir is None else state_dir
        body = {"dir": str(folder_of(state_dir, account) / spec.id), "place": spec.place, "size": spec.size}
    path = f"{run_dir}/{run_files.WEAVE}"
    if spec is None and not os.path.exists(path):
        return
    run_files.make_run_dir(str(run_dir))
    if account is None:
        write_atomic(path, run_files.to_json(body))
        return
    run_files.write_new(f"{path}.new", run_files.to_json(body))
    run_folder.give_to(f"{path}.new", account)
    os.rename(f"{path}.new", path)


def weave_of(run_dir: str | Path) -> tuple[Path, int] | None:
    """Return the directory of a run's weave and its place there; None if the run is not woven."""
    body = run_files.read_object(f"{run_dir}/{run_files.WEAVE}") or {}
    match body:
        case {"dir": str(path), "place": int(place)}:
            return Path(path), place
    return None


def heal(path: str | Path, place: int) -> None:
    """Pass on the turns of a member that has ended, at once."""
    directory.heal(str(path), place)


def collect(state_dir: str | Path, alive: Collection[str]) -> list[str]:
    """Remove the weaves that no living run uses, and return their ids. `alive` holds the ids of weaves in use."""
    top = Path(state_dir, FOLDER)
    removed = []
    for folder in (top, *(top / name for name in _list_names(top) if name.startswith("."))):
        for name in _list_names(folder):
            if name in alive or name.startswith(".") or _has_members(folder / name):
                continue
            shutil.rmtree(folder / name, ignore_errors=True)
            removed.append(name)
    with suppress(OSError):  # not empty, or not there
        top.rmdir()
    return removed


def _has_members(weave: Path) -> bool:
    account = run_folder.account_of_file(str(weave))
    with rights_of(account):
        return any(directory.is_alive(str(weave), place) for place in range(MAX_MEMBERS))


def _list_names(path: Path) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []
