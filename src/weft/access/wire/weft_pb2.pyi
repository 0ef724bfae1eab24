from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Variable(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class JobSpec(_message.Message):
    __slots__ = ("name", "command", "chdir", "env", "params", "gpus", "memory_mb", "cpus", "ram_mb", "priority", "retries", "time_limit_s", "grace_s", "min_run_s", "after", "array", "requeue_exits", "requeue", "max_jobs_per_gpu", "gpu_ids", "gpu_model", "comment", "hold", "declared_s", "group", "gpu_choice", "per_gpu", "labels", "node", "snapshot", "begin_at", "signal", "output", "error", "stdin", "terminal", "compat", "profile", "profile_key", "stages", "share", "image", "mounts", "runtime", "sweep", "early_stop", "team", "notify", "deadline_at")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    CHDIR_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    RAM_MB_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    MIN_RUN_S_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_EXITS_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_FIELD_NUMBER: _ClassVar[int]
    MAX_JOBS_PER_GPU_FIELD_NUMBER: _ClassVar[int]
    GPU_IDS_FIELD_NUMBER: _ClassVar[int]
    GPU_MODEL_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    DECLARED_S_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    GPU_CHOICE_FIELD_NUMBER: _ClassVar[int]
    PER_GPU_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    BEGIN_AT_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    COMPAT_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    PROFILE_KEY_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    MOUNTS_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    SWEEP_FIELD_NUMBER: _ClassVar[int]
    EARLY_STOP_FIELD_NUMBER: _ClassVar[int]
    TEAM_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_AT_FIELD_NUMBER: _ClassVar[int]
    name: str
    command: _containers.RepeatedScalarFieldContainer[str]
    chdir: str
    env: _containers.RepeatedCompositeFieldContainer[Variable]
    params: _containers.RepeatedCompositeFieldContainer[Variable]
    gpus: int
    memory_mb: _containers.RepeatedScalarFieldContainer[int]
    cpus: int
    ram_mb: int
    priority: int
    retries: int
    time_limit_s: float
    grace_s: float
    min_run_s: float
    after: _containers.RepeatedScalarFieldContainer[str]
    array: str
    requeue_exits: _containers.RepeatedScalarFieldContainer[int]
    requeue: bool
    max_jobs_per_gpu: int
    gpu_ids: _containers.RepeatedScalarFieldContainer[int]
    gpu_model: str
    comment: str
    hold: bool
    declared_s: float
    group: str
    gpu_choice: _containers.RepeatedScalarFieldContainer[int]
    per_gpu: bool
    labels: _containers.RepeatedCompositeFieldContainer[Variable]
    node: str
    snapshot: str
    begin_at: float
    signal: str
    output: str
    error: str
    stdin: str
    terminal: str
    compat: str
    profile: StageProfile
    profile_key: str
    stages: str
    share: str
    image: str
    mounts: _containers.RepeatedScalarFieldContainer[str]
    runtime: str
    sweep: str
    early_stop: str
    team: str
    notify: str
    deadline_at: float
    def __init__(self, name: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., chdir: _Optional[str] = ..., env: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ..., params: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ..., gpus: _Optional[int] = ..., memory_mb: _Optional[_Iterable[int]] = ..., cpus: _Optional[int] = ..., ram_mb: _Optional[int] = ..., priority: _Optional[int] = ..., retries: _Optional[int] = ..., time_limit_s: _Optional[float] = ..., grace_s: _Optional[float] = ..., min_run_s: _Optional[float] = ..., after: _Optional[_Iterable[str]] = ..., array: _Optional[str] = ..., requeue_exits: _Optional[_Iterable[int]] = ..., requeue: _Optional[bool] = ..., max_jobs_per_gpu: _Optional[int] = ..., gpu_ids: _Optional[_Iterable[int]] = ..., gpu_model: _Optional[str] = ..., comment: _Optional[str] = ..., hold: _Optional[bool] = ..., declared_s: _Optional[float] = ..., group: _Optional[str] = ..., gpu_choice: _Optional[_Iterable[int]] = ..., per_gpu: _Optional[bool] = ..., labels: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ..., node: _Optional[str] = ..., snapshot: _Optional[str] = ..., begin_at: _Optional[float] = ..., signal: _Optional[str] = ..., output: _Optional[str] = ..., error: _Optional[str] = ..., stdin: _Optional[str] = ..., terminal: _Optional[str] = ..., compat: _Optional[str] = ..., profile: _Optional[_Union[StageProfile, _Mapping]] = ..., profile_key: _Optional[str] = ..., stages: _Optional[str] = ..., share: _Optional[str] = ..., image: _Optional[str] = ..., mounts: _Optional[_Iterable[str]] = ..., runtime: _Optional[str] = ..., sweep: _Optional[str] = ..., early_stop: _Optional[str] = ..., team: _Optional[str] = ..., notify: _Optional[str] = ..., deadline_at: _Optional[float] = ...) -> None: ...

class StageProfile(_message.Message):
    __slots__ = ("model", "iteration_s", "data_s", "gpu_s", "network_s", "start_s", "memory_mb")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ITERATION_S_FIELD_NUMBER: _ClassVar[int]
    DATA_S_FIELD_NUMBER: _ClassVar[int]
    GPU_S_FIELD_NUMBER: _ClassVar[int]
    NETWORK_S_FIELD_NUMBER: _ClassVar[int]
    START_S_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    model: str
    iteration_s: float
    data_s: float
    gpu_s: float
    network_s: float
    start_s: float
    memory_mb: int
    def __init__(self, model: _Optional[str] = ..., iteration_s: _Optional[float] = ..., data_s: _Optional[float] = ..., gpu_s: _Optional[float] = ..., network_s: _Optional[float] = ..., start_s: _Optional[float] = ..., memory_mb: _Optional[int] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("jobs", "key", "env", "chdir", "dry_run", "other_jobs", "group_jobs")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    CHDIR_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    OTHER_JOBS_FIELD_NUMBER: _ClassVar[int]
    GROUP_JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobSpec]
    key: str
    env: _containers.RepeatedCompositeFieldContainer[Variable]
    chdir: str
    dry_run: bool
    other_jobs: int
    group_jobs: int
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobSpec, _Mapping]]] = ..., key: _Optional[str] = ..., env: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ..., chdir: _Optional[str] = ..., dry_run: _Optional[bool] = ..., other_jobs: _Optional[int] = ..., group_jobs: _Optional[int] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("ids", "notes")
    IDS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class ChangeRequest(_message.Message):
    __slots__ = ("verb", "jobs", "settings", "statuses", "group", "spec")
    VERB_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    verb: str
    jobs: _containers.RepeatedScalarFieldContainer[str]
    settings: _containers.RepeatedCompositeFieldContainer[Variable]
    statuses: _containers.RepeatedScalarFieldContainer[str]
    group: str
    spec: JobSpec
    def __init__(self, verb: _Optional[str] = ..., jobs: _Optional[_Iterable[str]] = ..., settings: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ..., statuses: _Optional[_Iterable[str]] = ..., group: _Optional[str] = ..., spec: _Optional[_Union[JobSpec, _Mapping]] = ...) -> None: ...

