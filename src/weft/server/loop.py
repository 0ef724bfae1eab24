"""The loop: it journals events together with the decisions that they lead to, and then executes the decisions.

Everything that arrives while a batch is written forms the next batch: one transaction for all of it. No caller gets an
answer and no decision is executed before the batch is on disk. A journal that waits for a network is written by a
thread, and the event loop serves other calls meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final, Protocol

from weft.errors import Deposed, InputError, JournalError, Refused, WeftError
from weft.history.journal.base import Encoded
from weft.history.journal.codec import encode_line
from weft.model import (
    Alarm,
    Continued,
    Decision,
    Event,
    Exited,
    Fact,
    Paused,
    Seconds,
    Start,
    Stop,
    Suspended,
    Unwoven,
    Wake,
)
from weft.node.engine.background import TaskSet
from weft.scheduling.core.scheduler import Scheduler
from weft.server.pause_reasons import POLICY_FAILED
from weft.server.process.clock import Clock
from weft.server.process.cpu_shares import Account, payer

MakeEvents = Callable[[Seconds], "tuple[Sequence[Event], Any]"]
"""Given the time, return events and the reply to the caller."""
Decide = Callable[[Scheduler, Seconds], "list[Decision]"]
"""Given the scheduler and the time, return decisions that follow from no event."""
ExecutedEvent = Suspended | Continued | Unwoven
"""Events that the backend executes: what users order, and what follows from the counters of weaves."""
RETRY_S: Final = 1.0
MAX_BATCH_EVENTS: Final = 250
MAX_BATCH_CPU_S: Final = 0.03
"""Requests that come when a batch has as many events, or took as long to make them, wait for the next one."""
log = logging.getLogger(__name__)


class Store(Protocol):
    def append(self, *facts: Fact | Encoded) -> None: ...

    def sync(self) -> None: ...


@dataclass(frozen=True)
class Step:
    """One batch after the scheduler has decided: what to journal, and whom to answer then."""

    events: Sequence[Event]
    lines: Sequence[Encoded]
    """The events as they are journalled."""
    decisions: Sequence[Decision]
    replies: Sequence[tuple[asyncio.Future[Any], Any]]
    failed: Exception | None
    """The error of a policy."""
    deciding_s: float


class Loop:
    """`thread` writes the journal; None: the event loop does. `leads` returns whether the server may answer calls."""

    def __init__(
        self,
        scheduler: Scheduler,
        journal: Store,
        clock: Clock,
        execute: Callable[[Decision | ExecutedEvent], None],
        thread: Executor | None = None,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self.scheduler, self._journal, self.clock, self._execute = scheduler, journal, clock, execute
        self._thread, self._leads, self._is_writing = thread, leads, False
        self._awaiting_write: list[asyncio.Future[None]] = []
        self._waiting: list[tuple[MakeEvents, asyncio.Future[Any] | None, Account | None]] = []
        self._orders: list[Decide] = []
        self._scheduled = self._is_open = False
        self._refusal: Refused | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._tasks = TaskSet()
        self.changed = asyncio.Condition()
        """Notified whenever facts have been journalled, or could not be."""
        self.trouble = ""
        """Why the last facts could not be journalled, in words; empty: they were."""
        self.on_failure: Callable[[Exception], None] = lambda _: None
        """Called when memory differs from the disk and must be rebuilt."""
        self.on_step: Callable[[float, float], None] = lambda _deciding_s, _committing_s: None
        """Called after each batch with events, with the seconds that deciding and writing took."""
        self.on_facts: list[Callable[[Sequence[Event], Sequence[Decision]], None]] = []
        """Called with the facts of each batch once they are on disk."""

    # ---- requests

    async def call(self, make: MakeEvents) -> Any:
        """Run `make` in the next batch. Return its reply once its events are on disk."""
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._enqueue(make, reply)
        try:
            return await reply
        finally:
            del reply  # an error would refer to itself through this frame, and keep the request alive

    def post(self, make: Callable[[Seconds], Sequence[Event]]) -> None:
        """Run `make` in the next batch, without waiting for it."""
        self._enqueue(lambda now: (make(now), None), None)

    def decide(self, make: Decide) -> None:
        """Let the scheduler decide, in the next batch, something that follows from no event, such as a resize."""
        self._orders.append(make)
        self._schedule()

    def refuse(self, refusal: Refused | None) -> None:
        """Refuse all requests from now on, because memory is ahead of the disk. None: take them up again."""
        self._refusal = refusal

    @property
    def lag(self) -> int:
        """The number of requests that are not on disk yet."""
        return len(self._waiting)

    def _enqueue(self, make: MakeEvents, reply: asyncio.Future[Any] | None) -> None:
        self._waiting.append((make, reply, payer()))
        self._schedule()

    def open(self) -> None:
        """Start processing. Requests made before form the first batch."""
        self._is_open = True
        self._schedule()

    def _schedule(self) -> None:
        if self._is_open and not self._scheduled and not self._is_writing and (self._waiting or self._orders):
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._process_batch)

    # ---- one batch

    def _process_batch(self) -> None:
        self._scheduled = False
        batch, self._waiting = self._waiting, []
        orders, self._orders = self._orders, []
        if refusal := self._refusal if self._leads() else _deposed():
            for _, future, _ in batch:
                _fail(future, refusal)
            return
        now = self.clock.now()
        events: list[Event] = []
        lines: list[Encoded] = []
        replies: list[tuple[asyncio.Future[Any], Any]] = []
        bill = Bill()
        for at, (make, future, account) in enumerate(batch):
            if at and (len(events) >= MAX_BATCH_EVENTS or bill.spent_s > MAX_BATCH_CPU_S):
                self._waiting = batch[at:]
                self._schedule()
                break
            try:
                made, reply = make(now)
                encoded = _encoded(made)
            except Exception as error:
                bill.add(account, 0)
                _fail(future, error.with_traceback(None) if isinstance(error, WeftError) else error)
                continue
            bill.add(account, len(made))
            events += made
            lines += encoded
            if future is not None:
                replies.append((future, reply))
        if events or orders:
            self._begin_write(self._decide(events, lines, replies, orders))
        else:
            _answer(replies)
        bill.settle()

    def _decide(
        self,
        events: list[Event],
        lines: list[Encoded],
        replies: Sequence[tuple[asyncio.Future[Any], Any]],
        orders: Sequence[Decide],
    ) -> Step:
        failed: Exception | None = None
        began = time.perf_counter()
        try:
            decisions = self.scheduler.step(*events) if events else []
            for make in orders:
                decisions += make(self.scheduler, self.clock.now())
        except Exception as error:  # a policy's fault: keep the events, decide nothing more
            log.exception("the policy failed")
            failed, decisions = error, []
            paused = Paused(self.clock.now(), POLICY_FAILED, describe_failure(error))
            events, lines = [*events, paused], [*lines, *_encoded([paused])]
        return Step(events, lines, decisions, replies, failed, time.perf_counter() - began)

    def _begin_write(self, step: Step) -> None:
        if self._thread is None:
            self._end_write(step, self._write(step))
            return
        self._is_writing = True
        writing = asyncio.get_running_loop().run_in_executor(self._thread, self._write, step)
        writing.add_done_callback(lambda done: self._end_write(step, done.result()) if not done.cancelled() else None)

    async def until_written(self) -> None:
        """Wait until no batch is being written: until the caller waits again, the scheduler is not ahead of the
        journal."""
        while self._is_writing:
            written = asyncio.get_running_loop().create_future()
            self._awaiting_write.append(written)
            await written

    def _write(self, step: Step) -> float | JournalError:
        """Write a step to disk. Return the seconds that it took, or the error."""
        began = time.perf_counter()
        try:
            self._journal.append(*step.lines, *step.decisions)
            self._journal.sync()  # on disk before anything acts on it, whatever the store
        except JournalError as error:
            return error
        return time.perf_counter() - began

    def _end_write(self, step: Step, written: float | JournalError) -> None:
        """Answer the callers and execute the decisions of a step that is on disk, or fail the calls."""
        self._is_writing = False
        if not isinstance(written, JournalError) and not self._leads():
            written = _deposed()  # the facts are there, but only the next leader may act on them
        self.trouble = str(written) if isinstance(written, JournalError) else ""
        if isinstance(written, JournalError):
            for future, _ in step.replies:
                _fail(future, written if isinstance(written, Deposed) else _unwritten(written))
            self._tasks.spawn(self._notify())
            self.on_failure(written)
        else:
            self._act(step, written)
            _answer(step.replies)
        self._wake_waiting()
        self._schedule()

    def _wake_waiting(self) -> None:
        waiting, self._awaiting_write = self._awaiting_write, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def _act(self, step: Step, writing_s: float) -> None:
        self.on_step(step.deciding_s, writing_s)
        for receive in self.on_facts:
            receive(step.events, step.decisions)
        if step.failed is not None:
            self.on_failure(step.failed)
        for event in step.events:
            if isinstance(event, Suspended | Continued | Unwoven):
                self._carry_out(event)
        for decision in step.decisions:
            if type(decision) is Alarm:
                self._set_alarm(decision.due)
            else:
                self._carry_out(decision)
        self._tasks.spawn(self._notify())

    def _carry_out(self, decision: Decision | ExecutedEvent) -> None:
        """Execute a decision or a user's order. A start that fails becomes an exit of the run; a stop that fails is
        tried again."""
        try:
            self._execute(decision)
        except Exception as error:
            log.exception("could not carry out %s", decision)
            if isinstance(decision, Start):
                job, run, detail = decision.job, decision.run, str(error)[:500]
                self.post(lambda now: [Exited(now, job, run, "failed", why="start-failed", detail=detail)])
            elif isinstance(decision, Stop):
                asyncio.get_running_loop().call_later(RETRY_S, self._carry_out, decision)

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    # ---- the alarm

    def wake(self) -> None:
        """Make the scheduler plan again."""
        self.post(lambda now: [Wake(now)])

    def restore_alarm(self) -> None:
        """Set the alarm that the scheduler asked for last, after a restart."""
        self._set_alarm(self.scheduler.alarm)

    def _set_alarm(self, due: Seconds | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if due is not None:
            wait_s = max(due - self.clock.now(), 0.0)
            self._alarm = asyncio.get_running_loop().call_later(wait_s, self._ring, due)

    def _ring(self, due: Seconds) -> None:
        """Wake up, unless the event loop's clock is ahead of ours: an early alarm would not be set again."""
        if self.clock.now() < due:
            self._set_alarm(due)
        else:
            self.wake()

    async def close(self) -> None:
        """Process no more requests, and wait for the batch that is being written."""
        self._is_open = False
        await self.until_written()
        self._set_alarm(None)
        await self._tasks.close()


