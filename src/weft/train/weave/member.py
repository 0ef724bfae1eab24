"""A member of a weave: takes turns in stages by the state file, its life lock and datagrams.

It fails open: turns are for speed, never for correctness. If the weave cannot be used, its stages begin at once.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from _thread import allocate_lock

from weft.train.weave import directory as weave_directory
from weft.train.weave import state
from weft.train.weave.directory import StateFile, address, dead_members, forget_short_path
from weft.train.weave.layout import DATA, MAX_PLACES, SLOTS, STAGES, BadState, View

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from weft.train.weave.directory import Result

PATIENCE_S: Final = 0.25
"""A member that waits for longer checks whether the holder lives and keeps the limit."""
SLICE_S: Final = 0.05
"""A member that waits checks in this interval whether it is asked to stop."""
NUMBERS: Final = {name: number for number, name in enumerate(STAGES)}


class Member:
    """One place of a weave, held by this process. Raises OSError or BadState if the weave cannot be joined."""

    def __init__(self, directory: str, place: int) -> None:
        if not 0 <= place < MAX_PLACES:
            raise BadState(f"place {place}: a weave has places 0 to {MAX_PLACES - 1}")
        self.directory, self.place = directory, place
        self._lock = allocate_lock()  # flock does not keep threads of one process apart
        self._file = StateFile(directory)
        self._life = -1
        self._sockets: dict[int, socket.socket] = {}
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._recorded = 0.0
        self.failure = ""
        """Why this process takes no turns any more; empty while it does."""
        try:
            self._life = os.open(f"{directory}/{place}.life", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._life, fcntl.LOCK_EX | fcntl.LOCK_NB)  # another process of the job may have the place
            for number in range(len(STAGES)):
                self._sockets[number] = self._bind(number)
            raw, wakes = self._change(lambda raw: state.join(raw, place, time.monotonic()))
            self._is_lockstep = View(raw).order == SLOTS
            self._wake(wakes)
        except BaseException:
            self.close()
            raise

    def _bind(self, stage: int) -> socket.socket:
        path = address(self.directory, self.place, STAGES[stage])
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            if os.path.lexists(path):  # of an earlier process in this place
                os.unlink(path)
            made.bind(path)
        except OSError:
            made.close()
            raise
        made.settimeout(SLICE_S)
        return made

    # ---- turns

    def acquire(self, stage: str, is_stopping: Callable[[], bool], *, insist: bool = False) -> bool:
        """Wait for a turn. Return False if the process is asked to stop meanwhile: then it must not begin the stage.

        With `insist`, a process that is asked to stop gets the next turn instead.
        """
        number = NUMBERS[stage]
        if self.failure or (number == DATA and not self._is_lockstep):
            return True
        try:
            _, wakes, ticket, held = self._change(state.want, self.place, number, time.monotonic())
            if wakes:
                self._wake(wakes)
            return held or self._wait(number, ticket, is_stopping, insist)
        except Exception as error:  # whatever is wrong with the weave: the training goes on
            self._fail(repr(error))
            return True

    def _wait(self, stage: int, ticket: int, is_stopping: Callable[[], bool], insist: bool) -> bool:
        inbox, expected = self._sockets[stage], ticket.to_bytes(4, "little")
        heal_at, urged = time.monotonic() + PATIENCE_S, False
        while not self.failure:
            try:
                if inbox.recv(8) == expected:  # other messages are late ones, about earlier turns
                    return True
            except TimeoutError:
                pass
            if not urged and is_stopping():
                urged = insist
                if not insist:
                    self._wake(self._change(lambda raw: state.give_up(raw, self.place, stage, time.monotonic()))[1])
                    return False
                self._wake(self._change(lambda raw: state.urge(raw, self.place, time.monotonic()))[1])
            now = time.monotonic()
            if now >= heal_at:
                if self._heal(stage):
                    return True
                heal_at = now + PATIENCE_S
        return True

    def _heal(self, stage: int) -> bool:
        """Let the others' stages go on if they are dead or too long; return whether this member has its turn."""
        if self._file.is_removed():
            self._fail("the weave was removed")
            return True

        def heal(raw: bytes) -> state.Step:
            return state.heal(raw, dead_members(self.directory, raw, self.place), time.monotonic())

        raw, wakes = self._change(heal)
        self._wake([each for each in wakes if each[:2] != (self.place, stage)])
        return state.is_holder(raw, self.place, stage)

    def release(self, stage: str) -> bool:
        """End a stage; return whether another member has gone on meanwhile because this one exceeded the limit."""
        number = NUMBERS[stage]
        if self.failure or (number == DATA and not self._is_lockstep):
            return False
        try:
            data_s, self._recorded = self._recorded, 0.0
            _, wakes, passed_over = self._change(state.release, self.place, number, time.monotonic(), data_s)
            if wakes:
                self._wake(wakes)
            return passed_over
        except Exception as error:  # whatever is wrong with the weave: the training goes on
            self._fail(repr(error))
            return False

    def record_data(self, seconds: float) -> None:
        """Count a data stage that took no turn, with the end of the next stage."""
        if not self._is_lockstep:
            self._recorded += seconds

    # ---- the end

    def leave(self) -> None:
        """Leave the weave: the others go on without this member."""
        if not self.failure:
            try:
                self._wake(self._change(lambda raw: state.leave(raw, self.place, time.monotonic()))[1])
            except Exception:  # the others find out by themselves
                self._fail("it could not leave")
        self.close()

    def close(self) -> None:
        """Close the files. In a forked child this leaves the parent's membership as it is."""
        self.failure = self.failure or "closed"
        for each in (self._sender, *self._sockets.values()):
            each.close()
        self._sockets = {}
        if self._life >= 0:
            os.close(self._life)
            self._life = -1
        if self._file.fd >= 0:
            self._file.close()
            self._file.fd = -1
        forget_short_path(self.directory)

    def _fail(self, why: str) -> None:
        self.failure = why or "the weave cannot be used"

    def _change(self, operation: Callable[..., Result], *arguments: object) -> Result:
        with self._lock:
            return self._file.change(operation, *arguments)

    def _wake(self, wakes: list[state.Wake]) -> None:
        with self._lock:
            weave_directory.wake(self._sender, self._file, wakes)
