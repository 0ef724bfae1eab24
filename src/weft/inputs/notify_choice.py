"""When a job or a group leads to a message, and who gets it: `done,failed` or `done,failed@team,mail`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from weft.errors import InputError, UnknownName

EVENTS: Final = ("started", "done", "failed", "cancelled")
ENDS: Final = EVENTS[1:]
MAX_CHARS: Final = 1000
_TARGET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_WEBHOOK: Final = re.compile(r"https://[^\s,@]{1,500}")


class NotifyChoice(NamedTuple):
    events: tuple[str, ...]
    targets: tuple[str, ...] = ()
    """Names of targets, and webhooks; empty: the default targets."""

    def __str__(self) -> str:
        return ",".join(self.events) + (f"@{','.join(self.targets)}" if self.targets else "")


def parse_notify(text: str) -> NotifyChoice:
    """Parse EVENTS[@TARGETS], each a list with commas. `ended` stands for done, failed and cancelled."""
    if len(text) > MAX_CHARS:
        raise InputError(f"more than {MAX_CHARS:,} characters")
    names, at, rest = text.partition("@")
    found: dict[str, None] = {}
    for name in (part.strip() for part in names.split(",")):
        if name not in (*EVENTS, "ended"):
            raise UnknownName("event", name, (*EVENTS, "ended"), more="such as --notify done,failed")
        found.update(dict.fromkeys(ENDS if name == "ended" else (name,)))
    targets = tuple(dict.fromkeys(part.strip() for part in rest.split(","))) if at else ()
    for target in targets:
        if not _TARGET.fullmatch(target) and not _WEBHOOK.fullmatch(target):
            what = f"{target[:80]!r} cannot be the name of a target"
            raise InputError(what, hint="weft notify list shows them; such as --notify done@team")
    return NotifyChoice(tuple(event for event in EVENTS if event in found), targets)


def stored_choice(text: str) -> NotifyChoice:
    """Parse a choice that a job keeps; one that a newer Weft has written chooses nothing."""
    try:
        return parse_notify(text)
    except InputError:
        return NotifyChoice(())
