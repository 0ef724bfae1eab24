"""The table of job fields. Flags, task files, Python keys, `weft set`, the launch message and `weft show` derive from
it. A new field is declared here (`FIELDS`, `Keys`), in `weft.proto` (`JobSpec`) and in `model/job.py`. If the run needs
it, also in `StartRun` of `weft.proto`, in `node/engine/launch_spec.py`, and where the run uses it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict

from weft.access.jobspec import readers
from weft.access.jobspec.placeholders import fill_in
from weft.access.jobspec.readers import Given, Reader
from weft.access.wire.convert import pairs, put
from weft.access.wire.messages import JobSpec
from weft.errors import InputError, UnknownName
from weft.inputs import quantities
from weft.inputs.output_names import check_output_name

if TYPE_CHECKING:
    from weft.model import Job

Words = str | os.PathLike[str]
GPUS: Final = (0, 1_000_000)
GPU_NUMBERS: Final = (0, 4095)
CPUS: Final = (0, 1_000_000)
PRIORITIES: Final = (-1_000_000, 1_000_000)
RETRIES: Final = (0, 1_000_000)
EXIT_CODES: Final = (1, 255)
JOBS_PER_GPU: Final = (1, 1000)
MEGABYTES: Final = (0, quantities.MAX_MB)
SECONDS: Final = (0, quantities.MAX_DURATION_S)
MOMENTS: Final = (0, 253_402_300_799)
"""Seconds since 1970, up to the year 9999."""


class Flag(NamedTuple):
    """The flag of a field on the command line."""

    names: tuple[str, ...]
    help: str
    metavar: str = ""
    """Empty for a switch without a value."""
    repeated: bool = False


class Field(NamedTuple):
    key: str
    """The key in task files and Python, and with dashes in `weft set`."""
    examples: tuple[str, str]
    """Two different values as a task file has them. A test submits, edits, starts and shows a job with each."""
    read: Reader | None
    """Parses the value as users write it. None: users cannot give this value."""
    model: str = ""
    """The attribute of `Job` that holds the value, such as `task.grace_s`. Empty: the value creates jobs or events."""
    proto: str = ""
    """The field of `JobSpec`, if its name is not the key."""
    flag: Flag | None = None
    aliases: tuple[str, ...] = ()
    settable: bool = False
    launch: str = ""
    """The field of `StartRun` that carries the value to the run. Empty: the run does not get it."""
    bounds: tuple[float, float] | None = None
    """The least and the largest number that it may be; None: it is no number."""
    shown: bool = True
    """True if `weft show` prints the value: an environment may hold secrets."""

    @property
    def message(self) -> str:
        return self.proto or self.key

    def of(self, job: Job) -> Any:
        """Return the value in a job, as the model holds it."""
        holder, _, name = self.model.rpartition(".")
        value = getattr(job, holder) if holder else job
        return None if value is None else getattr(value, name)


_DURATIONS: Final = "90 (minutes), 45s, 2h, 1:30:00, 2-12:00:00"

FIELDS: Final[tuple[Field, ...]] = (
    Field(
        "name", ("alpha", "beta"), readers.one(quantities.check_name), "name", settable=True, launch="name",
        flag=Flag(("-J", "--name"), "its name in the queue (default: its program)", "NAME"),
    ),
    Field("command", ("true", "false"), readers.command, "command", launch="command"),
    Field(
        "gpus", ("1", "2"), readers.whole(*GPUS), "gpus", settable=True, aliases=("required_gpus",),
        bounds=GPUS,
        flag=Flag(("-G", "--gpus", "--gres"), "how many GPUs; 0: none (default: 1)", "N"),
    ),
    Field(
        "memory", ("100", "200"), readers.memory, "memory_mb", "memory_mb", settable=True, aliases=("min_gpu_memory",),
        launch="memory_mb",
        bounds=MEGABYTES,
        flag=Flag(("--memory",), "GPU memory on each: 8192, 8G; one figure, or one per GPU (default: 4096)", "MB"),
    ),
    Field(
        "cpus", ("1", "2"), readers.whole(*CPUS), "cpus", settable=True, launch="cpus",
        bounds=CPUS,
        flag=Flag(("--cpus",), "CPUs per GPU, or in total for a job without GPUs", "N"),
    ),
    Field(
        "mem", ("100", "200"), readers.one(quantities.parse_megabytes), "ram_mb", "ram_mb", settable=True,
        launch="ram_mb",
        bounds=MEGABYTES,
        flag=Flag(("--mem",), "main memory per GPU, or in total for a job without GPUs", "MB"),
    ),
    Field(
        "priority", ("1", "2"), readers.whole(*PRIORITIES), "priority", settable=True,
        bounds=PRIORITIES,
        flag=Flag(("--priority",), "larger goes first (default: 0)", "N"),
    ),
    Field(
        "time", ("60s", "120s"), readers.one(quantities.parse_time_limit), "task.time_limit_s", "time_limit_s",
        settable=True, launch="time_limit_s",
        bounds=SECONDS,
        flag=Flag(("-t", "--time"), f"the longest a run may take: {_DURATIONS}", "T"),
    ),
    Field(
        "duration", ("60s", "120s"), readers.one(quantities.parse_duration), "declared_s", "declared_s", settable=True,
        bounds=SECONDS,
        flag=Flag(("--duration",), "the expected duration: 90 (seconds), 45m, 2h", "T"),
    ),
    Field(
        "retries", ("1", "2"), readers.whole(*RETRIES), "retries", settable=True,
        bounds=RETRIES,
        flag=Flag(("--retries",), "how often to try again after a failure (default: 0)", "N"),
    ),
    Field(
        "after", ("first", "second"), readers.after, "after", settable=True,
        flag=Flag(("--after",), "start once these are done; afterany:, afternotok:, singleton", "JOB", repeated=True),
    ),
    Field(
        "begin", ("2040-01-01T08:00", "2041-01-01T08:00"), readers.moment, "begin_at", "begin_at", settable=True,
        bounds=MOMENTS,
        flag=Flag(("--begin",), "not before this time: 16:00, tomorrow, 2030-01-31T08:00, now+2h", "WHEN"),
    ),
    Field(
        "array", ("0-1", "0-2"), readers.array,
        flag=Flag(("--array",), "one job per index (in WEFT_ARRAY_TASK_ID), here at most four at a time", "0-9%4"),
    ),
    Field(
        "env", ("A=1", "A=2"), readers.env, "task.env", launch="env", shown=False,
        flag=Flag(("--env",), "an additional variable; without VALUE, its value here", "NAME[=VALUE]", repeated=True),
    ),
    Field(
        "chdir", ("/", "/tmp"), readers.path, "task.chdir", launch="chdir",
        flag=Flag(("--chdir",), "where it runs (default: here)", "DIR"),
    ),
    Field(
        "requeue_exit", ("75", "85"), readers.wholes(*EXIT_CODES), "task.requeue_exits", "requeue_exits", settable=True,
        bounds=EXIT_CODES,
        flag=Flag(("--requeue-exit",), "more exit codes that request another run, besides 85 and 75", "CODES"),
    ),
    Field(
        "requeue", ("true", "false"), readers.yes, "task.requeue", settable=True, launch="requeue",
        flag=Flag(("--requeue",), "run it again at its time limit too, if it has saved its work"),
    ),
    Field(
        "max_jobs_per_gpu", ("2", "4"), readers.whole(*JOBS_PER_GPU), "share", settable=True,
        bounds=JOBS_PER_GPU,
        flag=Flag(("--max-jobs-per-gpu",), "share each GPU with up to K-1 other jobs that allow it", "K"),
    ),
    Field(
        "share", ("0.25/0.75", "0.4/0.6"), readers.share, "share", settable=True,
        flag=Flag(("--share",), "the part of each GPU that it is guaranteed, and the most it gets", "REQUEST/LIMIT"),
    ),
    Field(
        "gpu_ids", ("0", "1"), readers.wholes(*GPU_NUMBERS), "where.pinned", settable=True,
        bounds=GPU_NUMBERS,
        flag=Flag(("--gpu-ids",), "on these GPUs and no others", "0,1"),
    ),
    Field(
        "gpu_choice", ("0,1", "1"), readers.wholes(*GPU_NUMBERS), "where.choice", settable=True,
        aliases=("gpu_pool",),
        bounds=GPU_NUMBERS,
    ),
    Field(
        "gpu_model", ("A100", "H100"), readers.one(readers.line), "where.gpu_model",
        flag=Flag(("--gpu-model",), "on GPUs of this model", "MODEL"),
    ),
    Field(
        "node", ("n1", "n2"), readers.one(readers.node), "where.labels",
        flag=Flag(("--node",), "on this node of a cluster and no other", "NAME"),
    ),
    Field(
        "labels", ("zone=a", "zone=b"), readers.labels, "where.labels", aliases=("label",),
        flag=Flag(("--label",), "on nodes with this label; repeat it: with all of them", "NAME=VALUE", repeated=True),
    ),
    Field(
        "per_gpu", ("true", "false"), readers.yes, "task.per_gpu", launch="per_gpu",
        flag=Flag(("--per-gpu",), "start one process per GPU, with its rank, instead of one per node"),
    ),
    Field("snapshot", ("a" * 64, "b" * 64), None, "task.snapshot", launch="snapshot"),
    Field("stdin", ("c" * 64, "d" * 64), None, "task.stdin", launch="stdin"),
    Field("terminal", ("xterm", "linux"), None, "task.terminal", launch="terminal"),
    Field(
        "grace", ("5s", "7s"), readers.one(quantities.parse_duration), "task.grace_s", "grace_s", settable=True,
        launch="grace_s",
        bounds=SECONDS,
        flag=Flag(("--grace",), "seconds from the request to stop until the kill (30; 60 if preempted); also 2m", "T"),
    ),
    Field(
        "min_run", ("0", "7s"), readers.one(quantities.parse_duration_or_zero), "task.min_run_s", "min_run_s",
        settable=True, bounds=SECONDS,
        flag=Flag(("--min-run",), "let its runs be preempted after this time, before the scheduler's --min-run", "T"),
    ),
    Field(
        "signal", ("USR1@60", "B:USR2@120"), readers.one(quantities.normalize_signal), "task.signal", settable=True,
        launch="signal",
        flag=Flag(("--signal",), "a signal this many seconds before --time, and on preemption", "[B:]USR2@120"),
    ),
    Field(
        "output", ("a-%j.out", "b.out"), readers.one(check_output_name), "task.output", settable=True, launch="output",
        flag=Flag(("-o", "--output"), "send its output to this file: %j its id, %A and %a array and index", "FILE"),
    ),
    Field(
        "error", ("a-%j.err", "b.err"), readers.one(check_output_name), "task.error", settable=True, launch="error",
        flag=Flag(("-e", "--error"), "send its standard error to this file (default: as its output)", "FILE"),
    ),
    Field(
        "comment", ("one", "two"), readers.one(readers.line), "task.comment", settable=True,
        flag=Flag(("--comment",), "a note that weft show prints", "TEXT"),
    ),
    Field(
        "group", ("one", "two"), readers.one(readers.line), "task.group", settable=True, aliases=("partition",),
        launch="group",
        flag=Flag(("--group", "-p", "--partition"), "its group, to list, limit and pause jobs together", "G"),
    ),
    Field(
        "team", ("one", "two"), readers.one(readers.line), "task.team", settable=True,
        flag=Flag(("-A", "--team"), "the team whose GPUs it may use (default: yours)", "TEAM"),
    ),
    Field(
        "compat", ("batch", "slurm"), readers.one(readers.compat), "task.compat", launch="compat",
        flag=Flag(("--compat",), "slurm: set all of Slurm's variables (batch scripts: those about the job)", "slurm"),
    ),
    Field(
        "stages", ("auto", "none"), readers.one(readers.stages), "task.stages", launch="stages", settable=True,
        flag=Flag(("--stages",), "auto: find the stages of a PyTorch job by hooks, to weave or profile it", "auto"),
    ),
    Field(
        "image", ("alpine", "python:3.12"), readers.one(readers.image), "task.image", launch="image", settable=True,
        flag=Flag(("--image",), "run it in a container of this image", "IMAGE"),
    ),
    Field(
        "mount", ("/data:/data:ro", "/a:/b"), readers.mounts, "task.mounts", "mounts", launch="mounts", settable=True,
        aliases=("mounts",),
        flag=Flag(("--mount",), "a file or folder of the node in its container", "SRC[:DST[:ro]]", repeated=True),
    ),
    Field(
        "runtime", ("podman", "docker"), readers.one(readers.runtime), "task.runtime", launch="runtime", settable=True,
        flag=Flag(("--runtime",), "podman, docker or apptainer (default: the first that works there)", "NAME"),
    ),
    Field("sweep", ("lr-1", "lr-2"), readers.one(readers.sweep), "task.sweep"),
    Field(
        "early_stop", ("asha loss min 10 3", "halving acc max 1 2"), readers.one(readers.early_stop), "task.early_stop",
    ),
    Field(
        "deadline", ("2040-01-01T08:00", "2041-01-01T08:00"), readers.moment, "deadline_at", "deadline_at",
        settable=True,
        bounds=MOMENTS,
        flag=Flag(("--deadline",), "when it should have ended, for policy edf: 14:20, tomorrow, 8h", "WHEN"),
    ),
    Field(
        "notify", ("done,failed", "started@team"), readers.notify, "task.notify", settable=True,
        flag=Flag(("--notify",), "send a message when it is started, done, failed, cancelled", "EVENTS[@TARGETS]"),
    ),
    Field(
        "hold", ("true", "false"), readers.yes, shown=False,
        flag=Flag(("--hold",), "do not start it before weft release"),
    ),
    Field(
        "params", ("lr=1", "lr=2"), readers.params, "params", launch="params",
        flag=Flag(("--param",), "{params.NAME} in the command, WEFT_PARAM_NAME to it", "NAME=VALUE", repeated=True),
    ),
    Field(
        "profile", ("data=0.08,gpu=0.07", "data=80ms,gpu=0.07,net=0.06,memory=9000"), readers.profile, "profile",
        settable=True,
        flag=Flag(("--profile",), "seconds per iteration of its stages, to weave it", "data=S,gpu=S,net=S"),
    ),
    Field(
        "profile_key", ("bert-base", "bert-large"), readers.one(readers.line), "profile_key", settable=True,
        flag=Flag(("--profile-key",), "the key of its stored profile (default: params.model)", "KEY"),
    ),
)  # fmt: skip
BY_KEY: Final = {field.key: field for field in FIELDS}
ALIASES: Final = {alias: field.key for field in FIELDS for alias in field.aliases}
READABLE: Final = tuple(field.key for field in FIELDS if field.read is not None)
"""Keys of task files, flags and Python."""
SETTABLE: Final = tuple(field.key for field in FIELDS if field.settable)
CARRIED: Final = tuple(field for field in FIELDS if field.launch)


class Keys(TypedDict, total=False):
    """Arguments of `weft.submit`: the keys of a task file, and the flags of `weft submit`."""

    name: str
    gpus: int
    memory: int | str | Sequence[int | str]
    cpus: int
    mem: int | str
    priority: int
    time: Any
    grace: Any
    min_run: Any
    signal: str
    duration: Any
    retries: int
    after: Any
    begin: Any
    array: str | Iterable[int]
    env: Mapping[str, object]
    chdir: Words
    requeue_exit: int | Iterable[int]
    requeue: bool
    max_jobs_per_gpu: int
    share: str
    gpu_ids: int | Iterable[int]
    gpu_choice: int | Iterable[int]
    gpu_pool: int | Iterable[int]
    gpu_model: str
    output: str
    error: str
    comment: str
    group: str
    team: str
    compat: str
    stages: str
    image: str
    mount: str | Sequence[str]
    mounts: str | Sequence[str]
    runtime: str
    sweep: str
    early_stop: str
    params: Mapping[str, object]
    profile: Mapping[str, object] | str
    profile_key: str
    deadline: Any
    notify: str | Sequence[str]
    hold: bool
    per_gpu: bool
    labels: Mapping[str, object]
    node: str


def canonical(key: str) -> str:
    """Return a key in its standard form: with underscores, and without aliases."""
    key = key.replace("-", "_")
    return ALIASES.get(key, key)


def spec_of(given: Mapping[str, Given]) -> JobSpec:
    """Return the job that these keys describe. An error names the key."""
    spec = JobSpec()
    for key, value in given.items():
        field = BY_KEY.get(canonical(key))
        if field is None or field.read is None:
            raise UnknownName("key of a task", key, [*READABLE, *ALIASES])
        try:
            put(spec, field.message, field.read(value))
        except InputError as error:
            raise error.at(key=key) from None
    filled = _fill_command(spec)
    del spec.command[:]
    spec.command.extend(filled)
    return spec


def _fill_command(spec: JobSpec) -> list[str]:
    try:
        return fill_in(spec.command, dict(pairs(spec.params)))
    except InputError as error:
        raise error.at(key="command") from None


def settings_of(given: Mapping[str, str]) -> tuple[JobSpec, tuple[Field, ...]]:
    """Return the values that `weft set` gets, and the fields that have them."""
    for key in given:
        if canonical(key) not in SETTABLE:
            raise UnknownName("key to set", key, SETTABLE)
    return spec_of(given), tuple(BY_KEY[canonical(key)] for key in given)
