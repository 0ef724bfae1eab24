"""Answers about stored profiles, for `weft profile`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from weft.views.answers.base import Answer, View
from weft.views.answers.jobs import QueryAnswer, StageTimesView
from weft.views.answers.operations import Operation


class ProfileView(View):
    """The stage times of one kind of jobs, in seconds per iteration on their GPUs alone."""

    key: str = ""
    user: str | None = None
    """The user whose jobs have it; None: the jobs of all users that have none of their own."""
    gpus: int = 0
    gpu_model: str = ""
    """Empty: unknown."""
    data_s: float = 0.0
    gpu_s: float = 0.0
    net_s: float = 0.0
    iteration_s: float = 0.0
    start_s: float = 0.0
    """The overhead of a start before the first iteration."""
    memory_mb: int = 0
    """The most memory on a GPU; 0: not measured."""
    measured: str | None = None
    source: str = ""
    """`run`: a run that recorded its stages. `woven`: the counters of a woven run."""
    measurements: int = 1
    """The number of measurements that the deviations are of: at most the last eight."""
    data_deviation: float = 0.0
    gpu_deviation: float = 0.0
    net_deviation: float = 0.0
    """Standard deviations, as parts of the means."""


class ProfilesView(QueryAnswer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"profiles": ProfileView}

    profiles: Sequence[ProfileView] = ()
    """The latest measured first."""


class StoredProfileView(Answer):
    """A profile that was stored, and the times that it comes from."""

    PARTS: ClassVar[Mapping[str, type[View]]] = {"profile": ProfileView, "stages": StageTimesView}

    job: str = ""
    profile: ProfileView = ProfileView()
    stages: StageTimesView = StageTimesView()


STORE_PROFILE: Final = Operation("profile", StoredProfileView)
