"""The loop: what happened goes in, is journalled together with what is decided about it, and then carried out.

All that arrives while the last batch was written makes up the next: one transaction for all of it. Nobody is answered
and nothing is carried out before it is on disk.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from weft.core.scheduler import Scheduler
from weft.errors import JournalError, Refused
from weft.model import Alarm, Decision, Event, Exited, Fact, Paused, Seconds, Start, Stop, Wake
from weft.model.status import Reason
from weft.server.clock import Clock

Make = Callable[[Seconds], "tuple[Sequence[Event], Any]"]
"""Given the time: what happened, and the answer to whoever brought it."""
RETRY_S: Final = 1.0
POLICY_FAILED: Final = Reason.POLICY_FAILED
DISK_FLOOR: Final = "DiskFloor"
FILE_LIMIT: Final = "FileLimit"
CLOSING: Final = Reason.CLOSING
"""It ends, and what runs is killed: the next scheduler goes on."""
log = logging.getLogger(__name__)


class Store(Protocol):
    def append(self, *facts: Fact) -> None: ...

    def sync(self) -> None: ...


class Loop:
    def __init__(
        self, scheduler: Scheduler, journal: Store, clock: Clock, carry_out: Callable[[Decision], None]
    ) -> None:
        self.scheduler, self._journal, self.clock, self._carry_out = scheduler, journal, clock, carry_out
        self._waiting: list[tuple[Make, asyncio.Future[Any] | None]] = []
        self._scheduled = self._is_open = False
        self._alarm: asyncio.TimerHandle | None = None
        self.changed = asyncio.Condition()
        """Told whenever facts have been journalled."""
        self.broken: Callable[[Exception], None] = lambda _: None
        """Called when memory is not what the disk says, and must be given up."""
        self.stepped: Callable[[float, float], None] = lambda _deciding_s, _committing_s: None
        """Told what each turn took in which something happened."""

    # ---- in

    async def ask(self, make: Make) -> Any:
        """Runs `make` at its turn; answers once what it brought is on disk."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._enter(make, answer)
        return await answer

    def tell(self, make: Callable[[Seconds], Sequence[Event]]) -> None:
        """News that nobody waits for an answer to."""
        self._enter(lambda now: (make(now), None), None)

    @property
    def lag(self) -> int:
        """How much was brought and is not on disk yet."""
        return len(self._waiting)

    def _enter(self, make: Make, answer: asyncio.Future[Any] | None) -> None:
        self._waiting.append((make, answer))
        self._schedule()

    def open(self) -> None:
        """From now on turns are taken; what came before makes up the first."""
        self._is_open = True
        self._schedule()

    def _schedule(self) -> None:
        if self._is_open and not self._scheduled and self._waiting:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    # ---- one turn

    def _turn(self) -> None:
        self._scheduled = False
        batch, self._waiting = self._waiting, []
        now = self.clock.now()
        events: list[Event] = []
        answers: list[tuple[asyncio.Future[Any], Any]] = []
        for make, answer in batch:
            try:
                brought, reply = make(now)
            except Exception as error:
                _fail(answer, error)
                continue
            events += brought
            if answer is not None:
                answers.append((answer, reply))
        if events and not self._step(events, answers):
            return
        for answer, reply in answers:
            if not answer.done():
                answer.set_result(reply)

    def _step(self, events: list[Event], answers: Sequence[tuple[asyncio.Future[Any], Any]]) -> bool:
        failed: Exception | None = None
        began = decided = time.perf_counter()
        try:
            try:
                decisions = self.scheduler.step(*events)
            except Exception as error:  # a policy's fault: what happened is kept, and nothing more is decided
                log.exception("the policy failed")
                failed, decisions = error, []
                events = [*events, Paused(events[-1].at, POLICY_FAILED, blame(error))]
            decided = time.perf_counter()
            self._journal.append(*events, *decisions)
            self._journal.sync()  # on disk before anything acts on it, whatever the store
        except JournalError as error:
            for answer, _ in answers:
                _fail(answer, Refused(f"{error}\n  nothing was changed; free some space and try again"))
            self.broken(error)
            return False
        self.stepped(decided - began, time.perf_counter() - decided)
        if failed is not None:
            self.broken(failed)
        for decision in decisions:
            if type(decision) is Alarm:
                self._set_alarm(decision.due)
            else:
                self._do(decision)
        asyncio.get_running_loop().create_task(self._notify())
        return True

    def _do(self, decision: Decision) -> None:
        """What cannot be carried out is news too: a run that cannot start has failed, a stop is tried again."""
        try:
            self._carry_out(decision)
        except Exception as error:
            log.exception("could not carry out %s", decision)
            if isinstance(decision, Start):
                job, run, why = decision.job, decision.run, f"start-failed: {error}"
                self.tell(lambda now: [Exited(now, job, run, "failed", why=why[:200])])
            elif isinstance(decision, Stop):
                asyncio.get_running_loop().call_later(RETRY_S, self._do, decision)

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    # ---- the alarm

    def wake(self) -> None:
        """Everything is looked at anew."""
        self.tell(lambda now: [Wake(now)])

    def set_alarm_again(self) -> None:
        """After a restart."""
        self._set_alarm(self.scheduler.alarm)

    def _set_alarm(self, due: Seconds | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if due is not None:
            wait_s = max(due - self.clock.now(), 0.0)
            self._alarm = asyncio.get_running_loop().call_later(wait_s, self._ring, due)

    def _ring(self, due: Seconds) -> None:
        """Two clocks differ by a little: one that rings too soon would not be set again."""
        if self.clock.now() < due:
            self._set_alarm(due)
        else:
            self.wake()

    def close(self) -> None:
        self._set_alarm(None)


def blame(error: Exception) -> str:
    """What was raised, and where."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({last.filename}:{last.lineno}); set another policy, then weft resume"


def _fail(answer: asyncio.Future[Any] | None, error: BaseException) -> None:
    if answer is None:
        log.exception("could not take up what happened", exc_info=error)
    elif not answer.done():
        answer.set_exception(error)
