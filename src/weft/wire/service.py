"""The service of `weft.proto`, as a table: its methods, and how both ends take them up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

import grpc

from weft.wire import messages as m

SERVICE: Final = "weft.v1.Scheduler"
MOST_BYTES: Final = 64 << 20
"""The largest message either end takes."""
OPTIONS: Final = (
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", MOST_BYTES),
    ("grpc.so_reuseport", 0),
    ("grpc.enable_http_proxy", 0),
)


class Method(NamedTuple):
    request: Any
    reply: Any
    kind: Literal["unary", "stream"] = "unary"


METHODS: Final = {
    "Submit": Method(m.SubmitRequest, m.SubmitReply),
    "Change": Method(m.ChangeRequest, m.ChangeReply),
    "Query": Method(m.QueryRequest, m.JsonReply),
    "Explain": Method(m.ExplainRequest, m.JsonReply),
    "Logs": Method(m.LogsRequest, m.LogChunk, "stream"),
    "Watch": Method(m.WatchRequest, m.FactLine, "stream"),
    "Operate": Method(m.OperateRequest, m.JsonReply),
}


def handler(of: Callable[[str], Callable[..., Any]]) -> grpc.GenericRpcHandler:
    """What a server takes up; `of` gives the function of each method."""
    made = {}
    for name, method in METHODS.items():
        make = grpc.unary_unary_rpc_method_handler if method.kind == "unary" else grpc.unary_stream_rpc_method_handler
        made[name] = make(of(name), method.request.FromString, method.reply.SerializeToString)
    return grpc.method_handlers_generic_handler(SERVICE, made)


def call(channel: grpc.Channel, name: str) -> Callable[..., Any]:
    """A method as a client calls it."""
    method = METHODS[name]
    make = channel.unary_unary if method.kind == "unary" else channel.unary_stream
    called: Callable[..., Any] = make(
        f"/{SERVICE}/{name}", request_serializer=method.request.SerializeToString,
        response_deserializer=method.reply.FromString,
    )  # fmt: skip
    return called
