"""The services of `weft.proto` as tables of methods, and the options of both ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

from weft.access.wire import messages as m

MAX_MESSAGE_BYTES: Final = 64 << 20
"""The largest message that a client or an agent accepts."""
MAX_RECEIVED_BYTES: Final = 16 << 20
"""The largest message that gRPC accepts on a server's port. It refuses a larger one without a hint."""
MAX_REQUEST_BYTES: Final = 4 << 20
"""The largest request, and the largest message of a stream. The server refuses larger ones before it decodes them."""
OPTIONS: Final = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
    ("grpc.enable_http_proxy", 0),
)


SERVER: Final = (
    *OPTIONS,
    ("grpc.max_receive_message_length", MAX_RECEIVED_BYTES),
    ("grpc.server.max_pending_requests", 20_000),
    ("grpc.server.max_pending_requests_hard_limit", 40_000),
    ("grpc.server_max_unrequested_time_in_server", 600),
    # otherwise gRPC refuses calls that are sent before the client knows the limit, instead of queueing them
    ("grpc.http.overload_protection", 0),
)
"""Options of servers: a burst of calls waits. By default gRPC rejects some calls of a burst of more than 1,000."""
CHANNEL: Final = (
    *OPTIONS,
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.use_local_subchannel_pool", 1),  # otherwise a new channel shares the reconnect delay of a failed one
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
"""Options of clients."""
Kind = Literal["unary", "stream", "upload", "both"]
"""Which sides send a stream of messages: none, the server, the client, or both."""


class Method(NamedTuple):
    """A method: the names of its messages, whose classes are created on first use, and its kind."""

    request_name: str
    reply_name: str
    kind: Kind = "unary"

    @property
    def request(self) -> Any:
        return getattr(m, self.request_name)

    @property
    def reply(self) -> Any:
        return getattr(m, self.reply_name)


SCHEDULER: Final = {
    "Submit": Method("SubmitRequest", "SubmitReply"),
    "Change": Method("ChangeRequest", "ChangeReply"),
    "Query": Method("QueryRequest", "JsonReply"),
    "Explain": Method("ExplainRequest", "JsonReply"),
    "WhatIf": Method("WhatIfRequest", "JsonReply"),
    "Logs": Method("LogsRequest", "LogChunk", "stream"),
    "Watch": Method("WatchRequest", "FactLine", "stream"),
    "Operate": Method("OperateRequest", "JsonReply"),
    "History": Method("HistoryRequest", "FactLines", "stream"),
    "Deploy": Method("DeployRequest", "JsonReply"),
    "ChangeService": Method("ServiceChange", "JsonReply"),
    "Routes": Method("RoutesRequest", "RouteTable", "stream"),
    "ReportLoads": Method("LoadReport", "LoadReply"),
}
AGENTS: Final = {"Attach": Method("AgentMessage", "SchedulerMessage", "both")}
BLOBS: Final = {"Put": Method("BlobPart", "BlobName", "upload"), "Get": Method("BlobName", "BlobPart", "stream")}
TERMINALS: Final = {
    "OpenTerminal": Method("TerminalPart", "TerminalPart", "both"),
    "ServeTerminal": Method("TerminalPart", "TerminalPart", "both"),
}
AUTH: Final = {"Join": Method("JoinRequest", "JoinReply"), "Manage": Method("OperateRequest", "JsonReply")}
SERVICES: Final = {"Scheduler": SCHEDULER, "Agents": AGENTS, "Blobs": BLOBS, "Terminals": TERMINALS, "Auth": AUTH}
PREFIX: Final = "weft.v1."
_CALLS: Final = {"unary": "unary_unary", "stream": "unary_stream", "upload": "stream_unary", "both": "stream_stream"}


def service_of(name: str) -> str:
    """Return the service that has this method. Method names are unique."""
    return next(service for service, methods in SERVICES.items() if name in methods)


def method_of(name: str) -> Method:
    return SERVICES[service_of(name)][name]


def call(channel: Any, name: str, service: str = "Scheduler") -> Callable[..., Any]:
    """Return a callable for the method, on a channel of grpc or of grpc.aio."""
    method = SERVICES[service][name]
    called: Callable[..., Any] = getattr(channel, _CALLS[method.kind])(
        f"/{PREFIX}{service}/{name}", request_serializer=method.request.SerializeToString,
        response_deserializer=method.reply.FromString,
    )  # fmt: skip
    return called
