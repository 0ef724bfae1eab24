"""The log of changes by time."""

from __future__ import annotations

from weft.scheduling.core.resources.change_log import MIN_KEPT_CHANGES, ChangeLog


def test_only_what_changed_since_then() -> None:
    changes = ChangeLog()
    changes.record(3)
    seen = changes.version
    assert changes.since(seen) == 0
    changes.record(0)
    changes.record(5)
    changes.record(5)
    assert changes.since(seen) == 1 << 0 | 1 << 5
    assert changes.since(0) == 1 << 0 | 1 << 3 | 1 << 5


def test_what_was_too_long_ago_is_not_known() -> None:
    changes = ChangeLog()
    for _ in range(MIN_KEPT_CHANGES):
        changes.record(1)
    assert changes.since(0) == 1 << 1
    for _ in range(MIN_KEPT_CHANGES + 1):
        changes.record(2)
    assert changes.since(0) is None
    assert changes.since(changes.version - MIN_KEPT_CHANGES) == 1 << 2
