"""The turns of this process in the weave of its run: it joins, takes turns, and changes weaves in place.

`weave.json` in the run's folder names the weave that counts now. The process reads it once a second, and after a wait.
"""

from __future__ import annotations

import os
import time
from _thread import allocate_lock

from weft.train import ranks, stopping
from weft.train.device import VARIABLE, this_device

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from weft.train.ranks import Ranks
    from weft.train.recorder import Recorder
    from weft.train.weave.member import Member

NAMES: Final = ("data", "gpu", "net")
LOOK_S: Final = 1.0
LONG_WAIT_S: Final = 0.01
"""After a wait of this length the weave may be another one."""
MAX_FREE_STEPS: Final = 1000
"""Steps for which all ranks agree at most that the job is not woven."""
STOPPED, FREE, WOVEN = range(3)


class StopRequested(SystemExit):
    """The job is asked to stop while it waits for its turn: the stage does not begin.

    Catch it to save. Otherwise the process exits with code 85: run me again.
    """

    def __init__(self) -> None:
        super().__init__(stopping.EXIT_CHECKPOINTED)


class Turns:
    """The stages of this process. Without a weave, they begin at once."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._file = env.get("WEFT_WEAVE_FILE", "")
        self._first = _place(env.get("WEFT_WEAVE_DIR", ""), env.get("WEFT_WEAVE_PLACE", ""))
        self.is_possible = bool(self._file or self._first or env.get("WEFT_WEAVE_SIZE"))
        """True if the run is or may become a member of a weave."""
        self.has_named_device = bool(env.get(VARIABLE))
        """True if only the end of a stage waits for the device: the emulated one does no work by itself."""
        self._log = env.get("WEFT_STAGE_LOG", "")
        """A file that gets a line for each stage: its name, begin and end on the monotonic clock; empty: none."""
        self.recorder: Recorder | None = None
        self._member: Member | None = None
        self._seen: tuple[int, int] | None = None
        """Inode and time of the `weave.json` that was read."""
        self._place: tuple[str, int] | None = None
        self._next_look = 0.0
        self._looking = allocate_lock()
        self._held: dict[str, float] = {}
        self._together = FREE
        self._free_steps, self._agreed_at, self._agreed_steps = 0, 0.0, 0

    # ---- the stages of one process

    def begin(self, stage: str, *, insist: bool = False) -> None:
        """Wait for a turn. Raise StopRequested if the job is asked to stop meanwhile, unless the caller insists."""
        began = time.perf_counter()
        member = self._look()
        if member is not None and not member.acquire(stage, stopping.is_requested, insist=insist):
            raise StopRequested
        self._held[stage] = now = time.perf_counter()
        if now - began > LONG_WAIT_S:
            self._next_look = 0.0
        if self.recorder is not None:
            self.recorder.add("turn", now - began)

    def end(self, stage: str) -> None:
        """End a stage when the device has finished. Do nothing if the stage has not begun."""
        began = self._held.pop(stage, None)
        if began is None:
            return
        if stage == "gpu":
            this_device().finish()
        seconds = time.perf_counter() - began
        if self._log:
            self._write_log(stage, seconds)
        if self._member is not None:
            if stage == "data":
                self._member.record_data(seconds)
            self._member.release(stage)
        if self.recorder is not None:
            self.recorder.add(stage, seconds)

    def _write_log(self, stage: str, seconds: float) -> None:
        now = time.monotonic()
        with open(self._log, "a") as log:
            log.write(f"{stage} {now - seconds:.6f} {now:.6f}\n")

    def is_held(self, stage: str) -> bool:
        return stage in self._held

    @property
    def is_woven(self) -> bool:
        return self._look() is not None

    # ---- the stages of all ranks

    def begin_together(self, stage: str, others: Ranks, *, insist: bool = False) -> bool:
        """Begin a stage in all ranks; return whether the job is woven. Rank 0 decides, and the others follow it."""
        if stage == "gpu" and self._free_steps > 0:
            self._free_steps -= 1
        elif stage == "gpu" or self._together == WOVEN:
            self._agree(stage, others, insist)
        if self._together == STOPPED:
            raise StopRequested
        self._held.setdefault(stage, time.perf_counter())
        return self._together == WOVEN

    def _agree(self, stage: str, others: Ranks, insist: bool) -> None:
        verdict, steps = FREE, 0
        if others.rank == 0:
            verdict = WOVEN if self.is_woven else FREE
            if verdict == WOVEN and not self.is_held(stage):
                try:
                    self.begin(stage, insist=insist)
                except StopRequested:
                    verdict = STOPPED
            elif verdict == FREE:
                steps = self._steps_per_look()
        self._together, self._free_steps, _ = others.announce((verdict, steps, 0))
        self._agreed_at, self._agreed_steps = time.monotonic(), self._free_steps + 1

    def _steps_per_look(self) -> int:
        """Return how many steps take about as long as the time between two looks."""
        if not self._agreed_steps:
            return 0
        step_s = (time.monotonic() - self._agreed_at) / self._agreed_steps
        return min(int(LOOK_S / step_s), MAX_FREE_STEPS) if step_s > 0 else MAX_FREE_STEPS

    def end_together(self, stage: str, others: Ranks) -> None:
        """End a stage when the devices of all ranks have finished."""
        if self._together == WOVEN and stage == "gpu":
            this_device().finish()
            others.meet()
        self.end(stage)

    # ---- the weave

    def _look(self) -> Member | None:
        now = time.monotonic()
        if now >= self._next_look and self._looking.acquire(False):
            try:
                self._next_look = now + LOOK_S
                self._refresh()
            finally:
                self._looking.release()
        return self._member

    def _refresh(self) -> None:
        """Follow `weave.json`. Join again if an earlier attempt failed."""
        if ranks.this_rank() != 0:
            self._leave()
            return
        if self.is_held("gpu") or self.is_held("net"):  # another thread asks; the weave changes between two steps
            return
        place = self._read_place()
        if self._member is not None and (place != self._place or self._member.failure):
            self._leave()
        if place is not None and self._member is None:
            self._join(place)
        self._place = place

    def _read_place(self) -> tuple[str, int] | None:
        try:
            found = os.stat(self._file) if self._file else None
        except OSError:
            found = None
        if found is None:
            return self._first
        seen = found.st_ino, found.st_mtime_ns
        if seen == self._seen:
            return self._place
        import json

        try:
            with open(self._file, "rb") as file:
                body = json.load(file)
            place = _place(str(body.get("dir", "")), str(body.get("place", "")))
        except (OSError, ValueError, AttributeError):
            return self._place
        self._seen = seen
        return place

    def _join(self, place: tuple[str, int]) -> None:
        import atexit

        from weft.train.weave.member import Member

        try:
            self._member = Member(*place)
        except (OSError, ValueError):  # gone, or another process of the job has the place: go on without turns
            return
        atexit.register(self._leave)

    def _leave(self) -> None:
        import atexit

        if self._member is not None:
            self._member.leave()
            self._member = None
            atexit.unregister(self._leave)

    def forget(self) -> None:
        """Close what a forked child has inherited: the weave belongs to its parent."""
        if self._member is not None:
            self._member.close()
        self.__init__({})  # type: ignore[misc]


def _place(directory: str, place: str) -> tuple[str, int] | None:
    return (directory, int(place)) if directory and place.isdecimal() else None


_turns: Turns | None = None


def turns() -> Turns:
    """Return the turns of this process."""
    global _turns
    if _turns is None:
        _turns = Turns(os.environ)
        if os.environ.get("WEFT_PROFILE"):
            from weft.train.recorder import Recorder

            _turns.recorder = Recorder()
    return _turns


def _reset_after_fork() -> None:
    if _turns is not None:
        _turns.forget()


os.register_at_fork(after_in_child=_reset_after_fork)
