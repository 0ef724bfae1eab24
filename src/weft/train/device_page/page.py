"""The file of a device page: made by the engine, mapped by the processes of runs. One lock guards its slots."""

from __future__ import annotations

import fcntl
import mmap
import os
from contextlib import contextmanager

from weft.train.device_page import layout
from weft.train.device_page.layout import Owner
from weft.train.device_page.process import PAGES_VARIABLE

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REQUEST_VARIABLE = "WEFT_GPU_REQUEST"
LIMIT_VARIABLE = "WEFT_GPU_LIMIT"


def make(path: str, rule: str) -> None:
    """Create the page of a GPU, or give the page there this rule. Only its owner can read it."""
    partial = f"{path}.{os.getpid()}"
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(handle, layout.create(rule))
    finally:
        os.close(handle)
    try:
        os.link(partial, path)  # unlike a rename, it never replaces a page that processes use
        return
    except FileExistsError:
        pass
    finally:
        os.unlink(partial)
    try:
        page = Page(path)
    except layout.BadPage:  # of another version, or damaged: processes that use it keep theirs
        os.unlink(path)
        make(path, rule)
        return
    layout.set_rule(page.memory, rule)
    page.close()


class Page:
    """An open page."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            found = os.fstat(self._fd)
            if found.st_uid != os.geteuid() or found.st_size != layout.SIZE:
                raise layout.BadPage(f"{path} is no page of this user")
            self.memory = mmap.mmap(self._fd, layout.SIZE)
            layout.check(self.memory)
        except BaseException:
            os.close(self._fd)
            raise

    def close(self) -> None:
        if self._fd >= 0:
            self.memory.close()
            os.close(self._fd)
            self._fd = -1

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def claim(self, owner: Owner) -> int:
        """Free the slots of dead processes, claim one, and return its index."""
        with self._locked():
            layout.release_dead(self.memory, self._dead())
            return layout.claim(self.memory, owner)

    def release(self, index: int, owner: Owner) -> None:
        """Free a slot, if it still belongs to this owner."""
        with self._locked():
            if layout.is_owner(self.memory, index, owner.pid, owner.start):
                layout.release(self.memory, index)

    def heal(self) -> int:
        """Free the slots of dead processes; return how many there were."""
        if not self._dead():
            return 0
        with self._locked():
            return len(layout.release_dead(self.memory, self._dead()))

    def release_run(self, job: str, run: int) -> None:
        """Free the slots of a run that has ended. Its processes may have been in another pid namespace."""
        with self._locked():
            name = job.encode()[: layout.MAX_JOB_BYTES].decode(errors="replace")
            ended = {
                slot.index for slot in layout.slots(self.memory) if (slot.owner.job, slot.owner.run) == (name, run)
            }
            layout.release_dead(self.memory, ended)

    def _dead(self) -> set[int]:
        here = pid_namespace()
        return {slot.index for slot in layout.slots(self.memory) if _is_dead(slot.owner, here)}


def _is_dead(owner: Owner, here: int) -> bool:
    """Return whether a process has ended. Of one in another pid namespace this cannot be known: its engine frees it."""
    return owner.namespace == here and start_of(owner.pid) != owner.start


def start_of(pid: int) -> int:
    """Return when a process started, in clock ticks since the boot; 0: it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return 0
    # the name is in parentheses and may itself contain parentheses and spaces
    fields = text[text.rfind(b")") + 2 :].split()
    return 0 if fields[0] in (b"Z", b"X", b"x") else int(fields[19])


def pid_namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def this_owner(kind: int, env: Mapping[str, str]) -> Owner:
    """Return this process as the owner of a slot, with the share of its run."""
    limit = _fraction(env.get(LIMIT_VARIABLE, ""), 1.0)
    request = _fraction(env.get(REQUEST_VARIABLE, ""), limit)
    run = env.get("WEFT_RUN", "")
    return Owner(
        os.getpid(), start_of(os.getpid()), pid_namespace(), kind, request, limit, env.get("WEFT_JOB_ID", ""),
        int(run) if run.isdecimal() else 0,
    )  # fmt: skip


def _fraction(text: str, default: float) -> float:
    try:
        value = float(text)
    except ValueError:
        return default
    return value if 0 < value <= 1 else default


def page_paths(env: Mapping[str, str]) -> list[str]:
    """Return the pages of this process: that of its GPU if each GPU has a process, or else all pages of the run."""
    paths = [path for path in env.get(PAGES_VARIABLE, "").split(":") if path]
    rank = env.get("LOCAL_RANK", "")
    if rank.isdecimal() and int(rank) < len(paths) and env.get("LOCAL_WORLD_SIZE") == str(len(paths)):
        return [paths[int(rank)]]
    return paths
