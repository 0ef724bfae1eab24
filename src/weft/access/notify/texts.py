"""Messages as texts and JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from weft.text import escape_controls, format_clock, truncate

MAX_NAME_CHARS: Final = 80
MAX_DETAIL_CHARS: Final = 300
WORDS: Final = {"done": "is done", "failed": "failed", "cancelled": "was cancelled"}


def job_text(job: str, name: str, event: str, *, run_s: float = 0.0, why: str = "", place: str = "") -> str:
    """Return the line about one job."""
    if event == "started":
        return f"job {job}{_named(name)} started" + (f" on {place}" if place else "")
    reason = f": {truncate(escape_controls(why), MAX_DETAIL_CHARS)}" if why else ""
    return f"job {job}{_named(name)} {WORDS[event]}{reason}, after {format_clock(run_s)}"


def counts_text(what: str, name: str, counts: Mapping[str, int]) -> str:
    """Return the line about an array or a group that has ended, such as `array 7 (train): 28 of 30 done, 2 failed`."""
    total, others = sum(counts.values()), [f"{counts[key]} {key}" for key in ("failed", "cancelled") if counts.get(key)]
    parts = ", ".join([f"{counts.get('done', 0)} of {total} done", *others])
    return f"{what}{_named(name)}: {parts}"


def event_of_counts(counts: Mapping[str, int]) -> str:
    """Return how an array or a group has ended: failed if one job failed, done if one is done."""
    return next((event for event in ("failed", "done") if counts.get(event)), "cancelled")


def message(key: str, event: str, at: float, text: str, scheduler: str, **about: Any) -> dict[str, Any]:
    """Return a message as webhooks and commands get it. `text` is safe for Slack: it cannot mention people."""
    return {
        "schema": 1,
        "id": key,
        "event": event,
        "at": iso_time(at),
        "scheduler": scheduler,
        "message": text,
        "text": escape_slack(text),
        **about,
    }


def test_message(target: str, at: float, scheduler: str, user: str) -> dict[str, Any]:
    text = f"a test of weft notify: messages reach {target}"
    return message(f"test/{target}/{at:.3f}", "test", at, text, scheduler, user=user)


def escape_slack(text: str) -> str:
    """Escape the characters with which Slack marks mentions and links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def iso_time(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _named(name: str) -> str:
    return f" ({truncate(escape_controls(name), MAX_NAME_CHARS)})" if name else ""
