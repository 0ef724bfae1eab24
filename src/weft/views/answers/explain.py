"""Answers about why a job waits, for `weft why`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from weft.model.slots import Renumber, format_message
from weft.views.answers.base import Answer, View
from weft.views.answers.forecasts import ForecastView

if TYPE_CHECKING:
    from weft.scheduling.core.explain import Explanation


class ReasonView(View):
    code: str = ""
    text: str = ""


class AheadView(View):
    job: str = ""
    user: str = ""
    gpus: int = 0


class UnblockView(View):
    """The jobs whose end would let the job start."""

    jobs: Sequence[str] = ()
    nodes: Sequence[str] = ()
    in_s: float | None = None
    preempted: Sequence[str] = ()


class ExplainView(Answer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {
        "reasons": ReasonView, "ahead": AheadView, "unblock": UnblockView, "forecast": ForecastView,
    }  # fmt: skip
    OPTIONAL: ClassVar[Mapping[str, str]] = {"array": "tasks", "tasks": "tasks", "forecast": "forecast"}

    now: str | None = None
    name: str = ""
    job: str = ""
    at: str | None = None
    status: str = ""
    reasons: Sequence[ReasonView] = ()
    position: int | None = None
    waiting: int = 0
    ahead: Sequence[AheadView] = ()
    unblock: UnblockView | None = None
    expected_start: str | None = None
    array: str = ""
    """The array that was asked about; `job` is the task that the rest is about."""
    tasks: Mapping[str, int] | None = None
    """The number of tasks of the array in each state."""
    forecast: ForecastView | None = None
    """None: it was not asked for, or the job has ended."""


def reasons_of(found: Explanation, renumber: Renumber | None = None) -> list[ReasonView]:
    return [ReasonView(str(each.code), format_message(each.message, renumber)) for each in found.reasons]


def ahead_of(found: Explanation) -> list[AheadView]:
    return [AheadView(each.job, each.user, each.gpus) for each in found.ahead]


def unblock_of(found: Explanation) -> UnblockView | None:
    each = found.unblock
    return None if each is None else UnblockView(each.jobs, each.nodes, each.in_s, each.preempted)
