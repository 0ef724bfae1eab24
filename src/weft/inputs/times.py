"""Points in time as people write them: 16:00, tomorrow, 2030-01-31T08:00, now+2h, 20m."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from typing import Final

from weft.errors import InputError
from weft.inputs.quantities import parse_duration

_CLOCK: Final = r"(\d{1,2}):(\d{2})(?::(\d{2}))?"
_DELAY: Final = r"(\d+(\.\d+)?[smhd])+"
"""A time from now on. It needs a unit: a bare number could be an hour of the day."""
_NAMED: Final = {"midnight": time(0), "noon": time(12), "teatime": time(16)}
_HINT: Final = "such as 16:00, tomorrow, tomorrow 08:00, 2030-01-31T08:00 now+2h or 2h"


def parse_time(text: str, now: datetime) -> datetime:
    """Return the time that a text means, in the time zone of `now`. A time of day is the next one to come."""
    plain = text.strip().lower()
    if plain == "now" or plain.startswith("now+"):
        return now + timedelta(seconds=parse_duration(plain[4:])) if plain != "now" else now
    if plain.split()[:1] == ["tomorrow"]:
        rest = plain.removeprefix("tomorrow").strip()
        return _on(now + timedelta(days=1), _time_of_day(rest, text) if rest else now.time())
    if re.fullmatch(_DELAY, plain):
        return now + timedelta(seconds=parse_duration(plain))
    if re.match(r"\d{4}-", plain):
        return _date(plain, text)
    found = _on(now, _time_of_day(plain, text))
    return found if found > now else _on(now + timedelta(days=1), found.time())


def _on(day: datetime, clock: time) -> datetime:
    # through a date without a zone, so that a change to summer time in between is taken into account
    return datetime.combine(day.date(), clock.replace(tzinfo=None)).astimezone()


def _time_of_day(plain: str, text: str) -> time:
    match = re.fullmatch(_CLOCK, plain)
    try:
        if match is None:
            return _NAMED[plain]
        hour, minute, second = (int(part or 0) for part in match.groups())
        return time(hour, minute, second)
    except (KeyError, ValueError):
        raise _bad(text) from None


def _date(plain: str, text: str) -> datetime:
    try:
        found = datetime.fromisoformat(plain.upper())
        return found if found.tzinfo else found.astimezone()
    except (ValueError, OverflowError):
        raise _bad(text) from None


def _bad(text: str) -> InputError:
    return InputError(f"{text[:80]!r} is not a time", hint=_HINT)