class ChangeReply(_message.Message):
    __slots__ = ("ids", "refused")
    IDS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    refused: _containers.RepeatedCompositeFieldContainer[Variable]
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., refused: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ...) -> None: ...

class QueryRequest(_message.Message):
    __slots__ = ("what", "jobs", "limit", "since", "group", "states", "name", "user", "arrays", "skip", "forecast")
    WHAT_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    ARRAYS_FIELD_NUMBER: _ClassVar[int]
    SKIP_FIELD_NUMBER: _ClassVar[int]
    FORECAST_FIELD_NUMBER: _ClassVar[int]
    what: str
    jobs: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    since: float
    group: str
    states: _containers.RepeatedScalarFieldContainer[str]
    name: str
    user: str
    arrays: bool
    skip: int
    forecast: bool
    def __init__(self, what: _Optional[str] = ..., jobs: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ..., since: _Optional[float] = ..., group: _Optional[str] = ..., states: _Optional[_Iterable[str]] = ..., name: _Optional[str] = ..., user: _Optional[str] = ..., arrays: _Optional[bool] = ..., skip: _Optional[int] = ..., forecast: _Optional[bool] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("job", "forecast")
    JOB_FIELD_NUMBER: _ClassVar[int]
    FORECAST_FIELD_NUMBER: _ClassVar[int]
    job: str
    forecast: bool
    def __init__(self, job: _Optional[str] = ..., forecast: _Optional[bool] = ...) -> None: ...

class WhatIfRequest(_message.Message):
    __slots__ = ("policy", "add_nodes", "cancel", "priorities")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    ADD_NODES_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    PRIORITIES_FIELD_NUMBER: _ClassVar[int]
    policy: str
    add_nodes: _containers.RepeatedScalarFieldContainer[int]
    cancel: _containers.RepeatedScalarFieldContainer[str]
    priorities: _containers.RepeatedCompositeFieldContainer[Variable]
    def __init__(self, policy: _Optional[str] = ..., add_nodes: _Optional[_Iterable[int]] = ..., cancel: _Optional[_Iterable[str]] = ..., priorities: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ...) -> None: ...

class JsonReply(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...

class LogsRequest(_message.Message):
    __slots__ = ("job", "run", "follow", "lines", "rank", "offset", "stderr")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    job: str
    run: int
    follow: bool
    lines: int
    rank: int
    offset: int
    stderr: bool
    def __init__(self, job: _Optional[str] = ..., run: _Optional[int] = ..., follow: _Optional[bool] = ..., lines: _Optional[int] = ..., rank: _Optional[int] = ..., offset: _Optional[int] = ..., stderr: _Optional[bool] = ...) -> None: ...

class LogChunk(_message.Message):
    __slots__ = ("text", "note", "offset")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    text: bytes
    note: str
    offset: int
    def __init__(self, text: _Optional[bytes] = ..., note: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("after", "views")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    after: int
    views: bool
    def __init__(self, after: _Optional[int] = ..., views: _Optional[bool] = ...) -> None: ...

class HistoryRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FactLines(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, json: _Optional[_Iterable[str]] = ...) -> None: ...

class FactLine(_message.Message):
    __slots__ = ("position", "json", "note")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    position: int
    json: str
    note: str
    def __init__(self, position: _Optional[int] = ..., json: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class OperateRequest(_message.Message):
    __slots__ = ("verb", "options")
    VERB_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    verb: str
    options: _containers.RepeatedCompositeFieldContainer[Variable]
    def __init__(self, verb: _Optional[str] = ..., options: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ...) -> None: ...

class AgentMessage(_message.Message):
    __slots__ = ("hello", "heartbeat", "news", "gpus", "progress", "log", "tail", "kept", "goodbye", "record")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    NEWS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    heartbeat: Heartbeat
    news: RunNews
    gpus: GpuNews
    progress: Progress
    log: LogPart
    tail: LogTail
    kept: Kept
    goodbye: Goodbye
    record: RunRecord
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., news: _Optional[_Union[RunNews, _Mapping]] = ..., gpus: _Optional[_Union[GpuNews, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., log: _Optional[_Union[LogPart, _Mapping]] = ..., tail: _Optional[_Union[LogTail, _Mapping]] = ..., kept: _Optional[_Union[Kept, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., record: _Optional[_Union[RunRecord, _Mapping]] = ...) -> None: ...

class SchedulerMessage(_message.Message):
    __slots__ = ("welcome", "start", "stop", "confirm", "heartbeat", "read", "forget", "suspend", "terminal", "reweave", "describe")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    REWEAVE_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    start: StartRun
    stop: StopRun
    confirm: Confirm
    heartbeat: HeartbeatReply
    read: ReadLog
    forget: Forget
    suspend: SuspendRun
    terminal: ServeTerminal
    reweave: ReweaveRun
    describe: DescribeRuns
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., start: _Optional[_Union[StartRun, _Mapping]] = ..., stop: _Optional[_Union[StopRun, _Mapping]] = ..., confirm: _Optional[_Union[Confirm, _Mapping]] = ..., heartbeat: _Optional[_Union[HeartbeatReply, _Mapping]] = ..., read: _Optional[_Union[ReadLog, _Mapping]] = ..., forget: _Optional[_Union[Forget, _Mapping]] = ..., suspend: _Optional[_Union[SuspendRun, _Mapping]] = ..., terminal: _Optional[_Union[ServeTerminal, _Mapping]] = ..., reweave: _Optional[_Union[ReweaveRun, _Mapping]] = ..., describe: _Optional[_Union[DescribeRuns, _Mapping]] = ...) -> None: ...

class GpuSpec(_message.Message):
    __slots__ = ("index", "uuid", "model", "memory_mb")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    index: int
    uuid: str
    model: str
    memory_mb: int
    def __init__(self, index: _Optional[int] = ..., uuid: _Optional[str] = ..., model: _Optional[str] = ..., memory_mb: _Optional[int] = ...) -> None: ...

class NodeSpec(_message.Message):
    __slots__ = ("id", "gpus", "cpus", "ram_mb", "switch", "labels", "address", "port", "ends_in_s")
    ID_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    RAM_MB_FIELD_NUMBER: _ClassVar[int]
    SWITCH_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    ENDS_IN_S_FIELD_NUMBER: _ClassVar[int]
    id: str
    gpus: _containers.RepeatedCompositeFieldContainer[GpuSpec]
    cpus: int
    ram_mb: int
    switch: str
    labels: _containers.RepeatedCompositeFieldContainer[Variable]
    address: str
    port: int
    ends_in_s: float
    def __init__(self, id: _Optional[str] = ..., gpus: _Optional[_Iterable[_Union[GpuSpec, _Mapping]]] = ..., cpus: _Optional[int] = ..., ram_mb: _Optional[int] = ..., switch: _Optional[str] = ..., labels: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ..., address: _Optional[str] = ..., port: _Optional[int] = ..., ends_in_s: _Optional[float] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocol", "version", "node", "instance", "runs", "blocks", "at", "disk_id", "cluster", "leaving")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    DISK_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    version: str
    node: NodeSpec
    instance: str
    runs: _containers.RepeatedCompositeFieldContainer[RunNews]
    blocks: _containers.RepeatedCompositeFieldContainer[GpuBlock]
    at: float
    disk_id: str
    cluster: str
    leaving: str
    def __init__(self, protocol: _Optional[int] = ..., version: _Optional[str] = ..., node: _Optional[_Union[NodeSpec, _Mapping]] = ..., instance: _Optional[str] = ..., runs: _Optional[_Iterable[_Union[RunNews, _Mapping]]] = ..., blocks: _Optional[_Iterable[_Union[GpuBlock, _Mapping]]] = ..., at: _Optional[float] = ..., disk_id: _Optional[str] = ..., cluster: _Optional[str] = ..., leaving: _Optional[str] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("why", "done")
    WHY_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    why: str
    done: bool
    def __init__(self, why: _Optional[str] = ..., done: _Optional[bool] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("protocol", "version", "epoch", "lease_s", "heartbeat_s", "at", "cluster")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_S_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    version: str
    epoch: int
    lease_s: float
    heartbeat_s: float
    at: float
    cluster: str
    def __init__(self, protocol: _Optional[int] = ..., version: _Optional[str] = ..., epoch: _Optional[int] = ..., lease_s: _Optional[float] = ..., heartbeat_s: _Optional[float] = ..., at: _Optional[float] = ..., cluster: _Optional[str] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("epoch", "at", "runs", "status", "blocks")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    at: float
    runs: _containers.RepeatedCompositeFieldContainer[RunNews]
    status: NodeStatus
    blocks: _containers.RepeatedCompositeFieldContainer[GpuBlock]
    def __init__(self, epoch: _Optional[int] = ..., at: _Optional[float] = ..., runs: _Optional[_Iterable[_Union[RunNews, _Mapping]]] = ..., status: _Optional[_Union[NodeStatus, _Mapping]] = ..., blocks: _Optional[_Iterable[_Union[GpuBlock, _Mapping]]] = ...) -> None: ...

class HeartbeatReply(_message.Message):
    __slots__ = ("epoch", "at", "leaves_in_s")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    LEAVES_IN_S_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    at: float
    leaves_in_s: float
    def __init__(self, epoch: _Optional[int] = ..., at: _Optional[float] = ..., leaves_in_s: _Optional[float] = ...) -> None: ...

class NodeStatus(_message.Message):
    __slots__ = ("load", "ram_used_mb", "readings", "shares", "disk_free_mb")
    LOAD_FIELD_NUMBER: _ClassVar[int]
    RAM_USED_MB_FIELD_NUMBER: _ClassVar[int]
    READINGS_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_MB_FIELD_NUMBER: _ClassVar[int]
    load: float
    ram_used_mb: int
    readings: _containers.RepeatedCompositeFieldContainer[GpuReading]
    shares: _containers.RepeatedCompositeFieldContainer[GpuShare]
    disk_free_mb: int
    def __init__(self, load: _Optional[float] = ..., ram_used_mb: _Optional[int] = ..., readings: _Optional[_Iterable[_Union[GpuReading, _Mapping]]] = ..., shares: _Optional[_Iterable[_Union[GpuShare, _Mapping]]] = ..., disk_free_mb: _Optional[int] = ...) -> None: ...

class GpuShare(_message.Message):
    __slots__ = ("gpu", "job", "kind", "request", "limit", "busy", "rate", "enforced", "advisory")
    GPU_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    ENFORCED_FIELD_NUMBER: _ClassVar[int]
    ADVISORY_FIELD_NUMBER: _ClassVar[int]
    gpu: int
    job: str
    kind: str
    request: float
    limit: float
    busy: bool
    rate: float
    enforced: _containers.RepeatedScalarFieldContainer[str]
    advisory: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, gpu: _Optional[int] = ..., job: _Optional[str] = ..., kind: _Optional[str] = ..., request: _Optional[float] = ..., limit: _Optional[float] = ..., busy: _Optional[bool] = ..., rate: _Optional[float] = ..., enforced: _Optional[_Iterable[str]] = ..., advisory: _Optional[_Iterable[str]] = ...) -> None: ...

class GpuReading(_message.Message):
    __slots__ = ("gpu", "used_mb", "utilisation", "processes", "error", "energy_j")
    GPU_FIELD_NUMBER: _ClassVar[int]
    USED_MB_FIELD_NUMBER: _ClassVar[int]
    UTILISATION_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ENERGY_J_FIELD_NUMBER: _ClassVar[int]
    gpu: int
    used_mb: int
    utilisation: float
    processes: int
    error: str
    energy_j: float
    def __init__(self, gpu: _Optional[int] = ..., used_mb: _Optional[int] = ..., utilisation: _Optional[float] = ..., processes: _Optional[int] = ..., error: _Optional[str] = ..., energy_j: _Optional[float] = ...) -> None: ...

class RunNews(_message.Message):
    __slots__ = ("job", "run", "phase", "end", "weave_id", "stages", "replica")
    class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ORDERED: _ClassVar[RunNews.Phase]
        STARTED: _ClassVar[RunNews.Phase]
        ENDED: _ClassVar[RunNews.Phase]
    ORDERED: RunNews.Phase
    STARTED: RunNews.Phase
    ENDED: RunNews.Phase
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    WEAVE_ID_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    job: str
    run: int
    phase: RunNews.Phase
    end: RunEnd
    weave_id: str
    stages: _containers.RepeatedCompositeFieldContainer[StageCounters]
    replica: ReplicaStatus
    def __init__(self, job: _Optional[str] = ..., run: _Optional[int] = ..., phase: _Optional[_Union[RunNews.Phase, str]] = ..., end: _Optional[_Union[RunEnd, _Mapping]] = ..., weave_id: _Optional[str] = ..., stages: _Optional[_Iterable[_Union[StageCounters, _Mapping]]] = ..., replica: _Optional[_Union[ReplicaStatus, _Mapping]] = ...) -> None: ...

class ReplicaStatus(_message.Message):
    __slots__ = ("port", "ready", "why")
    PORT_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    port: int
    ready: bool
    why: str
    def __init__(self, port: _Optional[int] = ..., ready: _Optional[bool] = ..., why: _Optional[str] = ...) -> None: ...

class StageCounters(_message.Message):
    __slots__ = ("stage", "served_s", "waited_s", "grants", "passed_over")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    SERVED_S_FIELD_NUMBER: _ClassVar[int]
    WAITED_S_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    PASSED_OVER_FIELD_NUMBER: _ClassVar[int]
    stage: str
    served_s: float
    waited_s: float
    grants: int
    passed_over: int
    def __init__(self, stage: _Optional[str] = ..., served_s: _Optional[float] = ..., waited_s: _Optional[float] = ..., grants: _Optional[int] = ..., passed_over: _Optional[int] = ...) -> None: ...

class RunEnd(_message.Message):
    __slots__ = ("code", "signal", "why", "detail", "done", "started_at", "ran_s", "cpu_s", "max_rss_mb")
    CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    RAN_S_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    MAX_RSS_MB_FIELD_NUMBER: _ClassVar[int]
    code: int
    signal: int
    why: str
    detail: str
    done: bool
    started_at: float
    ran_s: float
    cpu_s: float
    max_rss_mb: int
    def __init__(self, code: _Optional[int] = ..., signal: _Optional[int] = ..., why: _Optional[str] = ..., detail: _Optional[str] = ..., done: _Optional[bool] = ..., started_at: _Optional[float] = ..., ran_s: _Optional[float] = ..., cpu_s: _Optional[float] = ..., max_rss_mb: _Optional[int] = ...) -> None: ...

class GpuBlock(_message.Message):
    __slots__ = ("gpu", "why", "memory_mb", "detail")
    GPU_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    gpu: int
    why: str
    memory_mb: int
    detail: str
    def __init__(self, gpu: _Optional[int] = ..., why: _Optional[str] = ..., memory_mb: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...

class GpuMemory(_message.Message):
    __slots__ = ("job", "run", "memory_mb")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    job: str
    run: int
    memory_mb: int
    def __init__(self, job: _Optional[str] = ..., run: _Optional[int] = ..., memory_mb: _Optional[int] = ...) -> None: ...

class GpuNews(_message.Message):
    __slots__ = ("blocks", "measured")
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    MEASURED_FIELD_NUMBER: _ClassVar[int]
    blocks: _containers.RepeatedCompositeFieldContainer[GpuBlock]
    measured: _containers.RepeatedCompositeFieldContainer[GpuMemory]
    def __init__(self, blocks: _Optional[_Iterable[_Union[GpuBlock, _Mapping]]] = ..., measured: _Optional[_Iterable[_Union[GpuMemory, _Mapping]]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("job", "run", "json")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    job: str
    run: int
    json: str
    def __init__(self, job: _Optional[str] = ..., run: _Optional[int] = ..., json: _Optional[str] = ...) -> None: ...

class GangMember(_message.Message):
    __slots__ = ("node", "address", "port", "gpus")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    node: str
    address: str
    port: int
    gpus: int
    def __init__(self, node: _Optional[str] = ..., address: _Optional[str] = ..., port: _Optional[int] = ..., gpus: _Optional[int] = ...) -> None: ...

class StartRun(_message.Message):
    __slots__ = ("epoch", "job", "run", "name", "command", "chdir", "env", "params", "gpus", "memory_mb", "gang", "rank", "per_gpu", "array_index", "array_size", "time_limit_s", "grace_s", "snapshot", "user", "checkpoint", "signal", "output", "error", "ram_mb", "cpu_limit", "stdin", "terminal", "gpu_share", "gpu_request", "cpus", "compat", "weave", "array_first", "array_last", "stages", "health", "image", "mounts", "runtime", "record", "group", "requeue")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    CHDIR_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    PER_GPU_FIELD_NUMBER: _ClassVar[int]
    ARRAY_INDEX_FIELD_NUMBER: _ClassVar[int]
    ARRAY_SIZE_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RAM_MB_FIELD_NUMBER: _ClassVar[int]
    CPU_LIMIT_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    GPU_SHARE_FIELD_NUMBER: _ClassVar[int]
    GPU_REQUEST_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    COMPAT_FIELD_NUMBER: _ClassVar[int]
    WEAVE_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIRST_FIELD_NUMBER: _ClassVar[int]
    ARRAY_LAST_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    MOUNTS_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    job: str
    run: int
    name: str
    command: _containers.RepeatedScalarFieldContainer[str]
    chdir: str
    env: _containers.RepeatedCompositeFieldContainer[Variable]
    params: _containers.RepeatedCompositeFieldContainer[Variable]
    gpus: _containers.RepeatedScalarFieldContainer[int]
    memory_mb: int
    gang: _containers.RepeatedCompositeFieldContainer[GangMember]
    rank: int
    per_gpu: bool
    array_index: int
    array_size: int
    time_limit_s: float
    grace_s: float
    snapshot: str
    user: str
    checkpoint: str
    signal: str
    output: str
    error: str
    ram_mb: int
    cpu_limit: int
    stdin: str
    terminal: str
    gpu_share: float
    gpu_request: float
    cpus: int
    compat: str
    weave: Weave
    array_first: int
    array_last: int
    stages: str
    health: ReplicaHealth
    image: str
    mounts: _containers.RepeatedScalarFieldContainer[str]
    runtime: str
    record: str
    group: str
    requeue: bool
    def __init__(self, epoch: _Optional[int] = ..., job: _Optional[str] = ..., run: _Optional[int] = ..., name: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., chdir: _Optional[str] = ..., env: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ..., params: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ..., gpus: _Optional[_Iterable[int]] = ..., memory_mb: _Optional[int] = ..., gang: _Optional[_Iterable[_Union[GangMember, _Mapping]]] = ..., rank: _Optional[int] = ..., per_gpu: _Optional[bool] = ..., array_index: _Optional[int] = ..., array_size: _Optional[int] = ..., time_limit_s: _Optional[float] = ..., grace_s: _Optional[float] = ..., snapshot: _Optional[str] = ..., user: _Optional[str] = ..., checkpoint: _Optional[str] = ..., signal: _Optional[str] = ..., output: _Optional[str] = ..., error: _Optional[str] = ..., ram_mb: _Optional[int] = ..., cpu_limit: _Optional[int] = ..., stdin: _Optional[str] = ..., terminal: _Optional[str] = ..., gpu_share: _Optional[float] = ..., gpu_request: _Optional[float] = ..., cpus: _Optional[int] = ..., compat: _Optional[str] = ..., weave: _Optional[_Union[Weave, _Mapping]] = ..., array_first: _Optional[int] = ..., array_last: _Optional[int] = ..., stages: _Optional[str] = ..., health: _Optional[_Union[ReplicaHealth, _Mapping]] = ..., image: _Optional[str] = ..., mounts: _Optional[_Iterable[str]] = ..., runtime: _Optional[str] = ..., record: _Optional[str] = ..., group: _Optional[str] = ..., requeue: _Optional[bool] = ...) -> None: ...

class ReplicaHealth(_message.Message):
    __slots__ = ("path", "start_within_s", "every_s", "fails", "warmup_path", "warmup_body", "warmup_requests")
    PATH_FIELD_NUMBER: _ClassVar[int]
    START_WITHIN_S_FIELD_NUMBER: _ClassVar[int]
    EVERY_S_FIELD_NUMBER: _ClassVar[int]
    FAILS_FIELD_NUMBER: _ClassVar[int]
    WARMUP_PATH_FIELD_NUMBER: _ClassVar[int]
    WARMUP_BODY_FIELD_NUMBER: _ClassVar[int]
    WARMUP_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    path: str
    start_within_s: float
    every_s: float
    fails: int
    warmup_path: str
    warmup_body: str
    warmup_requests: int
    def __init__(self, path: _Optional[str] = ..., start_within_s: _Optional[float] = ..., every_s: _Optional[float] = ..., fails: _Optional[int] = ..., warmup_path: _Optional[str] = ..., warmup_body: _Optional[str] = ..., warmup_requests: _Optional[int] = ...) -> None: ...

class Weave(_message.Message):
    __slots__ = ("id", "place", "size", "order", "limit_s")
    ID_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    id: str
    place: int
    size: int
    order: str
    limit_s: float
    def __init__(self, id: _Optional[str] = ..., place: _Optional[int] = ..., size: _Optional[int] = ..., order: _Optional[str] = ..., limit_s: _Optional[float] = ...) -> None: ...

class ReweaveRun(_message.Message):
    __slots__ = ("epoch", "job", "run", "weave")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    WEAVE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    job: str
    run: int
    weave: Weave
    def __init__(self, epoch: _Optional[int] = ..., job: _Optional[str] = ..., run: _Optional[int] = ..., weave: _Optional[_Union[Weave, _Mapping]] = ...) -> None: ...

class ServeTerminal(_message.Message):
    __slots__ = ("key", "job", "run", "command", "terminal")
    KEY_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    key: str
    job: str
    run: int
    command: _containers.RepeatedScalarFieldContainer[str]
    terminal: str
    def __init__(self, key: _Optional[str] = ..., job: _Optional[str] = ..., run: _Optional[int] = ..., command: _Optional[_Iterable[str]] = ..., terminal: _Optional[str] = ...) -> None: ...

class TerminalPart(_message.Message):
    __slots__ = ("key", "job", "run", "data", "command", "terminal", "exit_code", "node")
    KEY_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    key: str
    job: str
    run: int
    data: bytes
    command: _containers.RepeatedScalarFieldContainer[str]
    terminal: str
    exit_code: int
    node: str
    def __init__(self, key: _Optional[str] = ..., job: _Optional[str] = ..., run: _Optional[int] = ..., data: _Optional[bytes] = ..., command: _Optional[_Iterable[str]] = ..., terminal: _Optional[str] = ..., exit_code: _Optional[int] = ..., node: _Optional[str] = ...) -> None: ...

class StopRun(_message.Message):
    __slots__ = ("epoch", "job", "run", "why", "grace_s")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    job: str
    run: int
    why: str
    grace_s: float
    def __init__(self, epoch: _Optional[int] = ..., job: _Optional[str] = ..., run: _Optional[int] = ..., why: _Optional[str] = ..., grace_s: _Optional[float] = ...) -> None: ...

class SuspendRun(_message.Message):
    __slots__ = ("epoch", "job", "run", "suspended")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    job: str
    run: int
    suspended: bool
    def __init__(self, epoch: _Optional[int] = ..., job: _Optional[str] = ..., run: _Optional[int] = ..., suspended: _Optional[bool] = ...) -> None: ...

class Confirm(_message.Message):
    __slots__ = ("job", "run")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    job: str
    run: int
    def __init__(self, job: _Optional[str] = ..., run: _Optional[int] = ...) -> None: ...

class ReadLog(_message.Message):
    __slots__ = ("id", "job", "run", "offset", "lines", "stderr")
    ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    id: int
    job: str
    run: int
    offset: int
    lines: int
    stderr: bool
    def __init__(self, id: _Optional[int] = ..., job: _Optional[str] = ..., run: _Optional[int] = ..., offset: _Optional[int] = ..., lines: _Optional[int] = ..., stderr: _Optional[bool] = ...) -> None: ...

class LogPart(_message.Message):
    __slots__ = ("id", "offset", "text", "end", "missing", "size", "older")
    ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    OLDER_FIELD_NUMBER: _ClassVar[int]
    id: int
    offset: int
    text: bytes
    end: bool
    missing: bool
    size: int
    older: str
    def __init__(self, id: _Optional[int] = ..., offset: _Optional[int] = ..., text: _Optional[bytes] = ..., end: _Optional[bool] = ..., missing: _Optional[bool] = ..., size: _Optional[int] = ..., older: _Optional[str] = ...) -> None: ...

class LogTail(_message.Message):
    __slots__ = ("job", "run", "offset", "text")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    job: str
    run: int
    offset: int
    text: bytes
    def __init__(self, job: _Optional[str] = ..., run: _Optional[int] = ..., offset: _Optional[int] = ..., text: _Optional[bytes] = ...) -> None: ...

class Kept(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, jobs: _Optional[_Iterable[str]] = ...) -> None: ...

class DescribeRuns(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, jobs: _Optional[_Iterable[str]] = ...) -> None: ...

class RunRecord(_message.Message):
    __slots__ = ("job", "run", "record", "env", "ended")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    job: str
    run: int
    record: str
    env: _containers.RepeatedCompositeFieldContainer[Variable]
    ended: bool
    def __init__(self, job: _Optional[str] = ..., run: _Optional[int] = ..., record: _Optional[str] = ..., env: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ..., ended: _Optional[bool] = ...) -> None: ...

class Forget(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, jobs: _Optional[_Iterable[str]] = ...) -> None: ...

class BlobPart(_message.Message):
    __slots__ = ("bytes", "sha256")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    bytes: bytes
    sha256: str
    def __init__(self, bytes: _Optional[bytes] = ..., sha256: _Optional[str] = ...) -> None: ...

class BlobName(_message.Message):
    __slots__ = ("sha256",)
    SHA256_FIELD_NUMBER: _ClassVar[int]
    sha256: str
    def __init__(self, sha256: _Optional[str] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("token", "node")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    token: str
    node: str
    def __init__(self, token: _Optional[str] = ..., node: _Optional[str] = ...) -> None: ...

class JoinReply(_message.Message):
    __slots__ = ("token", "role", "user")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    token: str
    role: str
    user: str
    def __init__(self, token: _Optional[str] = ..., role: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class DeployRequest(_message.Message):
    __slots__ = ("description", "file", "chdir", "env", "dry_run", "image", "start")
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    CHDIR_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    description: str
    file: str
    chdir: str
    env: _containers.RepeatedCompositeFieldContainer[Variable]
    dry_run: bool
    image: str
    start: bool
    def __init__(self, description: _Optional[str] = ..., file: _Optional[str] = ..., chdir: _Optional[str] = ..., env: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ..., dry_run: _Optional[bool] = ..., image: _Optional[str] = ..., start: _Optional[bool] = ...) -> None: ...

class ServiceChange(_message.Message):
    __slots__ = ("service", "verb", "min_replicas", "max_replicas", "share", "concurrency", "now", "version")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    MIN_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    MAX_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    service: str
    verb: str
    min_replicas: int
    max_replicas: int
    share: str
    concurrency: int
    now: bool
    version: int
    def __init__(self, service: _Optional[str] = ..., verb: _Optional[str] = ..., min_replicas: _Optional[int] = ..., max_replicas: _Optional[int] = ..., share: _Optional[str] = ..., concurrency: _Optional[int] = ..., now: _Optional[bool] = ..., version: _Optional[int] = ...) -> None: ...

class RoutesRequest(_message.Message):
    __slots__ = ("address", "router")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    address: str
    router: str
    def __init__(self, address: _Optional[str] = ..., router: _Optional[str] = ...) -> None: ...

class RouteTable(_message.Message):
    __slots__ = ("number", "services")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    number: int
    services: _containers.RepeatedCompositeFieldContainer[ServiceRoute]
    def __init__(self, number: _Optional[int] = ..., services: _Optional[_Iterable[_Union[ServiceRoute, _Mapping]]] = ...) -> None: ...

class ServiceRoute(_message.Message):
    __slots__ = ("name", "replicas", "models", "queue_s", "answer_s", "idle_s", "drain_s", "retry", "max_queue", "balance", "failed", "health")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_S_FIELD_NUMBER: _ClassVar[int]
    ANSWER_S_FIELD_NUMBER: _ClassVar[int]
    IDLE_S_FIELD_NUMBER: _ClassVar[int]
    DRAIN_S_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    MAX_QUEUE_FIELD_NUMBER: _ClassVar[int]
    BALANCE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    name: str
    replicas: _containers.RepeatedCompositeFieldContainer[ReplicaRoute]
    models: _containers.RepeatedScalarFieldContainer[str]
    queue_s: float
    answer_s: float
    idle_s: float
    drain_s: float
    retry: str
    max_queue: int
    balance: str
    failed: str
    health: str
    def __init__(self, name: _Optional[str] = ..., replicas: _Optional[_Iterable[_Union[ReplicaRoute, _Mapping]]] = ..., models: _Optional[_Iterable[str]] = ..., queue_s: _Optional[float] = ..., answer_s: _Optional[float] = ..., idle_s: _Optional[float] = ..., drain_s: _Optional[float] = ..., retry: _Optional[str] = ..., max_queue: _Optional[int] = ..., balance: _Optional[str] = ..., failed: _Optional[str] = ..., health: _Optional[str] = ...) -> None: ...

class ReplicaRoute(_message.Message):
    __slots__ = ("name", "address", "concurrency", "draining", "version", "silent")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    concurrency: int
    draining: bool
    version: int
    silent: bool
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., concurrency: _Optional[int] = ..., draining: _Optional[bool] = ..., version: _Optional[int] = ..., silent: _Optional[bool] = ...) -> None: ...

class LoadReport(_message.Message):
    __slots__ = ("services", "drained", "router")
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    services: _containers.RepeatedCompositeFieldContainer[ServiceLoad]
    drained: _containers.RepeatedScalarFieldContainer[str]
    router: str
    def __init__(self, services: _Optional[_Iterable[_Union[ServiceLoad, _Mapping]]] = ..., drained: _Optional[_Iterable[str]] = ..., router: _Optional[str] = ...) -> None: ...

class ServiceLoad(_message.Message):
    __slots__ = ("service", "arrivals", "answered", "in_flight", "queued", "waiting_s", "ejected", "versions")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    ARRIVALS_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    WAITING_S_FIELD_NUMBER: _ClassVar[int]
    EJECTED_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    service: str
    arrivals: int
    answered: int
    in_flight: int
    queued: int
    waiting_s: float
    ejected: _containers.RepeatedScalarFieldContainer[str]
    versions: _containers.RepeatedCompositeFieldContainer[VersionLoad]
    def __init__(self, service: _Optional[str] = ..., arrivals: _Optional[int] = ..., answered: _Optional[int] = ..., in_flight: _Optional[int] = ..., queued: _Optional[int] = ..., waiting_s: _Optional[float] = ..., ejected: _Optional[_Iterable[str]] = ..., versions: _Optional[_Iterable[_Union[VersionLoad, _Mapping]]] = ...) -> None: ...

class VersionLoad(_message.Message):
    __slots__ = ("version", "answered", "errors")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    version: int
    answered: int
    errors: int
    def __init__(self, version: _Optional[int] = ..., answered: _Optional[int] = ..., errors: _Optional[int] = ...) -> None: ...

class LoadReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
