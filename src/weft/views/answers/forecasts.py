"""Answers about the future, for `weft why`, `queue --start` and `whatif`. Times are ISO 8601; None: no estimate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from weft.views.answers.base import Answer, View


class ForecastView(View):
    """Start and end of a job: at the median (P50), and at the time by which nine of ten samples do (P90)."""

    at: str | None = None
    """When the forecast was made."""
    samples: int = 0
    start_p50: str | None = None
    start_p90: str | None = None
    end_p50: str | None = None
    end_p90: str | None = None
    basis: str = ""
    """The ground of the estimate of its duration: declared, limit, similar, user, all, none."""
    similar: int = 0
    """The number of finished jobs behind `similar`, `user` and `all`."""
    note: str = ""
    """Why there is no estimate. With an estimate: that the job may miss its deadline, else empty."""


class WaitsView(View):
    average_s: float | None = None
    p90_s: float | None = None
    unknown: int = 0
    """Waiting jobs without an estimate."""


class UserEffectView(View):
    user: str = ""
    jobs: int = 0
    before_s: float | None = None
    after_s: float | None = None


class JobEffectView(View):
    job: str = ""
    name: str = ""
    user: str = ""
    what: str = ""
    before_s: float | None = None
    after_s: float | None = None


class WhatIfView(Answer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {
        "before": WaitsView, "after": WaitsView, "users": UserEffectView, "gain": JobEffectView, "lose": JobEffectView,
    }  # fmt: skip

    now: str | None = None
    policy: str = ""
    """The policy of the change; the present one if that does not change."""
    samples: int = 0
    waiting: int = 0
    before: WaitsView | None = None
    after: WaitsView | None = None
    users: Sequence[UserEffectView] = ()
    gain: Sequence[JobEffectView] = ()
    lose: Sequence[JobEffectView] = ()
