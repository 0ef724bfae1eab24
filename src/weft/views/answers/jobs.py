"""Answers about jobs, for `weft queue`, `history`, `show` and `wait`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NotRequired, TypedDict

from weft.views.answers.base import Answer, View, field
from weft.views.answers.forecasts import ForecastView


class CheckpointView(View):
    path: str = ""
    step: int | None = None
    at: str | None = None


class StageTimesView(View):
    """Times of the steps of a run that records them, in seconds per step: medians, without the first ten steps."""

    steps: int = 0
    """All steps so far."""
    data_s: float = 0.0
    gpu_s: float = 0.0
    net_s: float = 0.0
    wait_s: float = 0.0
    """Waiting for a batch."""
    turn_s: float = 0.0
    """Waiting for turns in a weave."""
    step_s: float = 0.0
    p90: Mapping[str, float] = field(default_factory=dict)
    """The 90 % quantiles of the times above, by their names."""
    first_step_s: float | None = None
    """From the start of the process to the end of its first step."""
    separate_net: bool = False
    """False: the network time is part of the GPU time."""
    memory_mb: int = 0
    """The most memory on a GPU; 0: unknown."""
    rss_mb: int = 0
    workers: int = 0
    """Worker processes of the data loader."""
    fetch_s: float | None = None
    """Loading of one step's data, as measured inside the loader's workers. None: the job has no such loader."""
    fetch_cpu_s: float | None = None


class ProgressView(View):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"checkpoint": CheckpointView, "stages": StageTimesView}
    KEYS: ClassVar[Mapping[str, str]] = {"source": "from"}
    OPTIONAL: ClassVar[Mapping[str, str]] = {"stages": "stages"}

    step: int | None = None
    total: int | None = None
    eta_s: float | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    checkpoint: CheckpointView | None = None
    source: str = ""
    """`job`: reported by the job. `log`: found in its log."""
    stages: StageTimesView | None = None
    """None: the run does not record its stages."""


class StageView(View):
    """The turns of a woven run in one stage, since its weave was formed."""

    stage: str = ""
    """data, gpu or net."""
    time_s: float | None = None
    """The mean time of one turn; None: it had none."""
    wait_s: float | None = None
    """The mean wait for a turn."""
    served_s: float = 0.0
    waited_s: float = 0.0
    grants: int = 0
    """The number of its turns."""
    passed_over: int = 0
    """The number of times that the next member went on because it held the stage too long."""


class WeaveOfJobView(View):
    """The weave that a job runs in."""

    PARTS: ClassVar[Mapping[str, type[View]]] = {"stages": StageView}

    weave: str = ""
    partners: Sequence[str] = ()
    rate: float | None = None
    """Its pace against its solo pace; None: not measured yet."""
    stages: Sequence[StageView] = ()


class RunView(View):
    """One run of a job."""

    run: int = 0
    started: float = 0.0
    """Seconds since 1970."""
    ended: float | None = None
    """None: it has not ended."""
    place: str = ""
    outcome: str = ""
    """done, failed, stopped, lost or requeued."""
    code: int | None = None
    why: str = ""
    started_at: str | None = None
    """The same times in ISO 8601."""
    ended_at: str | None = None
    nodes: Sequence[str] = ()
    """Its nodes in the order of the ranks: each has a log."""


class JobView(View):
    """One line of the queue."""

    PARTS: ClassVar[Mapping[str, type[View]]] = {"progress": ProgressView, "forecast": ForecastView}

    id: str = ""
    name: str = ""
    user: str = ""
    state: str = ""
    """The status in Slurm's letters."""
    status: str = ""
    time_s: float = 0.0
    gpus: int = 0
    place: str = ""
    reason: str = ""
    priority: int = 0
    run: int = 0
    submitted: str | None = None
    started: str | None = None
    ended: str | None = None
    exit_code: int | None = None
    progress: ProgressView | None = None
    group: str = ""
    team: str = ""
    depends_on: Sequence[str] | None = None
    """The jobs that it comes after, for the table of the queue. Left out elsewhere."""
    tasks: Mapping[str, int] | None = None
    """For an array as one line: how many of its tasks are in each state. Left out for a job."""
    forecast: ForecastView | None = None
    """When the job is expected to start and end. Left out unless it was asked for."""


