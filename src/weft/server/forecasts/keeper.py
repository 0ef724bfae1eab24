"""Keeps the process that makes forecasts, and its last answer. The server's loop only passes lines.

The process starts with the first question and ends when none came for a while: it holds a second copy of the state.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

from weft.access.server.settings import Settings
from weft.errors import InputError, Refused
from weft.history.journal import for_process
from weft.model import JobId, Seconds
from weft.server.forecasts.outcomes import Outcomes

FRESH_S: Final = 10.0
"""A forecast that is not older than this is as good as a new one."""
MAX_FRESH_S: Final = 90.0
"""The same of a forecast that costs much."""
CPU_SHARE: Final = 0.05
"""The part of a CPU that forecasts may take while questions keep coming, unless that makes them too old."""
USABLE_S: Final = 60.0
"""A forecast that is not older than this, or than twice its fresh time, is given at once, while a new one is made."""
WAIT_S: Final = 4.0
"""The most time that a question waits for a newer forecast; then it gets the old one, or none."""
ANSWER_S: Final = 120.0
"""The most time that the process has for one answer."""
MAX_WAITING: Final = 8
"""The most questions that wait for the process at once."""
IDLE_S: Final = 120.0
"""The process ends when no question came for this time."""
MAX_ANSWER_BYTES: Final = 64 << 20
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ForecastTable:
    """The last forecast of all jobs."""

    at: Seconds
    samples: int
    unknown: int
    jobs: Mapping[JobId, list[Any]]
    """For each job: P50 and P90 of its start, of its end, and what the estimate rests on."""
    cpu_s: float = 0.0
    """The cost of the forecast."""

    @property
    def fresh_s(self) -> float:
        """The age up to which no newer forecast is worth its cost."""
        return min(max(FRESH_S, self.cpu_s / CPU_SHARE), MAX_FRESH_S)

    @property
    def usable_s(self) -> float:
        """The age up to which a question does not wait for a newer forecast."""
        return max(USABLE_S, 2 * self.fresh_s)


class ForecastKeeper:
    def __init__(
        self, url: str, settings: Callable[[], Settings], now: Callable[[], Seconds], outcomes: Outcomes
    ) -> None:
        self._url, self._settings, self._now, self._outcomes = url, settings, now, outcomes
        self._process: asyncio.subprocess.Process | None = None
        self._asking = asyncio.Lock()
        self._waiting = 0
        self._refreshing: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._table: ForecastTable | None = None
        self._made_for: Settings | None = None
        self.failure = ""
        """Why the last forecast failed; empty: it did not."""

    async def table(self, needed: Mapping[JobId, Seconds] | None = None) -> ForecastTable | None:
        """Return a forecast that is usable and knows that the needed jobs wait, given with the time since when; an
        older one, or none, if that takes too long. Make a new one meanwhile if it is not fresh."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                for _ in range(2):  # one that is being made may have begun before a needed job came
                    if self._is_usable(needed or {}):
                        break
                    await asyncio.shield(self._start_refresh())
                    if self.failure:
                        break
        table = self._table
        if table is not None and self._now() - table.at > table.fresh_s:
            self._start_refresh()
        return table

    def _is_usable(self, needed: Mapping[JobId, Seconds]) -> bool:
        table = self._table
        if table is None or self._now() - table.at > table.usable_s or self._made_for != self._settings():
            return False
        return all(waiting_since <= table.at for waiting_since in needed.values())

    def _start_refresh(self) -> asyncio.Task[None]:
        """Return the task that makes a new forecast."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())
        return self._refreshing

    @property
    def is_refreshing(self) -> bool:
        return self._refreshing is not None and not self._refreshing.done()

    async def _refresh(self) -> None:
        settings = self._settings()
        try:
            found = await self._ask(self._request(settings))
            self._table = ForecastTable(
                found["at"], found["samples"], found["unknown"], found["jobs"], found["cpu_s"]
            )  # fmt: skip
            self._made_for, self.failure = settings, ""
            await self._outcomes.keep(found["calibration"])
        except (Refused, InputError) as error:
            self._table, self.failure = None, str(error).partition("\n")[0]

    async def what_if(self, change: Mapping[str, Any]) -> dict[str, Any]:
        """Return the comparison of the present queue with the queue under a change."""
        return await self._ask({**self._request(self._settings()), "change": dict(change)})

    def _request(self, settings: Settings) -> dict[str, Any]:
        return {"settings": asdict(settings), "now": self._now(), "calibration": self._outcomes.record}

    async def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if self._waiting >= MAX_WAITING:
            raise Refused(f"{MAX_WAITING} forecasts are being made already\n  try again in a moment")
        self._waiting += 1
        try:
            return await self._ask_in_turn(request)
        finally:
            self._waiting -= 1

    async def _ask_in_turn(self, request: Mapping[str, Any]) -> dict[str, Any]:
        async with self._asking:
            try:
                found = await asyncio.wait_for(self._exchange(request), ANSWER_S)
            except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                await self._end()
                log.warning("a forecast failed: %s: %s", type(error).__name__, error)
                raise Refused("the forecast failed or took too long\n  the log of the scheduler says more") from None
            except BaseException:
                await self._end()
                raise
            self._end_later()
        if "error" not in found:
            return found
        if found.get("kind") == "input":
            raise InputError(found["error"], hint=found["hint"])
        raise Refused(found["error"])

    async def _exchange(self, request: Mapping[str, Any]) -> dict[str, Any]:
        process = await self._ensure()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        await process.stdin.drain()
        line = await process.stdout.readuntil(b"\n")
        found: dict[str, Any] = await asyncio.to_thread(json.loads, line)
        return found

    async def _ensure(self) -> asyncio.subprocess.Process:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._process is None or self._process.returncode is not None:
            url, variables = for_process(self._url)
            pipe = asyncio.subprocess.PIPE
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "weft.server.forecasts", url, stdin=pipe, stdout=pipe,
                env={**os.environ, **variables}, limit=MAX_ANSWER_BYTES,
            )  # fmt: skip
        return self._process

    def _end_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._idle = loop.call_later(IDLE_S, lambda: self._kill())

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def _end(self) -> None:
        self._kill()
        if self._process is not None:
            await self._process.wait()
            self._process = None

    async def close(self) -> None:
        """End the process."""
        if self._idle is not None:
            self._idle.cancel()
        if self._refreshing is not None:
            self._refreshing.cancel()
            with suppress(asyncio.CancelledError):
                await self._refreshing
        await self._end()
