"""Jobs as users submit them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.model.ids import JobId, Seconds, Slots
from weft.model.per_rank import PerRank
from weft.model.plain_init import plain_init
from weft.model.share import WHOLE, Share

UNCOUNTED: Final = PerRank(0)


@dataclass(frozen=True, slots=True)
class Profile:
    """The durations of one iteration's stages when the job runs alone on its GPUs."""

    model: str
    iteration_s: float
    data_s: float
    gpu_s: float
    network_s: float
    start_s: float = 0.0
    """Overhead of a start or restart before the first iteration."""
    memory_mb: int = 0
    """The most memory seen on one GPU; 0: not measured."""


@dataclass(frozen=True, slots=True)
class Where:
    """Constraints on where a job may run. Empty fields do not constrain it."""

    gpu_model: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    pinned: Slots = ()
    choice: Slots = ()
    """Any of these GPUs; the scheduler prefers GPUs with more free capacity."""


ANYWHERE: Final = Where()


@dataclass(frozen=True, slots=True)
class Task:
    """The details that a backend needs to run the job. The core reads only the group, the team, `requeue` and
    `min_run_s`."""

    chdir: str = ""
    env: tuple[tuple[str, str], ...] = ()
    time_limit_s: float | None = None
    """A run that takes longer is stopped."""
    grace_s: float | None = None
    """Time between the request to stop and SIGKILL; None: the default."""
    requeue_exits: tuple[int, ...] = ()
    """Exit codes with which a run requests to run again."""
    array_index: int | None = None
    array_size: int | None = None
    comment: str = ""
    group: str = ""
    """A label by which commands select jobs; an admin may limit how many jobs of a group run at once."""
    per_gpu: bool = False
    """One process for each GPU instead of one for each node."""
    snapshot: str = ""
    """The blob with the source files in which the job runs."""
    stdin: str = ""
    """The blob that each run gets as its standard input; empty: none."""
    terminal: str = ""
    """The type of the terminal that the run gets; empty: none."""
    key: str = ""
    """An idempotency key of the submitter: a request that is sent twice submits the job once."""
    signal: str = ""
    """A signal to send before the time limit, such as USR2@120; empty: none."""
    cpu_limit: int = 0
    """CPUs that the submitter asked for, per GPU or for the whole job. 0: not asked for, and not limited."""
    output: str = ""
    """The file for standard output, with placeholders such as %j; empty: the run's log."""
    error: str = ""
    """The file for standard error; empty: together with standard output."""
    compat: str = ""
    """Slurm's variables that the run gets: `batch`, those about the job; `slurm`, all; empty: none."""
    stages: str = ""
    """`auto`: hooks in PyTorch find the stages of the run; empty: none, or as the job names them."""
    array_first: int | None = None
    """The smallest index of the array; `array_last` is the largest."""
    array_last: int | None = None
    image: str = ""
    """The image of the container in which the run executes; empty: none."""
    mounts: tuple[str, ...] = ()
    """Files and folders of the node in the container: SOURCE:TARGET, or SOURCE:TARGET:ro."""
    runtime: str = ""
    """The container runtime; empty: the first that answers on the node."""
    sweep: str = ""
    """The sweep of which the job is a trial; empty: none."""
    early_stop: str = ""
    """The rule that stops trials of the sweep early, as `weft.access.sweeps.early_stop` reads it; empty: none."""
    team: str = ""
    """The team that the job counts for; empty: none."""
    notify: str = ""
    """Events that lead to a message, and its targets, such as done,failed@team; empty: none."""
    requeue: bool | None = None
    """True: it runs again at its time limit if it has saved its work. False: it does not run again after it was stopped
    or lost. None: it runs again after those only."""
    min_run_s: float | None = None
    """A run may be preempted after this time if the scheduler protects runs for longer; None: as the scheduler does."""


@dataclass(frozen=True, slots=True)
class Replica:
    """The place of a job among the replicas of a service."""

    service: str
    index: int
    version: int = 1
    """The version of the service that the replica runs."""


@plain_init
@dataclass(frozen=True, slots=True)
class Job:
    id: JobId
    gpus: int = 1
    name: str = ""
    user: str = ""
    memory_mb: PerRank = UNCOUNTED
    """Memory per GPU: one figure for all ranks, or one for each rank. 0: not counted."""
    cpus: int = 0
    """Per GPU, or for the whole job if it has no GPU."""
    ram_mb: int = 0
    """Per GPU, or for the whole job if it has no GPU."""
    share: Share = WHOLE
    where: Where = ANYWHERE
    priority: int = 0
    opportunistic: bool = False
    """Uses capacity that guaranteed jobs leave free (AntMan)."""
    retries: int = 0
    declared_s: float | None = None
    """The submitter's estimate of the job's duration when it runs alone."""
    iterations: int | None = None
    profile: Profile | None = None
    command: tuple[str, ...] = ()
    params: tuple[tuple[str, str], ...] = ()
    after: tuple[JobId, ...] = ()
    """Jobs that must be done first. If one of them ends in another way, this job is cancelled."""
    batch: str = ""
    """The array to which the job belongs. `batch_limit` limits how many of its jobs run at once."""
    batch_limit: int = 0
    """The number of jobs of its batch that may be active or eligible at once; 0: no limit."""
    task: Task | None = None
    begin_at: Seconds | None = None
    """The earliest start; None: at once."""
    after_any: tuple[JobId, ...] = ()
    """Jobs that must have ended first, in any way."""
    after_failed: tuple[JobId, ...] = ()
    """Jobs that must have ended otherwise than done first. If one of them is done, this job is cancelled."""
    profile_key: str = ""
    """The key of a stored profile, for jobs that give no profile; empty: `model.profiles.key_of` derives one."""

    deadline_at: Seconds | None = None
    """When the job should have ended; None: it has no deadline. No run is stopped at it."""
    replica: Replica | None = None
    """The job is a replica of a service: it does not end by itself and is not preempted."""

    @property
    def comes_after(self) -> tuple[JobId, ...]:
        """All jobs that it depends on."""
        return (*self.after, *self.after_any, *self.after_failed)

    @property
    def group(self) -> str:
        return self.task.group if self.task is not None else ""

    @property
    def team(self) -> str:
        return self.task.team if self.task is not None else ""
