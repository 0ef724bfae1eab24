"""The message classes of `weft.proto`.

Each class is created on first use, from the compiled schema and with protobuf's C implementation. The module that
protoc generates also loads protobuf's Python implementation, which is not used: every command would pay for it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from weft.access.wire.weft_pb2 import (
        AgentMessage,
        BlobName,
        BlobPart,
        ChangeReply,
        ChangeRequest,
        Confirm,
        DeployRequest,
        DescribeRuns,
        ExplainRequest,
        FactLine,
        FactLines,
        Forget,
        GangMember,
        Goodbye,
        GpuBlock,
        GpuMemory,
        GpuNews,
        GpuReading,
        GpuShare,
        GpuSpec,
        Heartbeat,
        HeartbeatReply,
        Hello,
        HistoryRequest,
        JobSpec,
        JoinReply,
        JoinRequest,
        JsonReply,
        Kept,
        LoadReply,
        LoadReport,
        LogChunk,
        LogPart,
        LogsRequest,
        LogTail,
        NodeSpec,
        NodeStatus,
        OperateRequest,
        Progress,
        QueryRequest,
        ReadLog,
        ReplicaHealth,
        ReplicaRoute,
        ReplicaStatus,
        ReweaveRun,
        RoutesRequest,
        RouteTable,
        RunEnd,
        RunNews,
        RunRecord,
        SchedulerMessage,
        ServeTerminal,
        ServiceChange,
        ServiceLoad,
        ServiceRoute,
        StageCounters,
        StageProfile,
        StartRun,
        StopRun,
        SubmitReply,
        SubmitRequest,
        SuspendRun,
        TerminalPart,
        Variable,
        VersionLoad,
        WatchRequest,
        Weave,
        Welcome,
        WhatIfRequest,
    )

__all__ = [
    "AgentMessage",
    "BlobName",
    "BlobPart",
    "ChangeReply",
    "ChangeRequest",
    "Confirm",
    "DeployRequest",
    "DescribeRuns",
    "ExplainRequest",
    "FactLine",
    "FactLines",
    "Forget",
    "GangMember",
    "Goodbye",
    "GpuBlock",
    "GpuMemory",
    "GpuNews",
    "GpuReading",
    "GpuShare",
    "GpuSpec",
    "Heartbeat",
    "HeartbeatReply",
    "Hello",
    "HistoryRequest",
    "JobSpec",
    "JoinReply",
    "JoinRequest",
    "JsonReply",
    "Kept",
    "LoadReply",
    "LoadReport",
    "LogChunk",
    "LogPart",
    "LogTail",
    "LogsRequest",
    "NodeSpec",
    "NodeStatus",
    "OperateRequest",
    "Progress",
    "QueryRequest",
    "ReadLog",
    "ReplicaHealth",
    "ReplicaRoute",
    "ReplicaStatus",
    "ReweaveRun",
    "RouteTable",
    "RoutesRequest",
    "RunEnd",
    "RunNews",
    "RunRecord",
    "SchedulerMessage",
    "ServeTerminal",
    "ServiceChange",
    "ServiceLoad",
    "ServiceRoute",
    "StageCounters",
    "StageProfile",
    "StartRun",
    "StopRun",
    "SubmitReply",
    "SubmitRequest",
    "SuspendRun",
    "TerminalPart",
    "Variable",
    "VersionLoad",
    "WatchRequest",
    "Weave",
    "Welcome",
    "WhatIfRequest",
]  # fmt: skip

SCHEMA: Final = os.path.join(os.path.dirname(__file__), "weft.binpb")
"""The output of protoc for weft.proto, which `make proto` writes."""
_SIGNALS: Final = signal.valid_signals()

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return _class_of(_schema().message_types_by_name[name])


@cache
def _schema() -> Any:
    """Return the file descriptor of weft.proto."""
    with open(SCHEMA, "rb") as file:
        files = file.read()
    at = 1  # a set of one file: a tag, its length as a varint, the file
    while files[at] & 0x80:
        at += 1
    return _implementation()[0]().AddSerializedFile(files[at + 1 :])


@cache
def _implementation() -> tuple[Any, Any]:
    """Return the pool of descriptors and the class of message classes."""
    try:
        from google._upb import _message
    except ImportError:  # protobuf without its C implementation
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.internal.python_message import GeneratedProtocolMessageType

        return DescriptorPool, GeneratedProtocolMessageType
    return _message.DescriptorPool, _message.MessageMeta


def _class_of(descriptor: Any) -> Any:
    """Return the class of a message. Create the classes of its fields first, as protobuf expects."""
    made = globals().get(descriptor.name)
    if made is None:
        for field in descriptor.fields:
            if field.message_type is not None:
                _class_of(field.message_type)
        made = globals()[descriptor.name] = _new_class(descriptor)
    return made


def _new_class(descriptor: Any) -> Any:
    from google.protobuf.message import Message

    with _signals_held_back():
        return _implementation()[1](descriptor.name, (Message,), {"DESCRIPTOR": descriptor, "__module__": __name__})


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """Deliver signals afterwards: protobuf crashes if a handler raises while it creates a class, as Ctrl-C does."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def shallow(name: str) -> Any:
    """Return the class of a message one level deep: its nested messages and texts are bytes."""
    return _shallow_classes()[name]


@cache
def _shallow_classes() -> dict[str, Any]:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto  # large requests alone need it

    file = FileDescriptorProto()
    _schema().CopyToProto(file)
    del file.service[:]
    for message in file.message_type:
        for field in message.field:
            if field.type in (FieldDescriptorProto.TYPE_MESSAGE, FieldDescriptorProto.TYPE_STRING):
                field.type = FieldDescriptorProto.TYPE_BYTES
                field.ClearField("type_name")
    schema = _implementation()[0]().AddSerializedFile(file.SerializeToString())  # in a pool where it is alone
    return {name: _new_class(descriptor) for name, descriptor in schema.message_types_by_name.items()}
