"""The loop: it journals events together with the decisions that they lead to, and then executes the decisions.

Everything that arrives while a batch is written forms the next batch: one transaction for all of it. No caller gets an
answer and no decision is executed before the batch is on disk.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from weft.core.scheduler import Scheduler
from weft.engines.background import TaskSet
from weft.errors import JournalError, Refused
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
    def append(self, *facts: Fact) -> None: ...

    def sync(self) -> None: ...


class Loop:
    def __init__(
        self,
        scheduler: Scheduler,
        journal: Store,
        clock: Clock,
        execute: Callable[[Decision | ExecutedEvent], None],
    ) -> None:
        self.scheduler, self._journal, self.clock, self._execute = scheduler, journal, clock, execute
        self._waiting: list[tuple[MakeEvents, asyncio.Future[Any] | None, Account | None]] = []
        self._orders: list[Decide] = []
        self._scheduled = self._is_open = False
        self._alarm: asyncio.TimerHandle | None = None
        self._tasks = TaskSet()
        self.changed = asyncio.Condition()
        """Notified whenever facts have been journalled."""
        self.on_failure: Callable[[Exception], None] = lambda _: None
        """Called when memory differs from the disk and must be rebuilt."""
        self.on_step: Callable[[float, float], None] = lambda _deciding_s, _committing_s: None
        """Called after each batch with events, with the seconds that deciding and writing took."""
        self.on_facts: Callable[[Sequence[Event], Sequence[Decision]], None] = lambda _events, _decisions: None
        """Called with the facts of each batch once they are on disk."""

    # ---- requests

    async def call(self, make: MakeEvents) -> Any:
        """Run `make` in the next batch. Return its reply once its events are on disk."""
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._enqueue(make, reply)
        return await reply

    def post(self, make: Callable[[Seconds], Sequence[Event]]) -> None:
        """Run `make` in the next batch, without waiting for it."""
        self._enqueue(lambda now: (make(now), None), None)

    def decide(self, make: Decide) -> None:
        """Let the scheduler decide, in the next batch, something that follows from no event, such as a resize."""
        self._orders.append(make)
        self._schedule()

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
        if self._is_open and not self._scheduled and (self._waiting or self._orders):
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._process_batch)

    # ---- one batch

    def _process_batch(self) -> None:
        self._scheduled = False
        batch, self._waiting = self._waiting, []
        orders, self._orders = self._orders, []
        now = self.clock.now()
        events: list[Event] = []
        replies: list[tuple[asyncio.Future[Any], Any]] = []
        bill = Bill()
        for at, (make, future, account) in enumerate(batch):
            if at and (len(events) >= MAX_BATCH_EVENTS or bill.spent_s > MAX_BATCH_CPU_S):
                self._waiting = batch[at:]
                self._schedule()
                break
            try:
                made, reply = make(now)
            except Exception as error:
                bill.add(account, 0)
                _fail(future, error)
                continue
            bill.add(account, len(made))
            events += made
            if future is not None:
                replies.append((future, reply))
        has_failed = bool(events or orders) and not self._step(events, replies, orders)
        bill.settle()
        if has_failed:
            return
        for future, reply in replies:
            if not future.done():
                future.set_result(reply)

    def _step(
        self, events: list[Event], replies: Sequence[tuple[asyncio.Future[Any], Any]], orders: Sequence[Decide] = ()
    ) -> bool:
        failed: Exception | None = None
        began = decided = time.perf_counter()
        try:
            try:
                decisions = self.scheduler.step(*events) if events else []
                for make in orders:
                    decisions += make(self.scheduler, self.clock.now())
            except Exception as error:  # a policy's fault: keep the events, decide nothing more
                log.exception("the policy failed")
                failed, decisions = error, []
                events = [*events, Paused(self.clock.now(), POLICY_FAILED, describe_failure(error))]
            decided = time.perf_counter()
            self._journal.append(*events, *decisions)
            self._journal.sync()  # on disk before anything acts on it, whatever the store
        except JournalError as error:
            for future, _ in replies:
                _fail(future, Refused(f"{error}\n  nothing was changed; free some space and try again"))
            self.on_failure(error)
            return False
        self.on_step(decided - began, time.perf_counter() - decided)
        self.on_facts(events, decisions)
        if failed is not None:
            self.on_failure(failed)
        for event in events:
            if isinstance(event, Suspended | Continued | Unwoven):
                self._carry_out(event)
        for decision in decisions:
            if type(decision) is Alarm:
                self._set_alarm(decision.due)
            else:
                self._carry_out(decision)
        self._tasks.spawn(self._notify())
        return True

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


def describe_failure(error: Exception) -> str:
    """Return what a policy raised, where, and what to do."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({last.filename}:{last.lineno}); set another policy, then weft resume"


def _fail(future: asyncio.Future[Any] | None, error: BaseException) -> None:
    if future is None:
        log.exception("could not process an event", exc_info=error)
    elif not future.done():
        future.set_exception(error)
