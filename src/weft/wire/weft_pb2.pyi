from google.protobuf.internal import containers as _containers
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
    __slots__ = ("name", "command", "chdir", "env", "params", "gpus", "memory_mb", "cpus", "ram_mb", "priority", "retries", "time_limit_s", "grace_s", "after", "array", "requeue_exits", "max_jobs_per_gpu", "gpu_ids", "gpu_model", "comment", "hold", "declared_s", "group", "gpu_pool")
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
    AFTER_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_EXITS_FIELD_NUMBER: _ClassVar[int]
    MAX_JOBS_PER_GPU_FIELD_NUMBER: _ClassVar[int]
    GPU_IDS_FIELD_NUMBER: _ClassVar[int]
    GPU_MODEL_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    DECLARED_S_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    GPU_POOL_FIELD_NUMBER: _ClassVar[int]
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
    after: _containers.RepeatedScalarFieldContainer[str]
    array: str
    requeue_exits: _containers.RepeatedScalarFieldContainer[int]
    max_jobs_per_gpu: int
    gpu_ids: _containers.RepeatedScalarFieldContainer[int]
    gpu_model: str
    comment: str
    hold: bool
    declared_s: float
    group: str
    gpu_pool: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., chdir: _Optional[str] = ..., env: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ..., params: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ..., gpus: _Optional[int] = ..., memory_mb: _Optional[_Iterable[int]] = ..., cpus: _Optional[int] = ..., ram_mb: _Optional[int] = ..., priority: _Optional[int] = ..., retries: _Optional[int] = ..., time_limit_s: _Optional[float] = ..., grace_s: _Optional[float] = ..., after: _Optional[_Iterable[str]] = ..., array: _Optional[str] = ..., requeue_exits: _Optional[_Iterable[int]] = ..., max_jobs_per_gpu: _Optional[int] = ..., gpu_ids: _Optional[_Iterable[int]] = ..., gpu_model: _Optional[str] = ..., comment: _Optional[str] = ..., hold: _Optional[bool] = ..., declared_s: _Optional[float] = ..., group: _Optional[str] = ..., gpu_pool: _Optional[_Iterable[int]] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("jobs", "key", "env", "chdir", "dry_run")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    CHDIR_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobSpec]
    key: str
    env: _containers.RepeatedCompositeFieldContainer[Variable]
    chdir: str
    dry_run: bool
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobSpec, _Mapping]]] = ..., key: _Optional[str] = ..., env: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ..., chdir: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ChangeRequest(_message.Message):
    __slots__ = ("verb", "jobs", "settings", "statuses", "group")
    VERB_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    verb: str
    jobs: _containers.RepeatedScalarFieldContainer[str]
    settings: _containers.RepeatedCompositeFieldContainer[Variable]
    statuses: _containers.RepeatedScalarFieldContainer[str]
    group: str
    def __init__(self, verb: _Optional[str] = ..., jobs: _Optional[_Iterable[str]] = ..., settings: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ..., statuses: _Optional[_Iterable[str]] = ..., group: _Optional[str] = ...) -> None: ...

class ChangeReply(_message.Message):
    __slots__ = ("ids", "refused")
    IDS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    refused: _containers.RepeatedCompositeFieldContainer[Variable]
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., refused: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ...) -> None: ...

class QueryRequest(_message.Message):
    __slots__ = ("what", "jobs", "limit", "since", "group")
    WHAT_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    what: str
    jobs: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    since: float
    group: str
    def __init__(self, what: _Optional[str] = ..., jobs: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ..., since: _Optional[float] = ..., group: _Optional[str] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: str
    def __init__(self, job: _Optional[str] = ...) -> None: ...

class JsonReply(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...

class LogsRequest(_message.Message):
    __slots__ = ("job", "run", "follow", "lines")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    job: str
    run: int
    follow: bool
    lines: int
    def __init__(self, job: _Optional[str] = ..., run: _Optional[int] = ..., follow: _Optional[bool] = ..., lines: _Optional[int] = ...) -> None: ...

class LogChunk(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: bytes
    def __init__(self, text: _Optional[bytes] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("after",)
    AFTER_FIELD_NUMBER: _ClassVar[int]
    after: int
    def __init__(self, after: _Optional[int] = ...) -> None: ...

class FactLine(_message.Message):
    __slots__ = ("position", "json")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    position: int
    json: str
    def __init__(self, position: _Optional[int] = ..., json: _Optional[str] = ...) -> None: ...

class OperateRequest(_message.Message):
    __slots__ = ("verb", "options")
    VERB_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    verb: str
    options: _containers.RepeatedCompositeFieldContainer[Variable]
    def __init__(self, verb: _Optional[str] = ..., options: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ...) -> None: ...
