"""The messages and services of `weft.proto`, as the rest of Weft names them."""

from __future__ import annotations

from weft.wire.weft_pb2 import (
    ChangeReply,
    ChangeRequest,
    ExplainRequest,
    FactLine,
    JobSpec,
    JsonReply,
    LogChunk,
    LogsRequest,
    OperateRequest,
    QueryRequest,
    SubmitReply,
    SubmitRequest,
    Variable,
    WatchRequest,
)

__all__ = [
    "ChangeReply", "ChangeRequest", "ExplainRequest", "FactLine", "JobSpec", "JsonReply", "LogChunk", "LogsRequest",
    "OperateRequest", "QueryRequest", "SubmitReply", "SubmitRequest", "Variable", "WatchRequest",
]  # fmt: skip
