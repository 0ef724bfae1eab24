"""The process that makes forecasts: `python -m weft.server.forecasts URL`. It follows the journal and answers requests.

A request is one line of JSON on standard input, its answer one line on standard output. The process ends with its
server, which holds the other ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, Final

from weft.access.server.settings import Settings, changed
from weft.errors import InputError, JournalError, WeftError
from weft.history.journal import open_journal
from weft.scheduling.core.scheduler import Scheduler
from weft.server.process.slices import at_once
from weft.server.replay import Prepared, create_scheduler
from weft.sim.forecast.branches import cpu_s
from weft.sim.forecast.calibration import Calibration
from weft.sim.forecast.quantiles import Sampling, forecast
from weft.sim.forecast.whatif import Change, Waits, what_if

NICENESS: Final = 10
PR_SET_PDEATHSIG: Final = 1
BUDGET_S: Final = 10.0
"""CPU seconds of one forecast. A long queue gets fewer samples."""


class Follower:
    """A scheduler with the facts of the journal, which are more at each request."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._settings: Settings | None = None
        self._prepared: Prepared | None = None

    def catch_up(self, settings: Settings) -> Scheduler:
        """Return the scheduler with all facts so far."""
        if self._prepared is None or settings != self._settings:
            self._settings, self._prepared = settings, Prepared(create_scheduler(settings, settings.policy))
        with open_journal(self._url, readonly=True) as journal:
            try:
                return at_once(self._prepared.catch_up(journal))
            except JournalError:  # compacted meanwhile: from the snapshot on
                self._prepared = Prepared(create_scheduler(settings, settings.policy))
                return at_once(self._prepared.catch_up(journal))

    def replayed(self, settings: Settings) -> Scheduler:
        """Return another scheduler with all facts, under other settings."""
        with open_journal(self._url, readonly=True) as journal:
            return at_once(Prepared(create_scheduler(settings, settings.policy)).catch_up(journal))


def main(words: Sequence[str]) -> int:
    os.nice(NICENESS)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # end with the server
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    follower = Follower(words[0])
    for line in sys.stdin:
        sys.stdout.write(f"{json.dumps(answer(follower, json.loads(line)))}\n")
        sys.stdout.flush()
    return 0


def answer(follower: Follower, request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request. A policy may raise anything: that is an answer too."""
    try:
        settings = Settings(**request["settings"])
        scheduler = follower.catch_up(settings)
        now = max(float(request["now"]), scheduler.state.now)
        calibration = Calibration.of(request["calibration"])
        calibration.learn(scheduler.state)
        if "change" in request:
            return _what_if(follower, settings, scheduler, now, request["change"], calibration)
        return _forecast(scheduler, now, calibration)
    except InputError as error:
        return {"error": error.text, "hint": error.hint, "kind": "input"}
    except Exception as error:
        text = str(error) if isinstance(error, WeftError) else f"{type(error).__name__}: {error}"
        return {"error": text}


def _forecast(scheduler: Scheduler, now: float, calibration: Calibration) -> dict[str, Any]:
    before_s = cpu_s()
    sampled = forecast(scheduler, now, Sampling(budget_s=BUDGET_S))
    found = calibration.correct(sampled)
    calibration.expect(sampled)
    jobs = {
        job: [each.start.p50, each.start.p90, each.end.p50, each.end.p90, each.basis, each.similar]
        for job, each in found.jobs.items()
    }
    return {
        "at": now, "samples": found.samples, "unknown": found.unknown, "jobs": jobs, "cpu_s": cpu_s() - before_s,
        "calibration": calibration.record(),
    }  # fmt: skip


def _what_if(
    follower: Follower, settings: Settings, scheduler: Scheduler, now: float, given: dict[str, Any],
    calibration: Calibration,
) -> dict[str, Any]:  # fmt: skip
    change = Change(given["policy"], tuple(given["add_nodes"]), tuple(given["cancel"]), dict(given["priorities"]))
    other = follower.replayed(changed(settings, policy=change.policy)) if change.policy else None
    sampling = Sampling(budget_s=BUDGET_S)
    found = what_if(scheduler, now, change, changed=other, sampling=sampling, calibration=calibration)
    jobs = scheduler.state.jobs
    effects = {
        name: [
            [each.job, jobs[each.job].job.name, each.user, each.what, _rounded(each.before_s), _rounded(each.after_s)]
            for each in some
        ]
        for name, some in (("gain", found.gain), ("lose", found.lose))
    }
    users = [[each.user, each.jobs, _rounded(each.before_s), _rounded(each.after_s)] for each in found.users]
    return {
        "at": now, "samples": found.samples, "waiting": found.waiting, "before": _waits(found.before),
        "after": _waits(found.after), "users": users, **effects,
    }  # fmt: skip


def _waits(waits: Waits) -> list[float | None]:
    return [_rounded(waits.average_s), _rounded(waits.p90_s), waits.unknown]


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