class JobFields(TypedDict):
    """The fields of `JobView`, for `build_view`: a queue has thousands of them."""

    id: str
    name: str
    user: str
    state: str
    status: str
    time_s: float
    gpus: int
    place: str
    reason: str
    priority: int
    run: int
    submitted: str | None
    started: str | None
    ended: str | None
    exit_code: int | None
    progress: ProgressView | None
    group: str
    team: str
    depends_on: NotRequired[Sequence[str] | None]
    tasks: NotRequired[Mapping[str, int] | None]
    forecast: NotRequired[ForecastView | None]


class JobDetailView(JobView):
    """Everything about a job except its environment, which may hold secrets."""

    PARTS: ClassVar[Mapping[str, type[View]]] = {
        "progress": ProgressView, "checkpoint": CheckpointView, "weave": WeaveOfJobView, "runs": RunView,
        "forecast": ForecastView,
    }  # fmt: skip
    OPTIONAL: ClassVar[Mapping[str, str]] = {
        "misplaced": "misplaced", "checkpoint": "misplaced", "log": "misplaced",
        "failed_rank": "failed_rank", "failed_node": "failed_rank",
        "tasks": "tasks", "depends_on": "depends_on", "weave": "weave", "unwoven": "unwoven",
        "series": "series", "runs": "runs", "forecast": "forecast",
    }  # fmt: skip

    command: Sequence[str] = ()
    chdir: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    memory_mb: int | Sequence[int] = 0
    measured_mb: int | None = None
    cpus: int = 0
    ram_mb: int = 0
    max_jobs_per_gpu: int | None = None
    share: str | None = None
    """Such as 0.3/0.6; None: whole GPUs, or as `max_jobs_per_gpu` says."""
    retries: int = 0
    failures: int = 0
    preemptions: int = 0
    requeues: int = 0
    time_limit_s: float | None = None
    after: Sequence[str] = ()
    array_index: int | None = None
    gpu_seconds: float = 0.0
    last_exit_code: int | None = None
    why: str = ""
    detail: str = ""
    """More about `why`, in words."""
    comment: str = ""
    last_gpus: Sequence[int] = ()
    last_place: str = ""
    last_nodes: Sequence[str] = ()
    """The nodes of its last run in the order of the ranks."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """The fields of the job by their keys, as a task file has them."""
    misplaced: Sequence[int] | None = None
    """None: not checked."""
    checkpoint: CheckpointView | None = None
    log: str | None = None
    """The file with the output of the last run; None: there is none on the scheduler's machine."""
    failed_rank: int | None = None
    """The part of a gang that ended the last run; None: none, or the job runs on one node."""
    failed_node: str = ""
    weave: WeaveOfJobView | None = None
    """None: it is not woven."""
    unwoven: str | None = None
    """The reason why it is not woven any more: `silent`, `hangs`. None: it may be woven."""
    series: Mapping[str, Sequence[float | None]] | None = None
    """The metrics that the last run reported so far, a limited number of values each. None: it reports none."""
    runs: Sequence[RunView] | None = None
    """The last runs, as far as the scheduler remembers them. None: it had none."""


class QueryAnswer(Answer):
    """The head of the answer to a query. Without a scheduler, it has no `now` and `position`."""

    OPTIONAL: ClassVar[Mapping[str, str]] = {"now": "now", "position": "now"}

    now: str | None = None
    position: int = 0
    """The number of facts at that time."""


class QueueView(QueryAnswer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"jobs": JobView}

    jobs: Sequence[JobView] = ()
    running: int = 0
    waiting: int = 0
    more: int = 0
    paused: bool = False
    paused_for: Mapping[str, str] = field(default_factory=dict)
    policy: str | None = None


class HistoryView(QueryAnswer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"jobs": JobView}

    jobs: Sequence[JobView] = ()
    more: int = 0


class JobsView(QueryAnswer):
    """The answer for `weft show`; for `weft wait`, without `now` and `position`."""

    PARTS: ClassVar[Mapping[str, type[View]]] = {"jobs": JobDetailView}

    jobs: Sequence[JobDetailView] = ()
