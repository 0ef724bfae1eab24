"""The directory of a weave, as the engine sees it: it creates the state, heals it after an exit, and reads counters.

| file | content |
|---|---|
| `state` | one page: see `layout` |
| `N.life` | locked by member N while it lives |
| `N.data`, `N.gpu`, `N.net` | the sockets at which member N waits for its turn |
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import socket
import time
from typing import NamedTuple

from weft.train.weave import state
from weft.train.weave.layout import (
    CELL,
    CELL_AT,
    COPIES_AT,
    MAGIC,
    MAX_PLACES,
    PLACES,
    SIZE,
    STAGES,
    USED,
    BadState,
    View,
    create,
    from_page,
    to_page,
)

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Final, TypeVar

    Result = TypeVar("Result")

STATE: Final = "state"
MAX_SOCKET_PATH: Final = 107
"""The longest path that the kernel takes for a unix socket."""


class StageCounters(NamedTuple):
    """A member's use of one stage since it joined the weave."""

    served_s: float
    waited_s: float
    grants: int
    passed_over: int
    """Times that the member exceeded the limit, and the next one went on."""


class MemberCounters(NamedTuple):
    place: int
    present: bool
    stages: dict[str, StageCounters]
    """By name: data, gpu, net."""


def make(directory: str, order: str, size: int, limit_s: float) -> None:
    """Create the directory and its state, unless they exist."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    path = f"{directory}/{STATE}"
    if os.path.exists(path):
        return
    partial = f"{path}.{os.getpid()}"
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, to_page(create(order, size, limit_s)))
    finally:
        os.close(handle)
    try:
        os.link(partial, path)  # unlike a rename, it never replaces a state that another process made meanwhile
    except FileExistsError:
        pass
    finally:
        os.unlink(partial)


class StateFile:
    """The open state file. `change` applies one operation under the lock."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.fd = os.open(f"{directory}/{STATE}", os.O_RDWR | os.O_CLOEXEC)
        try:
            from_page(os.pread(self.fd, SIZE, 0))
            self._page = mmap.mmap(self.fd, SIZE)
        except (OSError, ValueError):
            os.close(self.fd)
            raise

    def change(self, operation: Callable[..., Result], *arguments: object) -> Result:
        """Replace the state by the first value that `operation` returns, and return all of its values."""
        fcntl.flock(self.fd, fcntl.LOCK_EX)
        try:
            page, active = self._page, self._page[0] & 1
            at, other_at = COPIES_AT if not active else COPIES_AT[::-1]
            raw = page[at : at + USED]
            if raw[:4] != MAGIC:
                raise BadState("the state was overwritten")
            found = operation(raw, *arguments)
            page[other_at : other_at + USED] = found[0]  # type: ignore[index]
            page[0] = active ^ 1
            return found
        finally:
            fcntl.flock(self.fd, fcntl.LOCK_UN)

    def is_removed(self) -> bool:
        return os.fstat(self.fd).st_nlink == 0

    def close(self) -> None:
        self._page.close()
        os.close(self.fd)


def wake(sender: socket.socket, file: StateFile, wakes: Iterable[tuple[int, int, int]]) -> None:
    """Tell members that they hold a stage. A member whose socket is closed is dead: its stage goes to the next."""
    pending = list(wakes)
    for _ in range(2 * MAX_PLACES):  # each round removes a member
        if not pending:
            return
        place, stage, ticket = pending.pop()
        try:
            sender.sendto(ticket.to_bytes(4, "little"), address(file.directory, place, STAGES[stage]))
        except OSError as error:
            if error.errno not in (errno.ECONNREFUSED, errno.ENOENT) or is_alive(file.directory, place):
                continue  # it finds out by itself
            pending += file.change(lambda raw, gone=place: state.leave(raw, gone, time.monotonic()))[1]


def address(directory: str, place: int, stage: str) -> str:
    """Return the path of the socket at which a member waits for a stage."""
    path = f"{directory}/{place}.{stage}"
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        return path
    return f"{_short_path(directory)}/{place}.{stage}"


_short_paths: dict[str, int] = {}
"""Open directories whose path is too long for a socket."""


def _short_path(directory: str) -> str:
    handle = _short_paths.get(directory)
    if handle is None:
        handle = _short_paths[directory] = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return f"/proc/self/fd/{handle}"


def forget_short_path(directory: str) -> None:
    handle = _short_paths.pop(directory, None)
    if handle is not None:
        os.close(handle)


def is_alive(directory: str, place: int) -> bool:
    """Return whether a process holds the life lock of this place."""
    try:
        handle = os.open(f"{directory}/{place}.life", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def dead_members(directory: str, raw: bytes, without: int = -1) -> int:
    """Return the bit set of members in the state that do not live. `without` names the caller's own place."""
    present = View(raw).present
    return sum(1 << place for place in PLACES[present] if place != without and not is_alive(directory, place))


def heal(directory: str, place: int) -> None:
    """Pass on the stages of a member that has ended, and of all other dead ones. Do nothing if the weave is gone."""
    try:
        file = StateFile(directory)
    except (OSError, BadState):
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:

            def remove(raw: bytes) -> state.Step:
                dead = dead_members(directory, raw)
                if not is_alive(directory, place):
                    dead |= 1 << place
                return state.heal(raw, dead, time.monotonic())

            wake(sender, file, file.change(remove)[1])
    except (OSError, BadState):
        return
    finally:
        file.close()
        forget_short_path(directory)


def read_counters(directory: str | os.PathLike[str]) -> list[MemberCounters]:
    """Return the counters of all members that have joined the weave; empty if there is no such weave."""
    try:
        # O_NONBLOCK: a user may have put a named pipe there, at which a worker would wait for ever
        handle = os.open(os.path.join(directory, STATE), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb", buffering=0) as file:
            raw = from_page(file.read(SIZE) or b"")
    except (OSError, BadState):
        return []
    present, found = View(raw).present, []
    for place in range(MAX_PLACES):
        cells = [CELL.unpack_from(raw, CELL_AT[place][stage]) for stage in range(len(STAGES))]
        if present >> place & 1 or any(cell[5] for cell in cells):
            stages = {
                name: StageCounters(cell[2], cell[3], cell[5], cell[6])
                for name, cell in zip(STAGES, cells, strict=True)
            }
            found.append(MemberCounters(place, bool(present >> place & 1), stages))
    return found
