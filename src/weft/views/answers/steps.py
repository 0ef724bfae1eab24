"""Answers of `weft node`: what was checked or done on a machine, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from weft.views.answers.base import Answer, View

OK: Final = "ok"
DONE: Final = "done"
PLANNED: Final = "planned"
"""A dry run would do it."""
SKIPPED: Final = "skipped"
WARNING: Final = "warning"
FAILED: Final = "failed"


class StepView(View):
    """One check, or one thing to do."""

    name: str = ""
    state: str = OK
    """One of the words above."""
    detail: str = ""
    advice: str = ""
    """The remedy; empty: none is needed."""


class StepsView(Answer):
    """All steps on one machine."""

    PARTS: ClassVar[Mapping[str, type[View]]] = {"steps": StepView}

    node: str = ""
    steps: Sequence[StepView] = ()


def has_failed(steps: Sequence[StepView]) -> bool:
    return any(step.state == FAILED for step in steps)
