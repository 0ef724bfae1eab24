"""Dependencies as users write them: JOB, afterok:JOB, afterany:JOB, afternotok:JOB, singleton.

In a message, each is one text: the reference, with its condition unless that is afterok.
"""

from __future__ import annotations

from typing import Final

AFTER_OK: Final = "afterok"
CONDITIONS: Final = {AFTER_OK: "after", "afterany": "after_any", "afternotok": "after_failed"}
"""The attribute of `Job` that holds the dependencies with each condition."""
SINGLETON: Final = "singleton"
"""A job comes after all unfinished jobs of the same name and user."""


def split(text: str) -> tuple[str, str]:
    """Return the condition and the reference of a dependency."""
    word, colon, ref = text.partition(":")
    return (word, ref) if colon and word in CONDITIONS else (AFTER_OK, text)


def join(condition: str, ref: str) -> str:
    return ref if condition == AFTER_OK else f"{condition}:{ref}"
