"""When a task is complete: the whole table."""

from __future__ import annotations

import pytest

from weft.workspace.task.verdict import verdict


@pytest.mark.parametrize(
    ("marked", "for_s", "code", "found"),
    [
        (True, 0.0, None, "running"), (True, 59.9, None, "running"), (True, 60.0, None, "overdue"),
        (True, 0.0, 0, "complete"), (True, 0.0, 3, "warned"), (True, 99.0, 143, "warned"),
        (False, 0.0, None, "running"), (False, 0.0, 0, "unmarked"), (False, 0.0, 3, "failed"),
        (False, 0.0, 137, "failed"),
    ],
)  # fmt: skip
def test_the_table(marked: bool, for_s: float, code: int | None, found: str) -> None:
    assert verdict(marked=marked, marked_for_s=for_s, code=code) == found
