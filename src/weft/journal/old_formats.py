"""Names of facts and fields in formats 1 and 2, with their present names. A continued journal holds both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

FACTS: Final = {
    "Closed": "Cordoned",
    "Opened": "Uncordoned",
    "Forgotten": "Purged",
    "Stepped": "KeyChanged",
    "Operated": "AdminAction",
    "Recalled": "JobSnapshot",
    "Restored": "StateSnapshot",
}
FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "Node": {"home": "disk_id"},
    "Where": {"pool": "choice"},
    "JobSnapshot": {
        "stamp": "tie_breaker",
        "seat_mb": "allocated_mb",
        "leaving": "releasing",
        "holding": "held",
        "alone": "exclusive",
        "mark": "rate_since",
        "stepped_at": "key_changed_at",
        "behind": "unmet_dependencies",
        "short": "over_quota",
    },
    "StateSnapshot": {"tail": "tail_counter", "front": "front_counter", "runs": "run_counter"},
}


def renamed_fields(kind: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the body with the present names of its fields; None if it has no old name, or both names of a field."""
    old = {name: new for name, new in FIELDS.get(kind, {}).items() if name in body}
    if not old or any(new in body for new in old.values()):
        return None
    return {old.get(name, name): value for name, value in body.items()}


def flattened(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body of a job snapshot without nesting: older formats put the fields of its state under `past`."""
    past = body.get("past")
    if not isinstance(past, dict) or not body.keys().isdisjoint(past):
        return body
    return {**{name: value for name, value in body.items() if name != "past"}, **past}