class Bill:
    """The CPU time of one batch. Each request pays for making its events, and its part of deciding and writing."""

    def __init__(self) -> None:
        self._began_s = self._last_s = time.thread_time()
        self._events: dict[Account, int] = {}
        self._count = 0

    @property
    def spent_s(self) -> float:
        return self._last_s - self._began_s

    def add(self, account: Account | None, events: int) -> None:
        """Charge the time since the last request of the batch."""
        now = time.thread_time()
        self._count += events
        if account is not None:
            account.charge(now - self._last_s)
            self._events[account] = self._events.get(account, 0) + events
        self._last_s = now

    def settle(self) -> None:
        """Charge the time since all events were made."""
        each_s = (time.thread_time() - self._last_s) / max(self._count, 1)
        for account, events in self._events.items():
            account.charge(events * each_s)


def _encoded(events: Sequence[Event]) -> list[Encoded]:
    """Return the events with their lines. Raise if one of them cannot be journalled: that request alone fails."""
    try:
        return [Encoded(event, encode_line(event)) for event in events]
    except JournalError as error:
        raise InputError(str(error)) from None


def describe_failure(error: Exception) -> str:
    """Return what a policy raised, where, and what to do."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({last.filename}:{last.lineno}); set another policy, then weft resume"


def _unwritten(error: JournalError) -> Refused:
    return Refused(f"{error}\n  nothing was changed; free some space and try again")


def _deposed() -> Deposed:
    return Deposed("this server does not lead any more\n  try again: another server takes over")


def _answer(replies: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, reply in replies:
        if not future.done():
            future.set_result(reply)


def _fail(future: asyncio.Future[Any] | None, error: BaseException) -> None:
    if isinstance(error, Deposed | Refused) and future is None:
        log.debug("an event is dropped: %s", error)
    elif future is None:
        log.exception("could not process an event", exc_info=error)
    elif not future.done():
        future.set_exception(error)
